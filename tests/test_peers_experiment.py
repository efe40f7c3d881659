"""The experiments on peers: both protocols, their traffic, and the statistics of the verdicts."""

import math

import numpy as np
import pytest
from api import EuclideanPotential, Rows, SummaryOptions, UniformOver, sample, theorem_4
from experiments import nock_fig3 as fig3
from experiments import nock_table1_peers as table1
from experiments import peer_data, peer_protocols
from experiments.peer_seeding import UniformInPeer, kmeans_parallel_run
from laws.cases import rows
from sampling import exact
from sampling.chi_square import ALPHA, chi_square, follows, unbiased

RUNS = 2500
X = np.array([[0.0], [1.0], [5.0], [6.0], [9.0], [20.0]])
PEER = np.array([0, 0, 1, 1, 1, 2])


def peer_step(peer):
    """Algorithm 0 with uniform densities: a peer by its potential, then one of its rows."""

    def step(D, weights, chosen):
        of_peer = np.bincount(peer, exact.plain_step(D, weights, chosen))
        return (of_peer / np.bincount(peer))[peer]

    return step


def split(data, peer):
    return [data[peer == i] for i in range(peer.max() + 1)]


def in_memory(peer, rng):
    potential = EuclideanPotential(Rows.of(X), None, 3)
    return sample(potential, UniformInPeer(peer), 3, rng).centers


def among_peers(peer, rng):
    return peer_protocols.dk_means_plusplus(split(X, peer), 3, rng).centers


@pytest.mark.parametrize("seeding", [in_memory, among_peers])
def test_dk_means_plusplus_follows_its_law(seeding):
    law, rng = exact.sequence_law(peer_step(PEER), X, 3), np.random.default_rng(1)
    found = [np.searchsorted(X[:, 0], seeding(PEER, rng)[:, 0]) for _ in range(RUNS)]
    assert follows([tuple(f.tolist()) for f in found], law) > ALPHA


def test_one_row_a_peer_is_kmeans_plusplus():
    law, rng = exact.sequence_law(exact.plain_step, X, 3), np.random.default_rng(2)
    found = [np.searchsorted(X[:, 0], among_peers(np.arange(6), rng)[:, 0]) for _ in range(RUNS)]
    assert follows([tuple(f.tolist()) for f in found], law) > ALPHA


def test_traffic_depends_on_peers_not_on_rows():
    k, d = 4, 3
    for n, m in ((5, 100), (5, 1000), (20, 1000)):
        data, peer = rows(m, d, seed=1), np.arange(m) % n
        run = peer_protocols.dk_means_plusplus(split(data, peer), k, np.random.default_rng(0))
        assert run.traffic.points == k
        assert run.traffic.messages == n + k * 2 * n
        assert run.traffic.numbers == n + k * ((n - 1) * d + n)
        options = SummaryOptions(50, k)
        theirs = peer_protocols.clustered_coreset(
            split(data, peer), options, np.random.default_rng(0)
        )
        assert theirs.traffic.messages == 4 * n
        assert n * k < theirs.traffic.points <= n * k + 50
        weighed = theirs.traffic.points * (d + 1)
        assert theirs.traffic.numbers == n + 2 * n + weighed + n * k * d
        assert math.isclose(theirs.coreset.total, m, rel_tol=1e-9)


def test_spread_and_moves():
    data, rng = rows(900, 3, seed=4), np.random.default_rng(5)
    peers = peer_data.PeerRows(data, rng.integers(7, size=900), 7)
    assert np.isclose(peers.spread(), UniformOver(peers.peer).trace(Rows.of(data), None).sum())
    empty = peer_data.PeerRows(data, 2 * (peers.peer // 2), 7)  # some peers have no rows
    assert np.isclose(empty.spread(), UniformOver(empty.peer).trace(Rows.of(data), None).sum())
    assert np.array_equal(peer_data.moved(peers, 0, rng).peer, peers.peer)
    everywhere = peer_data.moved(peer_data.PeerRows(data, np.zeros(900, int), 7), 100, rng)
    assert chi_square(np.bincount(everywhere.peer, minlength=7), np.full(7, 1 / 7)) > ALPHA
    stayed = (peer_data.moved(peers, 30, rng).peer == peers.peer).sum()
    share = 0.7 + 0.3 / 7
    assert chi_square([stayed, 900 - stayed], [share, 1 - share]) > ALPHA


@pytest.mark.parametrize("make", peer_data.BOXES.values(), ids=peer_data.BOXES)
def test_rows_are_uniform_in_boxes(make):
    rng = np.random.default_rng(6)
    boxes = make(3, 2, rng)
    box = np.repeat(np.arange(3), 700)
    u = (boxes.rows(box, rng) - boxes.low[box]) / boxes.sides[box]
    for column in u.T:
        counts = np.histogram(column, bins=10, range=(0, 1))[0]
        assert counts.sum() == 2100
        assert chi_square(counts, np.full(10, 0.1)) > ALPHA


def test_kmeans_parallel_draws_ten_candidates_a_centre():
    data, rng = Rows.of(rows(3000, 4, seed=7)), np.random.default_rng(7)
    runs = [kmeans_parallel_run(data, 5, rng) for _ in range(100)]
    mean, error = np.mean([run.candidates for run in runs]), math.sqrt(50 / 100)
    assert abs(mean - 51) < 5 * error  # the first, and Poisson(10) in each of 5 rounds
    assert min(run.cost for run in runs) > 0


def test_rho_and_its_errors():
    """Costs of one law give no difference; costs that are 2 % higher give one in each cell."""
    rng, shape = np.random.default_rng(8), (100, 3)
    found = []
    for _ in range(30):
        theirs, same = rng.normal(50, 2, (2, *shape))
        ours = {0: same, 50: 1.02 * rng.normal(50, 2, shape)}
        others = {"k-means++": theirs, "k-means||": same, "uniform": theirs}
        found.append(fig3.SetCosts(others, ours, {0: 1.0, 50: 20.0}, 4, 10.0))
    settings = fig3.Settings("small boxes", ks=(4, 5, 6), ps=(0, 50), sets=30, seeds=100)
    result = fig3.summarized(settings, found)
    plane = result.planes[0]
    assert plane.counts() == (0, 3, 3)
    assert np.allclose(plane.rho, [[0] * 3, [2] * 3], atol=0.5)
    assert np.allclose(plane.error, 100 * math.sqrt(2) * 2 / 50 / math.sqrt(3000), rtol=0.5)
    assert np.allclose(plane.lower[0], 50, atol=3)
    assert result.growth == [1.0, 20.0]
    assert result.planes[1].rho[0] == [0.0] * 3  # the same costs


def test_the_experiment_of_the_figure_runs(tmp_path):
    settings = fig3.Settings("small boxes", ks=(2, 3), ps=(0, 50), sets=2, seeds=2, rows=1200)
    result = fig3.measured(settings)
    assert result.growth[1] > 5
    fig3.save(fig3.Figure([result], [result], result), tmp_path)
    said = (tmp_path / "nock_fig3.txt").read_text(encoding="utf-8")
    assert "rho(k-means||) in %" in said
    assert {file.suffix for file in tmp_path.iterdir()} == {".txt", ".json", ".png"}


def test_the_experiment_of_the_table_runs():
    known = [*table1.box_sets(4, rows=400, k=3), *table1.sorted_set(rows(300, 2), [5], k=3)]
    results = [table1.measured(peers, [20], seeds=3) for peers in known]
    local, mixed, _ = results
    assert local.spread < mixed.spread
    assert local.bound < mixed.bound
    assert min(min(r.ours.costs) / r.opt for r in results) >= 1 - 1e-12
    assert all(r.ours.traffic.bytes < r.coresets[0].traffic.bytes for r in results)
    said = table1.text(results, 3)
    for row in ("(I)", "(II)", "(III)"):
        assert f"\n{row} " in said


def test_theorem_4_needs_a_first_peer_drawn_by_rows():
    """One peer with 60 rows at 0 and one with a row at 1."""
    shards, rng = [np.zeros((60, 1)), np.ones((1, 1))], np.random.default_rng(9)
    bound = theorem_4(1, opt=60 / 61, spread=0.0).bound
    centers = [peer_protocols.dk_means_plusplus(shards, 1, rng).centers[0, 0] for _ in range(2000)]
    costs = np.where(np.array(centers) == 0, 1.0, 60.0)[:, None]
    assert unbiased(costs, np.array([2 * 60 / 61]))
    assert 2 * 60 / 61 < bound < (1 + 60) / 2  # by rows; with either peer at chance 1/2
    assert table1.first_peer(60).count("does not") == 1
