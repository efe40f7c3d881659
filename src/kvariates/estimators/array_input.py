"""Arrays of other libraries as NumPy arrays: tensors of PyTorch and others, bfloat16.

Whatever has `__dlpack__` or `__array__` is taken, without a copy where that is possible. Data
frames, sparse matrices and lists stay as they are, for scikit-learn's validators.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.data.blocks import SourceBlocks
from kvariates.data.rows import SMALL_TYPES

SINGLE = SMALL_TYPES | {"float32"}  # types of which results are in float32
REAL = re.compile("bool|u?int(8|16|32|64)|float(16|32|64)|bfloat16")
FEW = 4  # features, for which kernels of their own are faster
SIZE = np.uint16(0x7FFF)  # the bits of a number without its sign
INFINITE = {"float16": 0x7C00, "bfloat16": 0x7F80}  # the least of what is not finite
STEP = 2**18  # values that are checked together
HOST = (1, 3, 11)  # devices of DLPack: processors, and memory of theirs that a GPU may read
NVIDIA = (2, 13)  # memory of a GPU; memory that the driver moves between it and the host
CUDA = "__cuda_array_interface__"


def check_readable(X: Any, name: str = "X") -> None:
    """TypeError if X is in the memory of a GPU, or belongs to a computation of gradients.

    `name`: for the message.
    """
    check_no_gradient(X, name)
    if _is_foreign(X) and _device(X)[0] not in HOST:
        raise TypeError(f"{name} is a {type(X).__name__} in the memory of a GPU; {copied(name)}.")


def check_no_gradient(X: Any, name: str) -> None:
    """TypeError if X belongs to a computation of gradients. `name`: for the message."""
    if _is_foreign(X) and getattr(X, "requires_grad", False):
        kind = type(X).__name__
        raise TypeError(f"{name} is a {kind} that requires a gradient; give {name}.detach().")


def copied(name: str) -> str:
    """What to do about an array on a GPU."""
    return f"give a copy in host memory, {name}.cpu() of PyTorch or {name}.get() of CuPy"


def gpu_of(X: Any) -> int | None:
    """The number of the NVIDIA GPU in whose memory X is; None if it is anywhere else."""
    if type(X) is np.ndarray or not _is_foreign(X):
        return None
    kind, number = _device(X)
    return number if kind in NVIDIA else None


def dtype_name(X: Any) -> str:
    """The type of an array of any library, as NumPy calls it."""
    return str(X.dtype).rsplit(".", maxsplit=1)[-1]


def row_type_name(given: str) -> str:
    """The type to which rows of this type are converted; "" if they are no real numbers."""
    if REAL.fullmatch(given) is None:
        return ""
    return "float32" if given in SINGLE else "float64"


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
    if not any(hasattr(X, name) for name in ("__dlpack__", "__array__", CUDA)):
        return False
    if isinstance(X, np.ndarray | np.generic | SourceBlocks | type) or sparse.issparse(X):
        return False
    frame = hasattr(X, "iloc") or hasattr(X, "columns") or hasattr(X, "__arrow_c_stream__")
    return not (frame or hasattr(X, "dask"))


def _device(X: Any) -> tuple[int, int]:
    """The kind of device, as DLPack counts them, and its number; a processor if X is silent."""
    tell = getattr(X, "__dlpack_device__", None)
    if tell is None:
        return (NVIDIA if hasattr(X, CUDA) else HOST)[0], 0
    kind, number = tell()
    return int(kind), int(number)


def _otherwise(X: Any, error: Exception) -> Any:
    """The array of an X that cannot be exported: of PyTorch's bfloat16, or by `__array__`."""
    if str(getattr(X, "dtype", "")) == "torch.bfloat16":
        return np.from_dlpack(X.float())  # float32 holds all its numbers
    if hasattr(X, "__array__") and hasattr(X, "__dlpack__"):
        with suppress(TypeError, ValueError, BufferError, RuntimeError):
            return np.asarray(X)
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    raise TypeError(f"X is a {type(X).__name__} that NumPy cannot read: {reason}") from None
