"""Noise (OpenDP) with its charge, the ledger and the budget, audits; `proofs/`: why each holds.

`kvariates.privacy.audit` is the function. Its module is `sys.modules`' and `from ... import`'s, who
go by the dotted name: ``from kvariates.privacy.audit import near``.
"""

from kvariates.privacy.audit import audit
from kvariates.privacy.ledger import Budget, BudgetError, Ledger
from kvariates.privacy.price import price

__all__ = ["Budget", "BudgetError", "Ledger", "audit", "price"]
