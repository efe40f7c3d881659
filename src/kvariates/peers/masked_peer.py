"""A peer that answers questions about sums only behind masks, in a group of three or more peers.

| question | arguments | answer |
|---|---|---|
| keys | | a new public key |
| group | the public keys of all peers, and the number of this one | the fingerprint of the keys |
| masked_sum | a question of `SUMMED`, this round and the last one | its answer plus a mask |
| leave | | nothing; the keys are forgotten |

A mask follows from the keys, the round and all questions of the group so far. So answers to
different questions never have the same mask, and masks cancel only if all peers were asked the
same. What a peer must remember, its secret key too, is a `MaskState`: its process may end after
each answer.

Questions whose answers are integers, and how such answers are added up behind masks.

| question | answer | masked as |
|---|---|---|
| assign | limbs of sums and weights of the clusters, counts, changed labels | words modulo 2^64 |
| column_sums | limbs of the sums of the columns | words modulo 2^64 |
| evaluate, spread | a cost | one integer modulo 2^(64 * WIDE) |

The masks of all peers cancel in the total, which has the same bits as without masks.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from kvariates.data.block_data import PartedData
from kvariates.data.exact_sums import LIMBS, from_float
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.peers.encoding import decode, encode
from kvariates.peers.masks import KeyPair, PairwiseKeys
from kvariates.peers.questions import (
    QUESTIONS,
    Answer,
    Envelope,
    LogNeeded,
    Peer,
    PeerState,
    Policy,
    check_arguments,
    scale_of_numbers,
)

WIDE = 34  # words; an `exact_total` has less than 2^2144, and there are at most 256 peers

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class SummedRule:
    """How the answers to a question are added up."""

    # From the number of features and the arguments to the shapes of the parts of the answer.
    shapes: Callable[[int, dict[str, Any]], Shapes]
    wide: bool = False  # whether the answer is one integer of `WIDE` words


def _assign(d: int, arguments: dict[str, Any]) -> Shapes:
    k, levels = len(arguments["centers"]), scale_of_numbers(arguments["scale"]).levels
    return {
        "sums": (levels, k, LIMBS, d), "weights": (1, k, LIMBS, 1), "counts": (k,), "changed": (),
    }  # fmt: skip


SUMMED: dict[str, SummedRule] = {
    "assign": SummedRule(_assign),
    "column_sums": SummedRule(lambda d, _: {"limbs": (1, 1, LIMBS, d)}),
    "evaluate": SummedRule(lambda *_: {"cost": (WIDE,)}, wide=True),
    "spread": SummedRule(lambda *_: {"spread": (WIDE,)}, wide=True),
}


@dataclass(frozen=True, eq=False)
class SummedQuestion:
    """A question of which only the total of all peers will be known. Pre: its name is in SUMMED."""

    name: str
    arguments: dict[str, Any]
    d: int  # features

    @property
    def _rule(self) -> SummedRule:
        return SUMMED[self.name]

    @property
    def _shapes(self) -> Shapes:
        return self._rule.shapes(self.d, self.arguments)

    @property
    def size(self) -> int:
        """The number of words of a masked answer."""
        return sum(map(math.prod, self._shapes.values()))

    def masked(self, answer: Answer, keys: PairwiseKeys, round_number: int, asked: bytes) -> I64:
        """The words that a peer sends. See `PairwiseKeys.mask`."""
        if self._rule.wide:
            (name,) = self._shapes
            value = answer[name]
            whole = from_float(value) if isinstance(value, float) else int(value)
            masked = whole + keys.wide_mask(WIDE, round_number, asked)
            data = (masked % (1 << 64 * WIDE)).to_bytes(8 * WIDE, "little")
            return np.frombuffer(data, "<i8").astype(np.int64)
        parts = [np.ravel(np.asarray(answer[name], dtype=np.int64)) for name in self._shapes]
        words = np.concatenate(parts).view(np.uint64)
        return (words + keys.mask(len(words), round_number, asked)).view(np.int64)

    def total(self, masked: Sequence[I64]) -> Answer:
        """The answer for the rows of all peers. Pre: each has `size` words."""
        if self._rule.wide:
            (name,) = self._shapes
            numbers = [int.from_bytes(words.astype("<i8").tobytes(), "little") for words in masked]
            return {name: sum(numbers) % (1 << 64 * WIDE)}
        rest = np.zeros(self.size, dtype=np.int64)
        for words in masked:
            rest = (rest.view(np.uint64) + words.view(np.uint64)).view(np.int64)
        answer: Answer = {}
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            part, rest = rest[:size].reshape(shape), rest[size:]
            answer[name] = part if shape else int(part)
        return answer


# -- the peer --------------------------------------------------------------------------------------


MIN_GROUP = 3  # of two peers, each learns the sums of the other
LAST_ROUND = 2**63
GROUP_QUESTIONS = frozenset({"keys", "group", "masked_sum", "leave"})


@dataclass(frozen=True, eq=False)
class MaskState:
    """What a peer keeps between two messages. It is never sent."""

    groups: int = 0  # that the peer has joined
    secret: bytes = b""  # the secret key of the group; empty if there is none
    index: int = 0  # the number of the peer in the group
    public_keys: Sequence[bytes] = ()  # of all peers of the group; empty before it has joined
    last_round: int = 0
    asked: bytes = b""  # a digest of the questions of this group
    centers: F64 | None = None  # of the last assignment in it: labels have changed since then


Store = MutableMapping[str, Any]
"""Keeps the state of a peer, under "masks", for longer than a process. One thread uses it."""


class MaskedPeer:
    """A peer of which only sums over a group are known, and what `policy` allows besides.

    `policy`: the questions that are answered without masks; those of `SUMMED` never are.
    `max_groups`: how many groups the peer joins. From the sums of two groups of which one has a
    peer less, the sums of that peer follow. `confirm` is given the fingerprint of a group's public
    keys before a sum is sent, and returns whether the other peers see the same. If it does not
    return True, the group is refused.
    """

    def __init__(
        self, data: PartedData, seed: int, policy: Policy, max_groups: int,
        confirm: Callable[[str], bool] | None = None,
    ) -> None:  # fmt: skip
        plain = replace(policy, questions=policy.questions - SUMMED.keys())
        self._peer = Peer(data, seed, plain)
        self._max_groups, self._confirm = max_groups, confirm
        self._state = PeerState(data, (seed,))
        self._assigned: tuple[bytes, list[float]] | None = None  # the last centres, and the scale

    def answer(self, envelope: Envelope, store: Store) -> Answer:
        """ValueError if the question is refused."""
        name, arguments = envelope.question.name, envelope.question.arguments
        if name in SUMMED:
            raise ValueError(
                f"the question {name!r} is answered only in secure sums; use "
                "server_app(secure_sums=True)"
            )
        if name not in GROUP_QUESTIONS:
            return self._peer.answer(envelope)
        kept = MaskState(**decode(store["masks"])) if "masks" in store else MaskState()
        answers: dict[str, Callable[..., Answer]] = {
            "keys": self._new_keys, "group": self._join, "masked_sum": self._masked_sum,
            "leave": self._leave,
        }  # fmt: skip
        return answers[name](kept, store, **arguments)

    def _new_keys(self, kept: MaskState, store: Store) -> Answer:
        """Leave the group; keys are never used in two groups."""
        pair = KeyPair()
        _save(store, MaskState(groups=kept.groups, secret=pair.secret))
        return {"public_key": pair.public_key}

    def _leave(self, kept: MaskState, store: Store) -> Answer:
        """Forget the keys: they could only open the messages of this group."""
        _save(store, MaskState(groups=kept.groups))
        return {}

    def _join(self, kept: MaskState, store: Store, index: int, public_keys: Any) -> Answer:
        if not kept.secret:
            raise LogNeeded  # the state may be older than the last answer; see `_masked_sum`
        if kept.public_keys:
            raise ValueError("a group needs new keys; ask 'keys' first")
        if kept.groups >= self._max_groups:
            raise ValueError(f"this peer joins at most {self._max_groups} groups (max_groups)")
        if len(public_keys) < MIN_GROUP:
            raise ValueError(f"a group needs at least {MIN_GROUP} peers; got {len(public_keys)}")
        keys = PairwiseKeys(KeyPair(kept.secret), index, public_keys)
        if self._confirm is not None and self._confirm(keys.fingerprint) is not True:
            self._leave(kept, store)
            raise ValueError(
                f"the fingerprint {keys.fingerprint} was not confirmed: perhaps the coordinator "
                "relayed false keys. No sums were sent; find out why before another fit"
            )
        _save(store, replace(kept, groups=kept.groups + 1, index=index, public_keys=public_keys))
        return {"fingerprint": keys.fingerprint}

    def _masked_sum(
        self, kept: MaskState, store: Store, name: str, arguments: dict[str, Any],
        round: Any, last: Any,  # noqa: A002
    ) -> Answer:  # fmt: skip
        """The masked answer.

        Flower stores the state of a node after it has sent the answer. A state that is older than
        the last answer is noticed (`last`), and the peer is asked again.
        """
        if not (isinstance(round, int) and isinstance(last, int) and last < round < LAST_ROUND):
            raise ValueError(f"round {round!r:.20} does not come after round {last!r:.20}")
        if not kept.public_keys or kept.last_round < last:
            raise LogNeeded
        if name not in SUMMED:
            raise ValueError(f"the question {name!r:.40} has no sums")
        if round <= kept.last_round:
            raise ValueError(
                f"round {kept.last_round} was used already; the next must be larger, not {round}"
            )
        check_arguments(arguments, self._state.data.d, least=1)
        asked = _digest(kept.asked, {"name": name, "arguments": arguments, "round": round})
        after = replace(kept, last_round=round, asked=asked)
        before, question = kept.centers, SummedQuestion(name, arguments, self._state.data.d)
        if name == "assign":
            after = replace(after, centers=np.array(arguments["centers"], dtype=np.float64))
        _save(store, after)  # before the answer leaves: a round is used once
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


def _save(store: Store, state: MaskState) -> None:
    store["masks"] = encode(asdict(state))


def _digest(before: bytes, question: dict[str, Any]) -> bytes:
    """A digest of all questions so far, after one more."""
    return hashlib.sha256(before + encode(question)).digest()
