"""Algorithm 0 for every density and probe: picks, and centres given the picks, follow their law.

A pick's law given the centres so far is weight * D^2 at the probes: its place in that law must be
uniform. A centre's law given the pick is the density's. ALPHA a test. RUNS is what it takes to see
each of these: weights left out, D instead of D^2, a probe that is a step late, a peer that answers
with the picked row.
"""

import numpy as np
import pytest
from sampling.chi_square import ALPHA, chi_square, uniform
from scipy import stats
from scipy.spatial.distance import cdist

from kvariates import (
    RECIPES,
    Dirac,
    EveryPoint,
    Gaussian,
    Laplace,
    MiniBatches,
    Synopses,
    UniformOver,
    kmeans_plusplus,
    kvariates_plusplus,
)
from kvariates.data.rows import Rows
from kvariates.seeding.probes import CallableProbe
from kvariates.seeding.sampler import Recipe, kvariates

N, K, RUNS = 60, 4, 1000
RNG = np.random.default_rng(20)
X = RNG.normal(size=(N, 2)) + 4 * RNG.integers(0, 3, size=(N, 1))
X = X[np.argsort((X**2).sum(axis=1))]  # in this order a law that is stretched looks it
WEIGHTS = RNG.integers(0, 4, size=N).astype(float)
PEERS = RNG.integers(0, 5, size=N)
BATCHES = [np.sort(RNG.permutation(N)[:25]) for _ in range(K)]
OF = RNG.integers(0, 12, size=N)
POINTS = np.stack([X[j == OF].mean(axis=0) for j in range(12)])

DENSITIES = {
    "dirac": Dirac(),
    "laplace": Laplace(0.3),
    "gaussian": Gaussian(np.array([0.2, 0.6])),
    "uniform": UniformOver(PEERS),
    "uniform, then laplace": UniformOver(PEERS, then=Laplace(0.3)),
}


def mirrored(rows, t):
    """Every other step the rows are seen through their mean, on the far side."""
    return rows if t % 2 else 2 * rows.mean(axis=0) - rows


# The probe, and where it measures and whom it may pick at step t (from 0).
PROBES = {
    "every point": (EveryPoint(), lambda t: (np.arange(N), X)),
    "mini-batches": (MiniBatches(BATCHES), lambda t: (BATCHES[t], X[BATCHES[t]])),
    "callable": (CallableProbe(mirrored), lambda t: (np.arange(N), mirrored(X, t + 1))),
}


def places(runs, where, weights):
    """Return, for every run and pick, a number that is uniform if the pick followed its law."""
    rng, out = np.random.default_rng(5), np.empty((len(runs), K))
    centers = np.stack([seeds.centers for seeds in runs])
    for t in range(K):
        rows, probes = where(t)
        squares = ((probes[None, :, None] - centers[:, None, :t]) ** 2).sum(axis=-1)
        share = weights[rows] * squares.min(axis=2, initial=np.inf if t else 1.0)
        law = share / share.sum(axis=1, keepdims=True)
        picked = rows == np.array([seeds.indices[t] for seeds in runs])[:, None]
        mass = (law * picked).sum(axis=1)
        below = (law * (picked.cumsum(axis=1) == 0)).sum(axis=1)
        # What cannot be picked is no matter of chance: all in one cell.
        out[:, t] = np.where(mass > 0, below + rng.random(len(runs)) * mass, 0.0)
    return out


def drawn(weights, probe=None, density=None):
    """Draw by the sampler itself: the public function, which draws the same, checks its input."""
    recipe = Recipe(probe or EveryPoint(), density or Dirac())
    space, rng = Rows.of(X), np.random.default_rng(8)
    return [kvariates(space, K, weights, recipe, 1, rng) for _ in range(RUNS)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("density", DENSITIES)
def test_picks_follow_the_law(density, probe, weighted):
    at, where = PROBES[probe]
    runs = drawn(WEIGHTS if weighted else None, density=DENSITIES[density], probe=at)
    found = places(runs, where, WEIGHTS if weighted else np.ones(N))
    assert uniform(found) > ALPHA
    # And the picks of a run know nothing of one another.
    assert uniform(found[:, 1:].sum(axis=1) % 1) > ALPHA


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("density", DENSITIES)
def test_the_public_function_draws_the_same(density, probe, weights):
    at, density = PROBES[probe][0], DENSITIES[density]
    given = mirrored if probe == "callable" else at
    for seed in range(5):
        one, other = np.random.default_rng(seed), np.random.default_rng(seed)
        plain = kvariates(Rows.of(X), K, weights, Recipe(at, density), 1, one)
        public = kvariates_plusplus(
            X, K, density=density, probe=given, sample_weight=weights, random_state=other
        )
        assert (public.indices == plain.indices).all()
        assert (public.centers == plain.centers).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_synopses_are_picked_by_their_rows_weight(weighted):
    weights = np.where(OF < 6, 3.0, 1.0) if weighted else np.ones(N)
    runs = drawn(weights if weighted else None, probe=Synopses(POINTS, OF))
    mass = np.bincount(OF, weights, 12)
    found = places(runs, lambda t: (np.arange(12), POINTS), mass)
    assert uniform(found) > ALPHA
    assert all((s.centers == POINTS[s.indices]).all() for s in runs)


@pytest.mark.parametrize("density", ["laplace", "gaussian"])
def test_noise_has_its_law(density):
    runs = drawn(None, density=DENSITIES[density])
    noise = np.concatenate([s.centers - X[s.indices] for s in runs])
    law = stats.laplace(scale=0.3) if density == "laplace" else stats.norm
    scale = 1.0 if density == "laplace" else np.array([0.2, 0.6])
    assert uniform(law.cdf(noise / scale).ravel()) > ALPHA


@pytest.mark.parametrize("weighted", [False, True])
def test_a_peer_answers_with_any_of_its_rows(weighted):
    weights = WEIGHTS if weighted else np.ones(N)
    runs = drawn(WEIGHTS if weighted else None, density=UniformOver(PEERS))
    picks = np.concatenate([s.indices for s in runs])
    rows = cdist(np.concatenate([s.centers for s in runs]), X).argmin(axis=1)
    assert (PEERS[rows] == PEERS[picks]).all()
    # Whichever row was picked: it is the answer as often as its share says.
    shares = weights / np.bincount(PEERS, weights)[PEERS]
    own, chance = np.count_nonzero(rows == picks), shares[picks].mean()
    assert chi_square([own, len(picks) - own], [chance, 1 - chance]) > ALPHA
    for peer in range(5):
        members = np.flatnonzero(peer == PEERS)
        counts = np.bincount(rows[PEERS[picks] == peer], minlength=N)[members]
        assert chi_square(counts, weights[members] / weights[members].sum()) > ALPHA / 5


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_kmeans_plusplus_is_dirac_at_every_point(weights):
    for seed in range(20):
        ours = kvariates_plusplus(X, 6, sample_weight=weights, random_state=seed)
        plain = kmeans_plusplus(X, 6, sample_weight=weights, random_state=seed, n_local_trials=1)
        assert (ours.indices == plain[1]).all()
        assert (ours.centers == plain[0]).all()


def test_a_wrong_probe_would_be_seen():
    runs = drawn(None, probe=CallableProbe(mirrored))
    assert uniform(places(runs, lambda t: (np.arange(N), X), np.ones(N))) < ALPHA


def test_the_table_is_the_papers():
    assert {setting.algorithm for setting in RECIPES.values()} == {
        "k-means++", "Dk-means++", "PDk-means++", "Sk-means++", "OLk-means++", "DP k-variates++",
    }  # fmt: skip
    assert RECIPES["batch"].probe is EveryPoint
    assert RECIPES["stream"].probe is Synopses
    assert RECIPES["on-line"].probe is MiniBatches
    assert RECIPES["private peers"].then is Laplace


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_means_and_traces_are_those_of_the_draws(density, weighted):
    """Within six standard errors of 4000 draws: a false alarm in 1e8 a number."""
    space, rng = Rows.of(X), np.random.default_rng(4)
    weights = WEIGHTS if weighted else None
    chosen = DENSITIES[density]
    for row in (3, 40):
        draws = chosen.sample(space, np.full(4000, row), weights, rng)
        mean = chosen.mean(space, weights)[row]
        off = draws - mean
        error = draws.std(axis=0) / np.sqrt(len(draws))
        assert (np.abs(off.mean(axis=0)) <= 6 * error + 1e-12).all()
        squares = (off**2).sum(axis=1)
        trace = chosen.trace(space, weights)[row]
        assert abs(squares.mean() - trace) <= 6 * squares.std() / np.sqrt(len(draws)) + 1e-12
