"""Peers for tests: data cut into shards, and transports that lose what they can."""

import numpy as np
from api import (
    TRUSTING,
    BlockData,
    Coordinator,
    CountedBlocks,
    FitOptions,
    HostData,
    Peer,
    PeersData,
    PublicBounds,
    Rows,
    SquaredEuclidean,
    SummedPeersData,
    fit_peers,
    read_weights,
    reply_of,
)
from laws.block_sources import CutRows
from peers.local_transport import LocalTransport


def shards_of(X, cuts, weight=None):
    """Return pairs of rows and weights."""
    parts = np.split(np.arange(X.shape[0]), cuts)
    return [(X[part], None if weight is None else weight[part]) for part in parts if len(part)]


def box_of(shards):
    """Return the tightest public bounds."""
    low = np.min([X.min(axis=0) for X, _ in shards if len(X)], axis=0)
    high = np.max([X.max(axis=0) for X, _ in shards if len(X)], axis=0)
    return PublicBounds(low.astype(np.float64), high.astype(np.float64))


def peers_of(shards, policy=TRUSTING):
    """Return the peers by name, each with its number as its seed."""
    return {
        f"peer {i}": Peer(HostData(Rows.of(X), weight), i, policy)
        for i, (X, weight) in enumerate(shards)
    }


def in_blocks(shards, cuts):
    """A transport to peers that read their rows in blocks; every second one has them in memory."""
    peers = peers_of(shards)
    for i, (X, weight) in list(enumerate(shards))[::2]:
        blocks = CutRows(X, weight, [cut for cut in cuts if cut < X.shape[0]])
        counted = CountedBlocks(blocks, lambda totals: None)
        weights = read_weights(counted)
        peers[f"peer {i}"] = Peer(BlockData(blocks, counted.totals, weights), i)
    return LocalTransport({name: peer.answer for name, peer in peers.items()})


def lying(question, change, shards, name="peer 1"):
    """A peer that changes its answers to one question."""
    honest = peers_of(shards)[name].answer

    def answer(envelope):
        found = honest(envelope)
        return change(found) if envelope.question.name == question else found

    return answer


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


def fitted(
    transport, k, init, seed=0, fit=5, least=None, bounds=None, secure_sums=False, shows_rows=True,
    **options,
):  # fmt: skip
    asked = Coordinator(transport, fit, least, bounds)
    try:
        data = SummedPeersData(asked) if secure_sums else PeersData(asked, shows_rows=shows_rows)
        options, rng = FitOptions(k, init, **options), np.random.default_rng(seed)
        return fit_peers(data, SquaredEuclidean(), options, rng)
    finally:
        asked.end()
