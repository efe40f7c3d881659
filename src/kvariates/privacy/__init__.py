"""Noise (OpenDP) with its charge, the ledger and the budget, audits; `proofs/` says why."""

from kvariates.privacy.auditing import audit
from kvariates.privacy.ledger import Budget, BudgetError, Ledger
from kvariates.privacy.price import price

__all__ = ["Budget", "BudgetError", "Ledger", "audit", "price"]
