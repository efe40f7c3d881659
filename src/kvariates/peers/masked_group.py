"""The coordinator's side of secure sums: all peers are asked as one, and only totals are known.

A group has a fresh key of each peer. If a peer is dropped, masks do not cancel any more: the next
question opens a new group of those that are there. Peers that have joined take part from then on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from kvariates.data.assigners import ExactAssigner, FarRows, Labelled
from kvariates.data.cluster_sums import ExactStatistics, SumScale
from kvariates.data.exact_sums import to_float
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.peers.bounds import PeerLimits, checked_array
from kvariates.peers.coordinator import (
    WRONG_ANSWER,
    Call,
    Coordinator,
    PeerLost,
    ShardMissing,
    call,
    told,
)
from kvariates.peers.masked_peer import SummedQuestion
from kvariates.peers.masks import MOST_PARTIES, KeyPair, fingerprint
from kvariates.peers.peers_data import PeersData, T, no_rows, of_those_left
from kvariates.peers.questions import Answer
from kvariates.peers.remote_shards import RemoteAssigner, RemoteRows

ALL_PEERS = "all peers"


class SummedPeersData(PeersData):
    """The rows of peers of whose sums and costs only the totals are known.

    No rows are shown for empty clusters.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(coordinator, shows_rows=False)
        self._members: list[str] = []
        self._round = 0
        self._last = 0  # round of this group; 0: none

    @property
    def limits(self) -> PeerLimits:
        """What the totals of the peers that take part now can be."""
        weight = math.fsum(peer.weight for peer in self.coordinator.descriptions.values())
        return PeerLimits(self.n, weight, self.coordinator.bounds)

    @property
    def scale(self) -> SumScale:
        """Of the sums of all rows."""
        known = self.coordinator.descriptions.values()
        return reduce(SumScale.joined, (peer.scale for peer in known))

    def _shards(self) -> list[RemoteRows]:
        """All peers are one shard."""
        return [RemoteRows(ALL_PEERS, self.limits, self.d)]

    def _gather(
        self, function: Callable[..., Call[T]], shards: Sequence[Any], *more: Sequence[Any]
    ) -> list[T]:
        return [self.ask(function(*of)) for of in zip(shards, *more, strict=True)]

    def spread(self) -> float:
        """As above, but no sum is asked a second time if a peer vanishes between the two questions.

        The difference of the two sums would be that of the peer.
        """
        mean = of_those_left(self._mean)
        return of_those_left(lambda: self._spread_around(mean))

    def spread_of_peers(self) -> float:
        """The total of the spreads that peers show otherwise, rounded once as there."""

        def read(answer: Answer) -> float:
            return self.limits.cost(to_float(answer["spread"]), "spread")

        return of_those_left(lambda: self.ask(call("spread", read)))

    def assigner(self, k: int, scan: Any = "auto") -> ExactAssigner:
        return GroupAssigner(self)

    def ask(self, asked: Call[T]) -> T:
        """Ask about the rows of all peers.

        ShardMissing if a peer was dropped or has joined: ask again, with the limits of those that
        are there.
        PeerLost if the total cannot be that of the rows which the peers have described.
        """
        if self._members != self.coordinator.peers:
            if self.coordinator.refresh():
                raise ShardMissing("a peer has joined: the question is about other rows now")
            self._open()
        self._round += 1
        name, arguments = asked.question.name, dict(asked.question.arguments)
        summed = SummedQuestion(name, arguments, self.d)

        def read(answer: Answer) -> I64:
            words: I64 = checked_array(answer["masked"], "its masked sums", (summed.size,))
            return words

        question = call(
            "masked_sum", read,
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
        if self._members == self.coordinator.peers:
            self.coordinator.ask(dict.fromkeys(self._members, told("leave")))

    def _open(self) -> None:
        """Make a group of all peers that take part now."""
        self._members, self._last = [], 0
        keys = self._of_all(dict.fromkeys(self.coordinator.peers, call("keys", _public_key)))
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
        self.coordinator.transcript.fingerprints.append(text)

    def _of_all(self, calls: dict[str, Call[T]]) -> dict[str, T]:
        answers = self.coordinator.ask(calls)
        if len(answers) < len(calls):
            raise ShardMissing("a peer was dropped: its masks are missing in the sum")
        return answers


class GroupAssigner:
    """The rows of all peers as one assigner of which only totals are known.

    A new group begins without labels, as a new fit from the same centres would.
    """

    def __init__(self, data: SummedPeersData) -> None:
        self._data = data

    @property
    def scale(self) -> SumScale:
        return self._data.scale

    def assign(self, centers: F64, moves: F64 | None = None) -> ExactStatistics:
        """Assign the rows of all peers of the group. Peers join if a group must be made anew."""
        data = self._data

        def ask() -> ExactStatistics:
            return data.ask(RemoteAssigner(ALL_PEERS, data.scale, data.limits).assign(centers))

        return of_those_left(ask)

    def farthest(self, count: int) -> FarRows:
        """None: rows are not shown."""
        return no_rows(self._data.d)

    def labelled(self, centers: F64) -> Labelled:
        return Labelled(of_those_left(lambda: self._data.cost_at(centers)))


def _public_key(answer: Answer) -> bytes:
    """ValueError if no key can be computed from it; other peers could not use it either."""
    public_key = answer["public_key"]
    if not isinstance(public_key, bytes):
        raise ValueError("its public key should be bytes")
    KeyPair().shared_with(public_key, b"", b"check")
    return public_key
