"""Memory of blocks that is used again when the caller has freed a block.

New memory costs a page fault for every few kilobytes, about as much as the copy of a block.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from kvariates.sources.pieces import Values


class BlockMemory:
    """Gives out matrices of one shape and type."""

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
        self._free: list[Values] = []

    def take(self) -> Values:
        """An empty matrix, in memory that no array uses."""
        memory = self._free.pop() if self._free else self._new()
        # Every view of `flat` refers to `flat`, because `flat` itself refers to no array. So its
        # end is the end of all of them.
        flat = np.frombuffer(memory.data, self.dtype)
        weakref.finalize(flat, self._free.append, memory).atexit = False
        return flat.reshape(self.shape)

    def _new(self) -> Values:
        try:
            return np.empty(self.shape, self.dtype)
        except MemoryError:
            size = self.shape[0] * self.shape[1] * self.dtype.itemsize
            raise MemoryError(
                f"there is no memory for a block of {size:,} bytes; give a smaller block_bytes"
            ) from None
