"""Parties that do not share their rows or columns, and those who ask them."""
