"""How k centres get better."""
