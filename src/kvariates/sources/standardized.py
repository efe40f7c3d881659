"""Blocks whose columns get mean 0 and deviation 1, as `standardize` does with a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kvariates.data.blocks import Block, SourceBlocks
from kvariates.sources.scaling import Scale, scale_of


class StandardizedBlocks(SourceBlocks):
    """The blocks of a source, standardized when they are read. The scale needs one pass.

    Pre: the blocks are dense.
    """

    def __init__(self, source: SourceBlocks) -> None:
        self._source = source
        self.scale = _scale(source)

    @property
    def names(self) -> tuple[str, ...] | None:
        return self._source.names

    @property
    def n_rows(self) -> int | None:
        return self._source.n_rows

    @property
    def repeatable(self) -> bool:
        return self._source.repeatable

    @property
    def description(self) -> str:
        return self._source.description

    def __iter__(self) -> Iterator[Block]:
        for block in self._source:
            X = (block.X - self.scale.mean) / self.scale.spread
            yield replace(block, X=X.astype(block.X.dtype))
        self.rows_dropped, self.rows_read = self._source.rows_dropped, self._source.rows_read


def _scale(source: SourceBlocks) -> Scale:
    """Mean and deviation by one pass: those of blocks are combined (Chan et al. 1979)."""
    total, mean, squares = 0.0, np.zeros(1), np.zeros(1)
    for block in source:
        weight = np.ones(block.X.shape[0]) if block.weight is None else block.weight
        mass = float(weight.sum())
        if mass == 0:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            own = weight @ block.X / mass
            apart, both = own - mean, total + mass
            squares = squares + weight @ (block.X - own) ** 2 + apart**2 * (total * mass / both)
            total, mean = both, mean + apart * (mass / both)
    return scale_of(mean, np.sqrt(squares / total))
