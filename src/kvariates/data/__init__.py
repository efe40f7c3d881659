"""Rows in memory, metric spaces, and all calls of the native code."""
