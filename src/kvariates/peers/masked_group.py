"""The coordinator's side of secure sums: all peers are asked as one, and only totals are known.

A group has a fresh key of each peer. If a peer is dropped, masks do not cancel any more: the next
question opens a new group of those that are there. Peers that have joined take part from then on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from kvariates.data.assigners import FarRows
from kvariates.data.cluster_sums import ExactStatistics, SumScale
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.peers.bounds import PeerLimits
from kvariates.peers.coordinator import (
    WRONG_ANSWER,
    Call,
    Coordinator,
    PeerLost,
    ShardMissing,
    call,
)
from kvariates.peers.masked_peer import SummedQuestion
from kvariates.peers.masks import MOST_PARTIES, KeyPair, fingerprint
from kvariates.peers.questions import Answer
from kvariates.peers.remote_shards import PeersRows, RemoteAssigner, RemoteRows, S, T, no_rows

ALL_PEERS = "all peers"


class MaskedGroup:
    """The peers of a coordinator, of whose answers only totals are known."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._members: list[str] = []
        self._round = 0
        self._last = 0  # round of this group; 0: none

    @property
    def limits(self) -> PeerLimits:
        """What the totals of the peers that take part now can be."""
        known = self._coordinator.descriptions.values()
        weight = math.fsum(peer.weight for peer in known)
        return PeerLimits(sum(peer.n for peer in known), weight, self._coordinator.bounds)

    @property
    def scale(self) -> SumScale:
        """Of the sums of all rows."""
        known = self._coordinator.descriptions.values()
        return reduce(SumScale.joined, (peer.scale for peer in known))

    def rows(self) -> PeersRows:
        """The rows of the peers that take part now, as one shard."""
        d = next(iter(self._coordinator.descriptions.values())).d
        return PeersRows(self._coordinator, (RemoteRows(ALL_PEERS, self.limits, d), self._map))

    def _map(self, function: Callable[[S], Call[T]], shards: Sequence[S]) -> list[T]:
        return [self.ask(function(shard)) for shard in shards]

    def ask(self, asked: Call[T]) -> T:
        """Ask about the rows of all peers.

        ShardMissing if a peer was dropped or has joined: ask again, with the limits of those that
        are there.
        PeerLost if the total cannot be that of the rows which the peers have described.
        """
        if self._members != self._coordinator.peers:
            if self._coordinator.refresh():
                raise ShardMissing("a peer has joined: the question is about other rows now")
            self._open()
        self._round += 1
        name, arguments = asked.question.name, dict(asked.question.arguments)
        d = next(iter(self._coordinator.descriptions.values())).d
        summed = SummedQuestion(name, arguments, d)
        size = summed.size
        question = call(
            "masked_sum", lambda answer: _masked_words(answer, size),
            name=name, arguments=arguments, round=self._round, last=self._last,
        )  # fmt: skip
        masked = self._of_all(dict.fromkeys(self._members, question))
        self._last = self._round
        try:
            return asked.read(summed.total(list(masked.values())))
        except WRONG_ANSWER as error:
            raise PeerLost(
                f"the secure sum of {name!r} in round {self._round} is impossible: {error}; a peer "
                "is wrong or has other keys, and it cannot be told which. Compare the fingerprints."
            ) from None

    def end(self) -> None:
        """Let the peers forget their keys."""
        if self._members == self._coordinator.peers:
            self._coordinator.ask(dict.fromkeys(self._members, call("leave")))

    def _open(self) -> None:
        """Make a group of all peers that take part now."""
        self._members, self._last = [], 0
        keys = self._of_all(dict.fromkeys(self._coordinator.peers, call("keys", _public_key)))
        public_keys, text = list(keys.values()), fingerprint(list(keys.values()))
        if len(keys) > MOST_PARTIES or len(set(public_keys)) < len(keys):
            raise PeerLost(
                f"secure sums need at most {MOST_PARTIES} peers, each with its own key; there are "
                f"{len(keys)} peers with {len(set(public_keys))} keys"
            )

        def read(answer: Answer) -> None:
            if answer["fingerprint"] != text:
                raise ValueError("it has other public keys than the group")

        self._of_all(
            {
                peer: call("group", read, index=index, public_keys=public_keys)
                for index, peer in enumerate(keys)
            }
        )
        self._members = list(keys)
        self._coordinator.transcript.fingerprints.append(text)

    def _of_all(self, calls: dict[str, Call[T]]) -> dict[str, T]:
        answers = self._coordinator.ask(calls)
        if len(answers) < len(calls):
            raise ShardMissing("a peer was dropped: its masks are missing in the sum")
        return answers


class GroupAssigner:
    """The rows of all peers as one assigner of which only totals are known.

    A new group begins without labels, as a new fit from the same centres would.
    """

    def __init__(self, group: MaskedGroup, coordinator: Coordinator) -> None:
        self._group, self._coordinator = group, coordinator

    @property
    def scale(self) -> SumScale:
        return self._group.scale

    def set_scale(self, scale: SumScale) -> None:
        """Do nothing: the scale is that of the peers."""

    def assign(self, centers: F64, moves: F64 | None = None) -> ExactStatistics:
        """Assign the rows of all peers of the group. Peers join if a group must be made anew."""
        while True:
            group = self._group
            try:
                shard = RemoteAssigner(ALL_PEERS, group.scale, group.limits)
                return group.ask(shard.assign(centers))
            except ShardMissing:
                continue

    def farthest(self, count: int) -> FarRows:
        """None: rows are not shown."""
        return no_rows(next(iter(self._coordinator.descriptions.values())).d)


def _masked_words(answer: Answer, size: int) -> I64:
    words = answer["masked"]
    if not isinstance(words, np.ndarray) or words.dtype != np.int64 or words.shape != (size,):
        raise ValueError(f"its masked sums should be int64 of shape {(size,)}")
    return words


def _public_key(answer: Answer) -> bytes:
    """ValueError if no key can be computed from it; other peers could not use it either."""
    public_key = answer["public_key"]
    if not isinstance(public_key, bytes):
        raise ValueError("its public key should be bytes")
    KeyPair().shared_with(public_key, b"", b"check")
    return public_key
