"""Dk-means++ follows Algorithm 0 with the density that is uniform over a peer."""

import numpy as np
import pytest
from api import Coordinator, PeersData, SeedingProblem, dk_means_plusplus, sample_rows
from peers.local_peers import ForgetfulTransport, SerialTransport, shards_of
from sampling import exact
from sampling.chi_square import ALPHA, follows

ROWS = np.array([[0.0, 0], [1, 0], [0, 2.5], [6, 5], [7, 3.5], [7.5, 3.5]])
WEIGHTS = np.array([1.0, 4, 0.25, 2, 0.5, 3])
CUTS = {"three peers": (1, 4), "two peers": (2,)}
DRAWS = 1500


def uniform_over(cuts):
    """The law of one draw: a peer by its potential, then one of its rows by weight."""
    peer = np.searchsorted(cuts, np.arange(len(ROWS)), side="right")

    def step(D, weights, chosen):
        potential = np.bincount(peer, exact.potentials(D, weights, chosen))
        share = weights / np.bincount(peer, weights)[peer]
        return (potential / potential.sum())[peer] * share

    return step


def indices(centers):
    return tuple(int(np.flatnonzero((center == ROWS).all(axis=1))[0]) for center in centers)


def drawn(seeding, cuts, weights, transport=SerialTransport, k=3):
    shards, rng, found = shards_of(ROWS, cuts, weights), np.random.default_rng(7), []
    made = transport(shards)
    for fit in range(DRAWS):
        coordinator = Coordinator(made, fit)
        found.append(indices(seeding(coordinator, k, rng)))
        assert coordinator.transcript.points_revealed == k
    return found


def dk(coordinator, k, rng):
    return dk_means_plusplus(coordinator, k, rng)


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_dk_means_follows_algorithm_0(weights, cuts):
    law = exact.sequence_law(uniform_over(cuts), ROWS, 3, weights)
    assert follows(drawn(dk, cuts, weights), law) > ALPHA


def test_with_one_row_a_peer_it_is_kmeans_plusplus():
    law = exact.sequence_law(exact.plain_step, ROWS, 3, WEIGHTS)
    assert follows(drawn(dk, range(1, 6), WEIGHTS), law) > ALPHA


@pytest.mark.slow
def test_exact_seeding_over_peers_is_kmeans_plusplus():
    law = exact.sequence_law(exact.plain_step, ROWS, 3, WEIGHTS)

    def plain(coordinator, k, rng):
        return sample_rows(SeedingProblem(PeersData(coordinator), k, rng=rng)).centers

    assert follows(drawn(plain, (1, 4), WEIGHTS, ForgetfulTransport), law) > ALPHA
