"""k-variates++ (Nock et al. 2016, Algorithm 0): the only D^2 sampler.

    for t = 1..k:  pick a row a with probability proportional to  weight(a) * D_t(probe(a))
                   draw the centre c_t from density(a)

D_t is the cost of the nearest of c_1..c_{t-1} (constant for t = 1). A setting is a choice of probe
(where the cost is measured) and density (how a picked row becomes a centre); docs/architecture.md
lists the family. The sampler asks a potential (made by a probe) and a density, and knows nothing
else of the data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates.numerics.draws import F64, I64


class Potential(ABC):
    """The cost of every row with the centres added so far; draws rows by weight * cost.

    Centres are one array: coordinates (k, d), or the indices (k,) of points of a metric space.
    `room`: an array for all of them. `points`: what drawn indices refer to. `weight`: of each of
    them; None if all are one.
    """

    points: Any
    weight: F64 | None

    def __init__(self, room: NDArray[Any]) -> None:
        self._centers, self._known = room, 0

    @property
    def centers(self) -> NDArray[Any]:
        """The centres added so far."""
        return self._centers[: self._known]

    def add(self, centers: NDArray[Any]) -> None:
        """Add all of these centres. The work may be put off until `flush`."""
        self._centers[self._known : self._known + len(centers)] = centers
        self._known += len(centers)

    @abstractmethod
    def add_best(self, candidates: NDArray[Any]) -> int:
        """Add the candidate that lowers the total most; return its index."""

    @abstractmethod
    def total(self) -> float:
        """Sum of weight * cost; of the weights if there is no centre yet."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> int:
        """Draw an index in proportion to weight * cost; by weight alone if all costs are zero."""

    def flush(self) -> None:  # noqa: B027
        """Do the work that `add` has put off."""


class Density(Protocol):
    """How a picked point becomes a centre."""

    def sample(
        self, points: Any, picked: I64, weight: F64 | None, rng: np.random.Generator
    ) -> NDArray[Any]:
        """Draw one centre for each picked index."""


@dataclass(frozen=True)
class Seeds:
    """`indices`: the points the centres were picked by."""

    centers: NDArray[Any]
    indices: I64


def check_drawn(density: object, values: object, shape: tuple[int, ...]) -> None:
    """ValueError unless a density gave finite numbers of this shape."""
    name = type(density).__name__
    array = np.asarray(values)
    if array.shape != shape or array.dtype.kind not in "fiub":
        raise ValueError(
            f"The density {name} returned {array.dtype} of shape {array.shape}; it must return "
            f"numbers of shape {shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"The density {name} returned NaN or infinity; its values must be finite.")


def greedy_trials(k: int) -> int:
    """scikit-learn's number of candidates per step."""
    return 2 + int(math.log(k))


def sample(
    potential: Potential, density: Density, k: int, rng: np.random.Generator, *, trials: int = 1
) -> Seeds:
    """Draw k centres, one `sample_step` each."""
    picked = [sample_step(potential, density, rng, trials=trials) for _ in range(k)]
    return Seeds(potential.centers, np.array(picked, dtype=np.int64))


def sample_step(
    potential: Potential, density: Density, rng: np.random.Generator, *, trials: int = 1
) -> int:
    """Draw one more centre, add it to the potential and return the index it was picked by.

    With trials > 1 (greedy seeding) every centre but the first is the best of so many draws. The
    distribution then differs from that of Algorithm 0, so its guarantee does not hold.
    """
    size = trials if trials > 1 and len(potential.centers) else 1
    if size > 1:
        potential.flush()
    picked = np.array([potential.draw(rng) for _ in range(size)], dtype=np.int64)
    candidates = density.sample(potential.points, picked, potential.weight, rng)
    check_drawn(density, candidates, (size, *potential.centers.shape[1:]))
    if size > 1:
        return int(picked[potential.add_best(candidates)])
    potential.add(candidates)
    return int(picked[0])
