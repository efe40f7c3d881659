"""Synopses: few weighted points that stand for many rows."""
