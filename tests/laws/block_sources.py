"""Blocks for tests: rows in memory, cut in any way, and a count of the passes over them."""

import weakref

import numpy as np
from api import Block, SourceBlocks


class CutRows(SourceBlocks):
    """The rows of X between the cuts. Every block is a new matrix, as if it were read."""

    names, n_rows, repeatable, description = None, None, True, "test blocks"

    def __init__(self, X, weight=None, cuts=(), *, names=None, repeatable=True, fails_in_pass=None):
        self.X, self.weight = X, weight
        self.names, self.repeatable, self.fails_in_pass = names, repeatable, fails_in_pass
        self.ends = [*sorted(cuts), X.shape[0]]
        self.passes, self.blocks_read = 0, 0
        self.most_alive = 0  # blocks in memory when another is read
        self._read_before = []

    def __iter__(self):
        self.passes += 1
        first = 0
        for end in self.ends:
            if self.passes == self.fails_in_pass and end == self.ends[-1]:
                raise OSError("the disk is gone")
            yield self._read(first, end)
            first = end

    def _read(self, first, end):
        self._read_before = [block for block in self._read_before if block() is not None]
        self.most_alive = max(self.most_alive, len(self._read_before))
        X = self.X[first:end].copy()
        self._read_before.append(weakref.ref(X))
        self.blocks_read += 1
        weight = None if self.weight is None else self.weight[first:end].copy()
        return Block(X, weight, first)

    def __getstate__(self):
        return self.__dict__ | {"_read_before": []}


def random_cuts(n, count, seed=0):
    """Return places at which n rows are cut; some blocks are empty."""
    drawn = np.random.default_rng(seed).integers(n + 1, size=count)
    return [*drawn.tolist(), 0, n // 2, n // 2]
