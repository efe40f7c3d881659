"""Algorithm 0 for every density and probe: picks, and centres given the picks, follow their law.

The law of a pick given the centres so far is weight * D^2 at the probes: the place of the pick in
that law must be uniform. The law of a centre given the pick is that of the density. RUNS is large
enough to see each of these mistakes: weights left out, D instead of D^2, a probe that is one step
late, a peer that answers with the picked row.
"""

import numpy as np
import pytest
from api import Rows
from sampling.chi_square import ALPHA, chi_square, uniform
from scipy import stats
from scipy.spatial.distance import cdist

import kvariates as kv
from kvariates import kvariates_plusplus

N, K, RUNS = 60, 4, 1000
RNG = np.random.default_rng(20)
X = RNG.normal(size=(N, 2)) + 4 * RNG.integers(0, 3, size=(N, 1))
X = X[np.argsort((X**2).sum(axis=1))]  # in this order a stretched law is seen
WEIGHTS = RNG.integers(0, 4, size=N).astype(float)
PEERS = RNG.integers(0, 5, size=N)
BATCHES = [np.sort(RNG.permutation(N)[:25]) for _ in range(K)]
OF = RNG.integers(0, 12, size=N)
POINTS = np.stack([X[j == OF].mean(axis=0) for j in range(12)])
EVERYONE = np.arange(N)

DENSITIES = {
    "dirac": kv.Dirac(),
    "laplace": kv.Laplace(0.3),
    "gaussian": kv.Gaussian(np.array([0.2, 0.6])),
    "uniform": kv.UniformOver(PEERS),
    "uniform, then laplace": kv.UniformOver(PEERS, then=kv.Laplace(0.3)),
}


def mirrored(rows, t):
    """Mirror the rows through their mean in every other step."""
    return rows if t % 2 else 2 * rows.mean(axis=0) - rows


# The probe, and for step t (from 0) the rows that may be picked and where they are measured.
PROBES = {
    "every point": (kv.EveryPoint(), lambda t: (EVERYONE, X)),
    "mini-batches": (kv.MiniBatches(BATCHES), lambda t: (BATCHES[t], X[BATCHES[t]])),
    "callable": (mirrored, lambda t: (EVERYONE, mirrored(X, t + 1))),
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
        # All impossible picks go into one cell.
        out[:, t] = np.where(mass > 0, below + rng.random(len(runs)) * mass, 0.0)
    return out


def drawn(weights=None, **pair):
    rng = np.random.default_rng(8)
    return [
        kvariates_plusplus(X, K, sample_weight=weights, random_state=rng, **pair)
        for _ in range(RUNS)
    ]


@pytest.mark.parametrize(
    ("probe", "density", "weighted"),
    [
        *((probe, "dirac", weighted) for probe in PROBES for weighted in (False, True)),
        *((probe, "uniform, then laplace", True) for probe in PROBES),
        *(("every point", density, False) for density in ("laplace", "gaussian", "uniform")),
    ],
)
def test_picks_follow_the_law(probe, density, weighted):
    at, where = PROBES[probe]
    weights = WEIGHTS if weighted else np.ones(N)
    runs = drawn(WEIGHTS if weighted else None, density=DENSITIES[density], probe=at)
    found = places(runs, where, weights)
    assert uniform(found) > ALPHA
    assert uniform(found[:, 1:].sum(axis=1) % 1) > ALPHA  # the picks of a run are independent
    if probe == "callable":  # another probe is another law
        assert uniform(places(runs, lambda t: (EVERYONE, X), weights)) < ALPHA


def test_synopses_are_picked_by_the_weight_of_their_rows():
    weights = np.where(OF < 6, 3.0, 1.0)
    runs = drawn(weights, probe=kv.Synopses(POINTS, OF))
    found = places(runs, lambda t: (np.arange(12), POINTS), np.bincount(OF, weights, 12))
    assert uniform(found) > ALPHA
    assert all((s.centers == POINTS[s.indices]).all() for s in runs)


@pytest.mark.parametrize(
    ("density", "law", "scale"),
    [("laplace", stats.laplace, 0.3), ("gaussian", stats.norm, np.array([0.2, 0.6]))],
)
def test_noise_has_its_law(density, law, scale):
    runs = drawn(density=DENSITIES[density])
    noise = np.concatenate([s.centers - X[s.indices] for s in runs])
    assert uniform(law.cdf(noise / scale).ravel()) > ALPHA


def test_a_peer_answers_with_any_of_its_rows_by_weight():
    runs = drawn(WEIGHTS, density=kv.UniformOver(PEERS))
    picks = np.concatenate([s.indices for s in runs])
    rows = cdist(np.concatenate([s.centers for s in runs]), X).argmin(axis=1)
    assert (PEERS[rows] == PEERS[picks]).all()
    # The picked row is the answer as often as its share says.
    shares = WEIGHTS / np.bincount(PEERS, WEIGHTS)[PEERS]
    own, chance = np.count_nonzero(rows == picks), shares[picks].mean()
    assert chi_square([own, len(picks) - own], [chance, 1 - chance]) > ALPHA
    for peer in range(5):
        members = np.flatnonzero(peer == PEERS)
        counts = np.bincount(rows[PEERS[picks] == peer], minlength=N)[members]
        assert chi_square(counts, shares[members]) > ALPHA / 5


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_kmeans_plusplus_is_dirac_at_every_point(weights):
    for seed in range(20):
        ours = kvariates_plusplus(X, 6, sample_weight=weights, random_state=seed)
        plain = kv.kmeans_plusplus(X, 6, sample_weight=weights, random_state=seed, n_local_trials=1)
        assert (ours.indices == plain[1]).all()
        assert (ours.centers == plain[0]).all()


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_means_and_traces_are_those_of_the_draws(density, weights):
    """Within six standard errors of 4000 draws: a false alarm in 1e8 a number."""
    rows, rng = Rows.of(X), np.random.default_rng(4)
    for row in (3, 40):
        draws = density.sample(rows, np.full(4000, row), weights, rng)
        off = draws - density.mean(rows, weights)[row]
        error = draws.std(axis=0) / np.sqrt(len(draws))
        assert (np.abs(off.mean(axis=0)) <= 6 * error + 1e-12).all()
        squares = (off**2).sum(axis=1)
        wrong_by = abs(squares.mean() - density.trace(rows, weights)[row])
        assert wrong_by <= 6 * squares.std() / np.sqrt(len(draws)) + 1e-12
