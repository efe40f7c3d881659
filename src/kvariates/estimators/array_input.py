"""Arrays of other libraries as NumPy arrays: tensors of PyTorch and others, bfloat16.

Whatever has `__dlpack__` or `__array__` is taken, without a copy where that is possible. Data
frames, sparse matrices and lists stay as they are, for scikit-learn's validators.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.data.blocks import SourceBlocks

HOST = (1, 3, 11)  # devices of DLPack: processors, and memory of theirs that a GPU may read
GPU = "give a copy in host memory, X.cpu() of PyTorch or X.get() of CuPy"


def host_array(X: Any) -> Any:
    """A NumPy array, if X is an array of another library; anything else as it is.

    TypeError if X is in the memory of a GPU, or belongs to a computation of gradients.
    """
    if not _is_foreign(X):
        return X
    kind = type(X).__name__
    if getattr(X, "requires_grad", False):
        raise TypeError(f"X is a {kind} that requires a gradient; give X.detach().")
    if _device(X) not in HOST:
        raise TypeError(f"X is a {kind} in the memory of a GPU; {GPU}.")
    try:
        return np.from_dlpack(X) if hasattr(X, "__dlpack__") else np.asarray(X)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        return _otherwise(X, error)


def is_bfloat16(X: Any) -> bool:
    """Whether X is an array of the type of `ml_dtypes`, which validators do not know."""
    return isinstance(X, np.ndarray) and X.dtype.name == "bfloat16"


def _is_foreign(X: Any) -> bool:
    if not (hasattr(X, "__dlpack__") or hasattr(X, "__array__")):
        return False
    if isinstance(X, np.ndarray | np.generic | SourceBlocks | type) or sparse.issparse(X):
        return False
    frame = hasattr(X, "iloc") or hasattr(X, "columns") or hasattr(X, "__arrow_c_stream__")
    return not (frame or hasattr(X, "dask"))


def _device(X: Any) -> int:
    """The kind of device, as DLPack counts them; a processor if X does not say it."""
    tell = getattr(X, "__dlpack_device__", None)
    return HOST[0] if tell is None else int(tell()[0])


def _otherwise(X: Any, error: Exception) -> Any:
    """The array of an X that cannot be exported: of PyTorch's bfloat16, or by `__array__`."""
    if str(getattr(X, "dtype", "")) == "torch.bfloat16":
        return np.from_dlpack(X.float())  # float32 holds all its numbers
    if hasattr(X, "__array__") and hasattr(X, "__dlpack__"):
        with suppress(TypeError, ValueError, BufferError, RuntimeError):
            return np.asarray(X)
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    raise TypeError(f"X is a {type(X).__name__} that NumPy cannot read: {reason}") from None
