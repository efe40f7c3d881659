"""A peer that answers questions about sums only behind masks, in a group of three or more peers.

| question | arguments | answer |
|---|---|---|
| keys | | a new public key |
| group | the public keys of all peers, and the number of this one | the fingerprint of the keys |
| masked_sum | a question of `SUMMED`, and a round | its answer plus a mask |

A mask follows from the keys, the round and all questions of the group so far. So answers to
different questions never have the same mask, and masks cancel only if all peers were asked the
same. What a peer must remember, its secret key too, is a `MaskState`: its process may end after
each answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from kvariates.data.rows import F64, Rows
from kvariates.peers.encoding import decode, encode
from kvariates.peers.masks import KeyPair, PairwiseKeys
from kvariates.peers.peer import Envelope, Peer, Policy
from kvariates.peers.questions import QUESTIONS, Answer, PeerState
from kvariates.peers.summed_questions import SUMMED, SummedQuestion

MIN_GROUP = 3  # of two peers, each learns the sums of the other
LAST_ROUND = 2**63
GROUP_QUESTIONS = frozenset({"keys", "group", "masked_sum"})


@dataclass(frozen=True, eq=False)
class MaskState:
    """What a peer keeps between two messages. It is never sent.

    Attributes
    ----------
    groups : int
        How many groups the peer has joined.
    secret : bytes
        The secret key of the group; empty if there is none.
    index : int
        The number of the peer in the group.
    public_keys : sequence of bytes
        Of all peers of the group; empty before the peer has joined.
    last_round : int
    asked : bytes
        A digest of the questions of this group.
    centers : ndarray or None
        Of the last assignment in this group: labels have changed since then.
    """

    groups: int = 0
    secret: bytes = b""
    index: int = 0
    public_keys: Sequence[bytes] = ()
    last_round: int = 0
    asked: bytes = b""
    centers: F64 | None = None


class Keeper(Protocol):
    """Keeps the state of a peer for longer than a process. One thread uses it at a time."""

    def load(self) -> bytes | None:
        """What was saved last; None: nothing."""

    def save(self, data: bytes) -> None: ...


class MaskedPeer:
    """A peer of which only sums over a group are known, and what `policy` allows besides.

    Parameters
    ----------
    rows : Rows
    weight : ndarray of shape (n,) or None
    seed : int
        Of the peer's own draws.
    policy : Policy
        The questions that are answered without masks. Those of `SUMMED` never are.
    max_groups : int
        How many groups the peer joins. From the sums of two groups of which one has a peer less,
        the sums of that peer follow.
    """

    def __init__(
        self, rows: Rows, weight: F64 | None, seed: int, policy: Policy, max_groups: int
    ) -> None:
        plain = replace(policy, questions=policy.questions - SUMMED.keys())
        self._peer = Peer(rows, weight, seed, plain)
        self._max_groups = max_groups
        self._state = PeerState(rows, weight, (seed,))
        self._assigned: tuple[bytes, list[float]] | None = None  # the last centres, and the scale

    def answer(self, envelope: Envelope, keeper: Keeper) -> Answer:
        """ValueError if the question is refused."""
        name, arguments = envelope.question.name, envelope.question.arguments
        if name in SUMMED:
            raise ValueError(
                f"the question {name!r} is answered only in secure sums; use "
                "server_app(secure_sums=True)"
            )
        if name not in GROUP_QUESTIONS:
            return self._peer.answer(envelope)
        kept, data = MaskState(), keeper.load()
        if data is not None:
            kept = MaskState(**decode(data))
        answers: dict[str, Callable[..., Answer]] = {
            "keys": self._new_keys, "group": self._join, "masked_sum": self._masked_sum,
        }  # fmt: skip
        return answers[name](kept, keeper, **arguments)

    def _new_keys(self, kept: MaskState, keeper: Keeper) -> Answer:
        """Leave the group; keys are never used in two groups."""
        pair = KeyPair()
        _save(keeper, MaskState(groups=kept.groups, secret=pair.secret))
        return {"public_key": pair.public_key}

    def _join(self, kept: MaskState, keeper: Keeper, index: int, public_keys: Any) -> Answer:
        if not kept.secret or kept.public_keys:
            raise ValueError("a group needs new keys; ask 'keys' first")
        if kept.groups >= self._max_groups:
            raise ValueError(f"this peer joins at most {self._max_groups} groups (max_groups)")
        if len(public_keys) < MIN_GROUP:
            raise ValueError(f"a group of {len(public_keys)} peers is refused; {MIN_GROUP} hide")
        keys = PairwiseKeys(KeyPair(kept.secret), index, public_keys)
        _save(keeper, replace(kept, groups=kept.groups + 1, index=index, public_keys=public_keys))
        return {"fingerprint": keys.fingerprint}

    def _masked_sum(
        self, kept: MaskState, keeper: Keeper, name: str, arguments: dict[str, Any], round: Any  # noqa: A002
    ) -> Answer:  # fmt: skip
        if not kept.public_keys:
            raise ValueError("this peer is in no group; ask 'keys' and 'group' first")
        if name not in SUMMED:
            raise ValueError(f"the question {name!r:.40} has no sums")
        if not isinstance(round, int) or not kept.last_round < round < LAST_ROUND:
            raise ValueError(f"round {round!r:.20} comes after round {kept.last_round}")
        asked = _digest(kept.asked, {"name": name, "arguments": arguments, "round": round})
        after = replace(kept, last_round=round, asked=asked)
        before, question = kept.centers, SummedQuestion(name, arguments, self._state.rows.d)
        if name == "assign":
            after = replace(after, centers=np.array(arguments["centers"], dtype=np.float64))
        _save(keeper, after)  # before the answer leaves: a round is used once
        keys = PairwiseKeys(
            KeyPair(kept.secret), kept.index, kept.public_keys, last_round=kept.last_round
        )
        answer = self._answer(name, arguments, before)
        return {"masked": question.masked(answer, keys, round, asked)}

    def _answer(self, name: str, arguments: dict[str, Any], before: F64 | None) -> Answer:
        """`before`: the last centres of this group. Their labels may be lost with a process."""
        run = QUESTIONS[name].run
        if name != "assign":
            return run(self._state, **arguments)
        centers, scale = arguments["centers"], arguments["scale"]
        if before is None or self._assigned != (before.tobytes(), scale):
            self._state.assigner = None
            if before is not None and before.shape == centers.shape:
                run(self._state, centers=before, scale=scale)
        self._assigned = None  # if what follows fails
        answer = run(self._state, centers=centers, scale=scale)
        self._assigned = centers.tobytes(), scale
        return answer


def _save(keeper: Keeper, state: MaskState) -> None:
    keeper.save(encode(asdict(state)))


def _digest(before: bytes, question: dict[str, Any]) -> bytes:
    """A digest of all questions so far, after one more."""
    return hashlib.sha256(before + encode(question)).digest()
