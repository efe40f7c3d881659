"""Arrays of other libraries as NumPy arrays: tensors of PyTorch and others, bfloat16.

Whatever has `__dlpack__` or `__array__` is taken, without a copy where that is possible. Data
frames, sparse matrices and lists stay as they are, for scikit-learn's validators.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.data.blocks import SourceBlocks
from kvariates.data.rows import SMALL_TYPES

FEW = 4  # features, for which kernels of their own are faster
SIZE = np.uint16(0x7FFF)  # the bits of a number without its sign
INFINITE = {"float16": 0x7C00, "bfloat16": 0x7F80}  # the least of what is not finite
STEP = 2**18  # values that are checked together
HOST = (1, 3, 11)  # devices of DLPack: processors, and memory of theirs that a GPU may read
GPU = "give a copy in host memory, X.cpu() of PyTorch or X.get() of CuPy"


def check_readable(X: Any) -> None:
    """TypeError if X is in the memory of a GPU, or belongs to a computation of gradients."""
    kind = type(X).__name__
    if _is_foreign(X) and getattr(X, "requires_grad", False):
        raise TypeError(f"X is a {kind} that requires a gradient; give X.detach().")
    if _is_foreign(X) and _device(X) not in HOST:
        raise TypeError(f"X is a {kind} in the memory of a GPU; {GPU}.")


def host_array(X: Any) -> Any:
    """A NumPy array, if X is a readable array of another library; anything else as it is."""
    check_readable(X)
    if not _is_foreign(X):
        return X
    try:
        return np.from_dlpack(X) if hasattr(X, "__dlpack__") else np.asarray(X)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        return _otherwise(X, error)


def is_bfloat16(X: Any) -> bool:
    """Whether X is an array of the type of `ml_dtypes`, which validators do not know."""
    return isinstance(X, np.ndarray) and X.dtype.name == "bfloat16"


def is_small(X: Any) -> bool:
    """Whether kernels read X in its own type. They have none for few features."""
    small = isinstance(X, np.ndarray) and X.dtype.name in SMALL_TYPES
    return small and X.ndim == 2 and X.shape[1] > FEW


def checked_small(X: Any, check: Callable[..., Any]) -> Any:
    """X in C order, after a validator of scikit-learn has seen it. Pre: `is_small`."""
    if X.dtype.kind in "iu":
        return check(X, dtype=X.dtype, order="C")
    bits = check(X.view(np.uint16), dtype=np.uint16, order="C")
    step = max(1, STEP // X.shape[1])
    for first in range(0, len(X), step):
        if (bits[first : first + step] & SIZE).max() >= INFINITE[X.dtype.name]:
            check(X.astype(np.float32), dtype=np.float32)  # is refused, in the usual words
    return bits.view(X.dtype)


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
