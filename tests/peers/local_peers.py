"""Peers for tests: data cut into shards, and transports that lose what they can."""

import numpy as np

from kvariates.data.rows import Rows
from kvariates.peers.coordinator import Coordinator
from kvariates.peers.fitting import PeersProblem, fit_peers
from kvariates.peers.peer import TRUSTING, Peer
from kvariates.peers.transport import LocalTransport, reply_of


def shards_of(X, cuts, weight=None):
    """Return pairs of rows and weights."""
    parts = np.split(np.arange(X.shape[0]), cuts)
    return [(X[part], None if weight is None else weight[part]) for part in parts if len(part)]


def peers_of(shards, policy=TRUSTING):
    """Return the peers by name, each with its number as its seed."""
    return {
        f"peer {i}": Peer(Rows.of(X), weight, i, policy) for i, (X, weight) in enumerate(shards)
    }


def local(shards, **options):
    peers = peers_of(shards, **options)
    return LocalTransport({name: peer.answer for name, peer in peers.items()})


class SerialTransport:
    """Peers are asked one after the other."""

    def __init__(self, shards):
        self._shards, self._peers = shards, peers_of(shards)

    def peers(self):
        return list(self._peers)

    def send(self, envelopes):
        return {name: reply_of(self._peers[name].answer, e) for name, e in envelopes.items()}

    def end(self):
        pass


class ForgetfulTransport(SerialTransport):
    """Every message finds a peer that has just been started, and knows nothing."""

    def send(self, envelopes):
        self._peers = peers_of(self._shards)
        return super().send(envelopes)


def fitted(transport, k, init, seed=0, fit=5, least=None, **options):
    coordinator = Coordinator(transport, fit, least)
    problem = PeersProblem(k, init, **options)
    try:
        return fit_peers(coordinator, problem, np.random.default_rng(seed))
    finally:
        coordinator.end()
