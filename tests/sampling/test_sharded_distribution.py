"""Draws by mass, and the potential of several shards: their exact laws."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from api import (
    EuclideanPotential,
    HostData,
    Rows,
    draw_proportional,
    euclidean_potential,
    sample,
)
from laws.shards import ShardData
from sampling import exact
from sampling.chi_square import ALPHA, chi_square, follows
from sampling.sets import groups

from kvariates import Dirac

MASS = np.array([0, 3, 1, 0, 0, 2, 10, 0.5, 0])
ROWS = np.array([[0.0, 0], [1, 0], [0, 2.5], [6, 5], [7, 3.5], [7, 3.5]])
WEIGHTS = np.array([1.0, 4, 0, 2, 0.5, 3])
CUTS = {"three shards": (1, 4), "one row a shard": (1, 2, 3, 4, 5), "an empty shard": (2, 2)}


def test_draws_are_in_proportion_to_the_masses():
    drawn = draw_proportional(MASS, 20_000, np.random.default_rng(5))
    assert chi_square(np.bincount(drawn, minlength=9), MASS / MASS.sum()) > ALPHA


class Fixed:
    """A generator whose numbers are all the same."""

    def __init__(self, number):
        self.number = number

    def random(self, size):
        return np.full(size, self.number)


@pytest.mark.parametrize("scale", [1.0, 2.0**-1000, 0.1])
def test_draws_at_the_ends_have_positive_mass(scale):
    """Rounding may carry a draw to the end of the sums: it is the last index of positive mass."""
    assert draw_proportional(MASS * scale, 2, Fixed(0.0)).tolist() == [1, 1]
    assert draw_proportional(MASS * scale, 2, Fixed(np.nextafter(1, 0))).tolist() == [7, 7]
    assert draw_proportional(MASS * scale, 1, Fixed(1.0)).tolist() == [7]
    assert draw_proportional(MASS * 0, 2, Fixed(0.3)).tolist() == [0, 0]


def sharded(X, weights, k, cuts, **options):
    parts = [Rows.of(np.ascontiguousarray(part)) for part in np.split(X, cuts)]
    masses = [None] * len(parts) if weights is None else np.split(weights, cuts)
    shards = [HostData(part, w) for part, w in zip(parts, masses, strict=True)]
    return euclidean_potential(ShardData(shards, **options), k)


@pytest.mark.parametrize("trials", [1, 3], ids=["plain", "greedy"])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_sequences_follow_their_law(weights, cuts, trials):
    rng = np.random.default_rng(3)
    found = []
    for _ in range(1500):
        potential = sharded(ROWS, weights, 3, cuts)
        seeds = sample(potential, Dirac(), 3, rng, trials=trials)
        found.append(tuple(seeds.indices.tolist()))
    assert np.array_equal(seeds.centers, ROWS[seeds.indices])
    assert follows(found, exact.sequence_law(exact.greedy_step(trials), ROWS, 3, weights)) > ALPHA


def test_rows_are_drawn_by_weight_once_all_lie_on_centres():
    X, rng = np.array([[0.0], [0], [4], [4], [4]]), np.random.default_rng(4)
    weights = np.array([1.0, 2, 0, 3, 1])
    later = []
    for _ in range(1500):
        potential = sharded(X, weights, 4, (1, 3))
        later += sample(potential, Dirac(), 4, rng).indices[2:].tolist()
        assert potential.total() == 0
    assert follows(later, dict(enumerate(weights / weights.sum()))) > ALPHA


def reverse_map(ask, *arguments):
    return reversed([ask(*a) for a in reversed(list(zip(*arguments, strict=True)))])


@pytest.mark.parametrize("trials", [1, 4], ids=["plain", "greedy"])
def test_it_does_not_matter_who_computes_a_shard(trials):
    X, _ = groups([900, 500, 300, 90, 10], spread=0.3)
    weights = np.random.default_rng(1).exponential(size=len(X))
    with ThreadPoolExecutor(3) as pool:
        found = [
            sample(
                sharded(X, weights, 30, (100, 900, 1300), map=any_map),
                Dirac(), 30, np.random.default_rng(2), trials=trials,
            )
            for any_map in (map, pool.map, reverse_map)
        ]  # fmt: skip
    assert len(set(found[0].indices.tolist())) == 30
    for other in found[1:]:
        assert np.array_equal(found[0].indices, other.indices)
        assert np.array_equal(found[0].centers, other.centers)


@pytest.mark.parametrize("trials", [1, 3], ids=["plain", "greedy"])
@pytest.mark.parametrize("weighted", [False, True])
def test_any_cut_picks_the_rows_that_memory_picks(weighted, trials):
    """The same rows, totals and masses for 1, 2, 3 and 17 shards, empty ones included."""
    X, _ = groups([300, 100, 50], spread=0.5)
    X = X * 10.0 ** np.random.default_rng(1).integers(-6, 6, size=(len(X), 1))
    weights = np.random.default_rng(1).exponential(size=len(X)) if weighted else None
    whole = EuclideanPotential(Rows.of(X), weights, 40)
    picked = sample(whole, Dirac(), 40, np.random.default_rng(3), trials=trials)
    many = np.sort(np.random.default_rng(2).integers(len(X), size=16))
    for cuts in ((), (200,), (70, 70), tuple(many)):
        parts = sharded(X, weights, 40, cuts)
        found = sample(parts, Dirac(), 40, np.random.default_rng(3), trials=trials)
        assert np.array_equal(found.indices, picked.indices)
        assert parts.total() == whole.total()
        assert np.array_equal(parts.masses(), whole.masses())
        again = np.random.default_rng(5), np.random.default_rng(5)
        assert np.array_equal(parts.draw_many(99, again[0]), whole.draw_many(99, again[1]))
    assert np.array_equal(parts.points.take(np.array([449, 0, 150])), X[[449, 0, 150]])


@pytest.mark.parametrize(
    "parts", [([[0.0], [1e-170]], [[1.0], [1.0]]), ([[0.0], [0.0]], [[1e-170], [1e-170]])]
)
def test_shards_refuse_what_memory_refuses(parts):
    """Whether squares vanish depends on all rows, not on those of one shard."""
    X = np.vstack(parts)
    outcomes = []
    for potential in (EuclideanPotential(Rows.of(X), None, 3), sharded(X, None, 3, (2,))):
        try:
            outcomes.append(
                sample(potential, Dirac(), 3, np.random.default_rng(0)).indices.tolist()
            )
        except ValueError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
