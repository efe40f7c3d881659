"""The libraries of arrays that tests use on a card."""

import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent

NO_CARD, torch, cupy = "", None, None
with warnings.catch_warnings():  # of their imports, which are not ours
    warnings.simplefilter("ignore")
    try:
        import cupy
        import torch

        if not torch.cuda.is_available():
            NO_CARD = "torch finds none"
    except ImportError as error:
        NO_CARD = str(error)

LIBRARIES = "numpy", "torch", "cupy"


def placed(X, library):
    """A copy of X as an array of this library, on the card unless it is of NumPy."""
    if library == "torch":
        return torch.as_tensor(X, device="cuda")
    return cupy.asarray(X) if library == "cupy" else X


def library_of(values):
    return type(values).__module__.split(".")[0]


def on_host(values):
    if hasattr(values, "cpu"):
        return values.cpu().numpy()
    return values.get() if hasattr(values, "get") else np.asarray(values)
