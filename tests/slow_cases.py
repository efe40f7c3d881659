"""Cases of a test that only `make test-slow` runs."""

import pytest


def mark_slow(cases, slow):
    """The cases, with those that are in `slow` marked."""
    return [pytest.param(case, marks=pytest.mark.slow if case in slow else ()) for case in cases]
