"""Differential privacy: queries, releases with charges, ledger and budget, audits, proofs."""

from kvariates.privacy.auditing import audit
from kvariates.privacy.budget import Budget, BudgetError
from kvariates.privacy.ledger import Ledger
from kvariates.privacy.price import price

__all__ = ["Budget", "BudgetError", "Ledger", "audit", "price"]
