"""Summaries: few weighted points for many rows."""
