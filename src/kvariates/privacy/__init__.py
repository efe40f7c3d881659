"""Privacy: noise from OpenDP, the ledger that counts it, audits that attack it."""
