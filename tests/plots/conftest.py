"""Plots without a window, whose figures are closed after each test."""

import matplotlib as mpl
import pytest

mpl.use("agg")


@pytest.fixture(autouse=True)
def closed():
    """Close all figures after a test."""
    from matplotlib import pyplot as plt

    yield
    plt.close("all")
