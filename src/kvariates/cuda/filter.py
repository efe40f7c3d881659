"""The nearest centre of each row on a card.

Products of half precision with a proven error decide most rows (docs/gpu_filter.md), and the
reference arithmetic the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.cuda.card import CardArray

REALS = {"float32": "float", "float64": "double", "float16": "half_t"}
FEW_CENTERS = 2  # up to so many are compared in float64
FEW_VALUES = 192  # the same with few features: so many values of all centres
SMALL_WORK = 2**26  # rows x centres x features up to which it is done in float64
MOST_FEATURES = 8192  # of the proof
SHORT = 16  # features below which a thread measures a distance alone
SAMPLE = 256  # rows that give the offset and the scale
FAR = 16  # a row is far if it is so many times as far from the middle as half of the rows
BLOCK = 256  # threads of a block in kernels without tensor cores
SLOT = 12  # numbers of a row that is not decided: see kernels/filter.cu
KEPT = 8  # counters; behind them is an address for tests
SHAPES = (  # (warps of a block, centres of a tile, tiles in shared memory), the best first
    (8, 128, 6), (8, 128, 5), (8, 128, 4), (8, 128, 3), (8, 128, 2), (8, 64, 3), (8, 64, 2),
    (4, 128, 4), (4, 128, 3), (4, 64, 4), (4, 64, 3), (4, 64, 2), (2, 64, 2), (1, 64, 2),
)  # fmt: skip
LEAST_ROOM = 4096  # for rows that are not decided at once; otherwise for an eighth of all rows
RESIDENT_WARPS = {1: 24, 2: 24, 3: 16, 4: 16}  # of a processor; as many as registers allow: else 8
MOST_STAGES = 3  # more do not help where rows stay in registers
WIDE_STEPS = 5  # sixteens of features from which on wgmma is used: faster for 8, slower for 2


@dataclass(frozen=True, eq=False)
class Changes:
    """The rows whose labels the last pass changed, on a card."""

    rows: CardArray  # int32 (n,), in any order; the first `count` are valid
    before: CardArray  # int32 (n,), their labels before; -1: none
    count: CardArray  # int64 (1,)

    @classmethod
    def for_rows(cls, card: Any, n: int) -> Changes:
        return cls(card.empty(n, np.int32), card.empty(n, np.int32), card.zeros(1, np.int64))

    def arrays(self) -> tuple[CardArray, CardArray, CardArray]:
        return self.rows, self.before, self.count


@dataclass(frozen=True)
class Shape:
    """What a block of the tensor kernels works on at once."""

    steps: int  # sixteens of features that a warp keeps in registers; 0: they pass through memory
    width: int  # features with padding
    warps: int
    tile: int  # centres
    stages: int  # tiles of centres in shared memory
    resident: int = 1  # blocks that a processor works on at once
    wide: bool = False  # whether four warps multiply together (wgmma, compute capability 9.0)

    def __post_init__(self) -> None:
        if (
            not self.steps and self.width < 96
        ):  # the next bias is stored two barriers before its use
            raise ValueError(
                "rows that pass through memory need at least three parts of 32 features"
            )

    @property
    def rows(self) -> int:
        return 32 * self.warps

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        chunk = 2 * self.steps if self.steps else 4
        stride = 16 * chunk + 16
        left, right, entries = self.rows * stride, self.tile * stride, 4 if self.steps else 8
        if self.wide:
            right = -(-chunk // 8) * 128 * self.tile
        tiles = left + self.stages * right if self.steps else self.stages * (left + right)
        biases = 24 if self.wide else 16
        return tiles + biases * self.tile + 8 * self.warps + 12 * entries * self.rows

    @property
    def least_warps(self) -> int:
        return 1 if self.steps else 2

    def defines(self) -> dict[str, int]:
        return {
            "KSTEPS": self.steps, "WARPS": self.warps, "TILE": self.tile, "STAGES": self.stages,
            **({"WIDE": 1} if self.wide else {}),
        }  # fmt: skip


def shape_for(
    n: int, d: int, k: int, processors: int, shared_memory: int, capability: int = 80
) -> Shape:
    """The largest blocks that fit, smaller ones if there are too few for all processors."""
    steps = -(-d // 16) if d <= 128 else 0
    width = 16 * steps if steps else -(-d // 32) * 32
    if capability == 90 and steps >= WIDE_STEPS and k > 64 and n >= 256 * processors:
        return Shape(steps, width, 8, 128, 4, wide=True)
    for warps, tile, stages in SHAPES:
        resident = RESIDENT_WARPS.get(steps, 8) // warps
        shape = Shape(steps, width, warps, tile, stages, resident)
        idle = warps > 4 and n < 32 * warps * processors
        wide = (steps and stages > MOST_STAGES) or k <= 64 < tile
        if not idle and not wide and warps >= shape.least_warps and shape.shared <= shared_memory:
            return replace(
                shape, resident=min(resident, shared_memory // (shape.shared + 1024)) or 1
            )
    raise ValueError(f"a block needs more than {shared_memory} bytes of shared memory")


def is_small(n: int, d: int, k: int) -> bool:
    """Whether float64 alone is faster."""
    few = k <= FEW_CENTERS or (d < SHORT and k * d <= FEW_VALUES)
    return few or n * k * d <= SMALL_WORK


class Halves:
    """Rows in half precision, which several filters may share while the rows do not change.

    `frame`: as `frame_of` makes it; None: it is made of some of the rows.
    """

    def __init__(
        self, card: Any, rows: CardArray, width: int, frame: NDArray[np.float64] | None = None
    ) -> None:
        n = len(rows)
        self.card, self.rows, self.width = card, rows, width
        self.real = {"REAL": REALS[rows.dtype.name]}
        self.frame = card.put(frame_of(self._sample()) if frame is None else frame)
        self.values, self.facts = card.empty((n, width), np.uint16), card.empty((n, 2), np.float32)
        self.squares = card.empty(n, np.float32)
        self.read(rows)

    def read(self, rows: CardArray) -> None:
        """Hold other rows instead: not more, in the same frame."""
        n, d = rows.shape
        self.rows = rows
        self.card.run(
            "half.cu", "half_rows", blocks_for(self.card, n, 16), BLOCK, rows, self.frame, n, d,
            self.width, self.values, self.facts, self.squares, defines=self.real,
        )  # fmt: skip

    def _sample(self) -> NDArray[np.float64]:
        """Some rows, in host memory."""
        n, d = self.rows.shape
        count = min(n, SAMPLE)
        out = self.card.empty((count, d), np.float64)
        self.card.run(
            "half.cu", "sample_rows", blocks_for(self.card, count * d, BLOCK), BLOCK, self.rows, n,
            d, count, out, defines=self.real,
        )  # fmt: skip
        sample: NDArray[np.float64] = out.get()
        return sample


def blocks_for(card: Any, count: int, of_a_block: int) -> int:
    """How many blocks share so many items."""
    return min(-(-count // of_a_block), 32 * int(card.processors))


class Filter:
    """Labels of one set of rows. Keeps their halves, and what the kernels need, between calls.

    Parameters
    ----------
    rows : (n, d), float32, float64 or float16.
    k : the number of centres.
    exact : whether to use float64 alone; None: if that is less work.
    shape : of the blocks; None: chosen by the sizes and the card.
    halves : of the same rows, of another filter (its `halves`); None: they are made.
    frame : of these halves, see `Halves`.
    more : further definitions for the kernels.

    Attributes
    ----------
    halves : None if float64 alone is used.
    """

    def __init__(
        self, card: Any, rows: CardArray, k: int, *, exact: bool | None = None,
        shape: Shape | None = None, halves: Halves | None = None,
        frame: NDArray[np.float64] | None = None, more: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._card, self._rows, self._k = card, rows, k
        self._n, self._d = rows.shape
        self._real = {"REAL": REALS[rows.dtype.name]}
        n, d = rows.shape
        exact = is_small(n, d, k) if exact is None else exact
        self.exact = exact or d > MOST_FEATURES or n == 0
        self.halves = halves
        if not self.exact:
            of_card = card.processors, card.shared_memory, card.capability
            self._prepare(shape or shape_for(n, d, k, *of_card), frame, more or {})

    def read(self, rows: CardArray) -> None:
        """Label other rows from now on: not more, and without the bounds of those before.

        Pre: the halves are its own.
        """
        self._rows, self._n, self._compared = rows, len(rows), False
        if self.halves is not None:
            self.halves.read(rows)
            self._sizes = self._sizes_of(self._n)

    def nearest(
        self, centers: CardArray, labels: CardArray, changes: Changes, moved: CardArray | None
    ) -> None:
        """Bring `labels` up to date, and list the changes.

        Parameters
        ----------
        centers : float64 (k, d).
        labels : int32 (n,); -1: none yet.
        moved : if not None, rows that cannot have another label are left out. For that the moves of
            the centres since the last call are measured here. Pre: `labels` are those of the last
            call, and so are the rows.
        """
        self._card.clear(changes.count)
        if self.exact:
            self._compare_in_float64(centers, labels, changes)
        else:
            self._compare_by_halves(centers, labels, changes, moved is not None)

    # -- float64 -----------------------------------------------------------------------------------

    def _compare_in_float64(self, centers: CardArray, labels: CardArray, changes: Changes) -> None:
        n, d, k, card = self._n, self._d, self._k, self._card
        if d < SHORT and (k <= SHORT or n >= 512 * card.processors):
            card.run(
                "filter.cu", "label_short_rows", -(-n // BLOCK), BLOCK, self._rows, centers,
                n, d, k, labels, *changes.arrays(), defines=self._real,
            )  # fmt: skip
            return
        each = min(max(n // (64 * card.processors), 1), 16)
        card.run(
            "filter.cu", "label_rows", -(-n // (BLOCK // 16 * each)), BLOCK, self._rows, centers,
            n, d, k, each, labels, *changes.arrays(), defines=self._real,
        )  # fmt: skip

    # -- halves ------------------------------------------------------------------------------------

    def _prepare(
        self, shape: Shape, frame: NDArray[np.float64] | None, more: dict[str, Any]
    ) -> None:
        n, d, k, card = self._n, self._d, self._k, self._card
        self.shape, self._defines = shape, shape.defines() | more
        self._padded = -(-k // shape.tile) * shape.tile
        self._room = min(n, max(n // 8, LEAST_ROOM))
        if self.halves is None or self.halves.width != shape.width:
            self.halves = Halves(card, self._rows, shape.width, frame)
        self._center_halves = card.empty((self._padded, shape.width), np.uint16)
        self._center_facts = card.empty((self._padded, 4), np.float32)
        self._known_sizes: dict[int, CardArray] = {}
        self._sizes = self._sizes_of(n)
        self._slots = card.empty((self._room, SLOT), np.int32)
        self._queue = card.empty(self._room + n, np.int32)
        self._counters = card.zeros(KEPT + 1, np.uint64)
        self._bounds = card.empty((n, 2), np.float32)
        self._last, self._moves = card.zeros((k, d), np.float64), card.empty(k, np.float32)
        self._list: CardArray | None = None
        self._compared = False  # whether there are bounds

    def _sizes_of(self, n: int) -> CardArray:
        """For kernels. The card is waited for only if no rows before were as many."""
        if n not in self._known_sizes:
            sizes = np.array([n, self._k, self.shape.width, self._room], np.int64)
            self._known_sizes[n] = self._card.put(sizes)
        return self._known_sizes[n]

    def _compare_by_halves(
        self, centers: CardArray, labels: CardArray, changes: Changes, bounded: bool
    ) -> None:
        n, d, card, shape, halves = self._n, self._d, self._card, self.shape, self.halves
        assert halves is not None  # noqa: S101
        card.clear(self._counters.part(0, KEPT))
        card.run(
            "half.cu", "half_centers", blocks_for(card, self._padded, 16), BLOCK, centers,
            halves.frame, self._k, self._padded, d, shape.width, self._center_halves,
            self._center_facts, self._last, self._moves, defines=self._real,
        )  # fmt: skip
        chosen = self._rows_to_compare(labels) if bounded and self._compared else None
        self._compared = True
        given = halves.values, halves.facts, self._center_halves, self._center_facts, self._sizes
        lists = self._slots, self._queue, self._counters
        blocks = min(-(-n // shape.rows), shape.resident * card.processors)
        how = {"shared": shape.shared, "defines": self._defines}
        card.run(
            "filter.cu", "find", blocks, shape.rows, *given, chosen, labels, *changes.arrays(),
            *lists, halves.squares, self._bounds, **how,
        )  # fmt: skip
        card.run("filter.cu", "list_candidates", blocks, shape.rows, *given, *lists, **how)
        card.run(
            "filter.cu", "decide", blocks_for(card, self._room, BLOCK), BLOCK, self._rows, centers,
            d, self._sizes, labels, *changes.arrays(), *lists, defines=self._real,
        )  # fmt: skip
        card.run(
            "filter.cu", "compare_all", blocks_for(card, n, 1), BLOCK, self._rows, centers, d,
            self._sizes, labels, *changes.arrays(), self._queue, self._counters, defines=self._real,
        )  # fmt: skip

    def _rows_to_compare(self, labels: CardArray) -> CardArray:
        """Those whose labels may have changed since the last call; counters know how many."""
        card = self._card
        self._list = self._list or card.empty(self._n, np.int32)
        card.run(
            "filter.cu", "choose_rows", min(-(-self._n // BLOCK), 8 * card.processors), BLOCK,
            self._moves, self._sizes, labels, self._bounds, self._list, self._counters,
            defines=self._real,
        )  # fmt: skip
        return self._list

    @property
    def measured_rows(self) -> tuple[int, int, int, int]:
        """Rows of the last call that were not decided at once.

        All of them; those that halves were compared for again; those that were compared with all
        centres in float64. The last number is that of rows that bounds left (0 without bounds).
        """
        slots, opened, left, listed = (int(v) for v in self._counters.get()[:4])
        return slots, opened, left, listed


def frame_of(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """A scale, a power of two, and the offset of each feature.

    The offset is the mean of the rows that are not far, and their scaled values are mostly below
    2^7. It is rounded so that small integers become halves without an error. Any other frame is
    right, too, but leaves more rows undecided.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        middle = np.median(sample, axis=0)
        largest = np.abs(sample - middle).max(axis=1)
        near = sample[largest <= FAR * np.median(largest)]
        offset = (near / len(near)).sum(axis=0) if len(near) else middle
        offset = np.where(np.isfinite(offset), offset, 0)
        size = float(np.abs(near - offset).max(initial=0))
    exponent = 7 - int(np.frexp(size)[1]) if 0 < size < np.inf else 0
    scale = 2.0 ** min(max(exponent, -400), 400)
    with np.errstate(over="ignore"):
        rounded = np.rint(offset * scale) / scale
    offset = np.where(np.isfinite(rounded), rounded, offset)
    return np.concatenate([[scale], offset])
