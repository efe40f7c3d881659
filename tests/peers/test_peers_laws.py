"""k-means over peers: the same bits however rows are cut, and whatever peers forget."""

from dataclasses import replace

import numpy as np
import pytest
from api import (
    PEER_SEEDINGS,
    SEEDINGS,
    Coordinator,
    Dirac,
    EuclideanPotential,
    HostData,
    PeersData,
    Rows,
    SeedingProblem,
    greedy_trials,
    guarantee_of,
    kmeans_parallel,
    sample,
)
from choice_tables import restructured_text
from laws.cases import fit, rows, start, weights_for
from peers.local_peers import ForgetfulTransport, fitted, in_blocks, local, shards_of
from scipy import sparse

CUTS = {"one": (), "three": (100, 350), "seven": (50, 51, 120, 300, 301, 444)}
every_cut = pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
weighted = pytest.mark.parametrize("weights", [None, weights_for(500)], ids=["plain", "weighted"])
EXACT = [name for name in PEER_SEEDINGS if name != "dk-means++"]


def in_memory(name, X, weights, k, rng):
    """The centres that are drawn from rows in memory, in their order."""
    if name == "k-means||":
        data = HostData(Rows.of(X), weights)
        return kmeans_parallel(SeedingProblem(data, k, pointwise=False, rng=rng)).centers
    trials = greedy_trials(k) if name == "k-means++" else 1
    return sample(
        EuclideanPotential(Rows.of(X), weights, k), Dirac(), k, rng, trials=trials
    ).centers


def over_peers(name, coordinator, k, rng):
    return SEEDINGS[name].run(SeedingProblem(PeersData(coordinator), k, rng=rng))


@every_cut
@weighted
@pytest.mark.parametrize("name", EXACT)
def test_exact_seedings_draw_the_rows_that_are_drawn_in_memory(name, weights, cuts):
    X = rows(500, 3, np.float32)
    expected = in_memory(name, X, weights, 20, np.random.default_rng(3))
    coordinator = Coordinator(local(shards_of(X, cuts, weights)), 1)
    found = over_peers(name, coordinator, 20, np.random.default_rng(3))
    np.testing.assert_array_equal(found, expected)


@every_cut
@weighted
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_lloyd_over_peers_is_lloyd_in_memory(layout, weights, cuts):
    X = rows(500, 3, np.float32, sparsity=0.3)
    init = start(X, 12)
    expected = fit(layout(X), init, weights)
    found = fitted(local(shards_of(layout(X), cuts, weights)), 12, init.astype(np.float64))
    np.testing.assert_array_equal(found.centers, expected.cluster_centers_)
    assert (found.inertia, found.n_iter) == (expected.inertia_, expected.n_iter_)


@weighted
@pytest.mark.parametrize("init", [*PEER_SEEDINGS, "array"])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_peers_that_read_their_rows_in_blocks_change_no_bit(layout, init, weights):
    """Also rows that fill empty clusters: half of all are equal."""
    X = rows(500, 3, np.float32, sparsity=0.3)
    X[::2] = X[0]
    shards = shards_of(layout(X), CUTS["three"], weights)
    init = X[:20].astype(np.float64) if init == "array" else init
    kept, read = (
        fitted(transport, 20, init)
        for transport in (local(shards), in_blocks(shards, [7, 40, 40, 211]))
    )
    np.testing.assert_array_equal(kept.centers, read.centers)
    assert (kept.inertia, kept.n_iter, kept.spread) == (read.inertia, read.n_iter, read.spread)


@pytest.mark.parametrize("init", PEER_SEEDINGS)
def test_a_lost_state_changes_no_bit(init):
    shards = shards_of(rows(500, 3), CUTS["three"], weights_for(500))
    kept, lost = fitted(local(shards), 20, init), fitted(ForgetfulTransport(shards), 20, init)
    np.testing.assert_array_equal(kept.centers, lost.centers)
    assert (kept.inertia, kept.n_iter, kept.converged) == (
        lost.inertia,
        lost.n_iter,
        lost.converged,
    )
    assert kept.transcript.rounds == lost.transcript.rounds
    assert kept.transcript.messages < lost.transcript.messages


def test_empty_clusters_are_filled_without_other_rows():
    """Two centres on one far point leave a cluster empty; rows with the same cost may be shown."""
    X = rows(300, 2)
    init = np.vstack([X[:2], [[99.0, 99.0], [99, 99]]])
    found = fitted(local(shards_of(X, (100, 200))), 4, init)
    np.testing.assert_array_equal(found.centers, fit(X, init).cluster_centers_)
    assert found.transcript.points_revealed == 2
    hidden = fitted(local(shards_of(X, (100, 200))), 4, init, shows_rows=False)
    assert hidden.transcript.points_revealed == 0
    assert np.isfinite(hidden.centers).all()


def test_the_bytes_of_a_centre_grow_with_peers_and_not_with_rows():
    def bytes_of(n, peers):
        cuts = np.arange(1, peers) * n // peers
        found = fitted(local(shards_of(rows(n, 4), cuts)), 8, "dk-means++", max_iter=0)
        assert found.transcript.points_revealed == 8
        return found.transcript.bytes_sent + found.transcript.bytes_received

    few, more_rows, ten_times = bytes_of(2000, 10), bytes_of(20_000, 10), bytes_of(2000, 100)
    assert more_rows == few
    assert 9 < ten_times / few < 11


def test_a_seeding_that_is_added_is_found_everywhere(monkeypatch):
    added = replace(PEER_SEEDINGS["d2"], help="Draws as before.", theorem=None, lost="it is new.")
    monkeypatch.setitem(SEEDINGS, "added", added)
    shards = shards_of(rows(200, 2), (60, 120))
    one, other = (fitted(local(shards), 5, init) for init in ("added", "d2"))
    np.testing.assert_array_equal(one.centers, other.centers)
    assert guarantee_of("added", 5, one) == "it is new."
    assert "Draws as before." in restructured_text()


def test_guarantees():
    shards = shards_of(rows(200, 2), (60, 120))
    found = fitted(local(shards), 5, "dk-means++")
    guarantee = guarantee_of("dk-means++", 5, found)
    spread = sum(((X - X.mean(axis=0)) ** 2).sum() for X, _ in shards)
    assert guarantee.theorem.startswith("Theorem 4")
    assert found.spread == pytest.approx(spread)
    assert guarantee_of("d2", 5, found).theorem.startswith("Theorem 2")
    assert "constant" in guarantee_of("k-means||", 5, found)
    assert "given" in guarantee_of(rows(5, 2), 5, found)
