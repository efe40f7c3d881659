"""Questions whose answers are integers, and how such answers are added up behind masks.

| question | answer | masked as |
|---|---|---|
| assign | limbs of sums and weights of the clusters, counts, changed labels | words modulo 2^64 |
| column_sums | limbs of the sums of the columns | words modulo 2^64 |
| evaluate, spread | a cost | one integer modulo 2^(64 * WIDE) |

The masks of all peers cancel in the total, which has the same bits as without masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvariates.data.exact_sums import LIMBS, from_float
from kvariates.numerics.draws import I64
from kvariates.peers.masks import PairwiseKeys
from kvariates.peers.questions import Answer, scale_of_numbers

WIDE = 34  # words; an `exact_total` has less than 2^2144, and there are at most 256 peers

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class SummedRule:
    """How the answers to a question are added up.

    Attributes
    ----------
    shapes : callable
        From the number of features and the arguments to the shapes of the parts of the answer.
    wide : bool
        Whether the answer is one integer of `WIDE` words.
    """

    shapes: Callable[[int, dict[str, Any]], Shapes]
    wide: bool = False


def _assign(d: int, arguments: dict[str, Any]) -> Shapes:
    k, levels = len(arguments["centers"]), scale_of_numbers(arguments["scale"]).levels
    return {
        "sums": (levels, k, LIMBS, d), "weights": (1, k, LIMBS, 1), "counts": (k,), "changed": (),
    }  # fmt: skip


SUMMED: dict[str, SummedRule] = {
    "assign": SummedRule(_assign),
    "column_sums": SummedRule(lambda d, _: {"limbs": (1, 1, LIMBS, d)}),
    "evaluate": SummedRule(lambda *_: {"cost": (WIDE,)}, wide=True),
    "spread": SummedRule(lambda *_: {"spread": (WIDE,)}, wide=True),
}


@dataclass(frozen=True, eq=False)
class SummedQuestion:
    """A question of which only the total of all peers will be known. Pre: its name is in SUMMED."""

    name: str
    arguments: dict[str, Any]
    d: int  # features

    @property
    def _rule(self) -> SummedRule:
        return SUMMED[self.name]

    @property
    def _shapes(self) -> Shapes:
        return self._rule.shapes(self.d, self.arguments)

    @property
    def size(self) -> int:
        """The number of words of a masked answer."""
        return sum(map(math.prod, self._shapes.values()))

    def masked(self, answer: Answer, keys: PairwiseKeys, round_number: int, asked: bytes) -> I64:
        """The words that a peer sends. See `PairwiseKeys.mask`."""
        if self._rule.wide:
            (name,) = self._shapes
            value = answer[name]
            whole = from_float(value) if isinstance(value, float) else int(value)
            masked = whole + keys.wide_mask(WIDE, round_number, asked)
            data = (masked % (1 << 64 * WIDE)).to_bytes(8 * WIDE, "little")
            return np.frombuffer(data, "<i8").astype(np.int64)
        parts = [np.ravel(np.asarray(answer[name], dtype=np.int64)) for name in self._shapes]
        words = np.concatenate(parts).view(np.uint64)
        return (words + keys.mask(len(words), round_number, asked)).view(np.int64)

    def total(self, masked: Sequence[I64]) -> Answer:
        """The answer for the rows of all peers. Pre: each has `size` words."""
        if self._rule.wide:
            (name,) = self._shapes
            numbers = [int.from_bytes(words.astype("<i8").tobytes(), "little") for words in masked]
            return {name: sum(numbers) % (1 << 64 * WIDE)}
        rest = np.zeros(self.size, dtype=np.int64)
        for words in masked:
            rest = (rest.view(np.uint64) + words.view(np.uint64)).view(np.int64)
        answer: Answer = {}
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            part, rest = rest[:size].reshape(shape), rest[size:]
            answer[name] = part if shape else int(part)
        return answer
