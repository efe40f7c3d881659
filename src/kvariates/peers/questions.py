"""What a coordinator can ask a peer, how the peer computes the answer, and whether it may.

A question has a name and arguments, an answer is a dictionary; both hold only arrays, numbers,
strings, lists of numbers and None, so that any transport can carry them.

The answer to a question follows from the rows of the peer and the questions before it that *keep*
something. So a peer whose state is lost, because its process ended, computes it again from a log of
those questions (see `Peer`).
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from kvariates.data.assigners import InMemoryAssigner
from kvariates.data.block_data import BlockAssigner, PartedData
from kvariates.data.cluster_sums import SumsByLabel, SumScale
from kvariates.data.exact_sums import exact_total, to_float
from kvariates.data.row_costs import RowCosts
from kvariates.data.rows import F64

Answer = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Question:
    name: str
    arguments: Mapping[str, Any]


@dataclass(eq=False)
class PeerState:
    """What a peer keeps for one fit. `seed`: of its own draws."""

    data: PartedData
    seed: tuple[int, ...]
    position: int = 0  # questions so far that keep something
    costs: RowCosts | None = None
    by_weight: RowCosts | None = None
    assigner: InMemoryAssigner | BlockAssigner | None = None
    assigner_for: tuple[int, SumScale] | None = None  # the number of centres, and the scale

    def seeding_costs(self) -> RowCosts:
        if self.costs is None:
            raise ValueError("no seeding has begun; ask 'begin_costs' first")
        return self.costs

    def costs_for(self, exponent: int | None) -> RowCosts:
        """The costs of the seeding; with an exponent, the weights in its unit instead."""
        costs = self.seeding_costs()
        if exponent is None:
            return costs
        if self.by_weight is None:
            self.by_weight = costs.by_weight()
        self.by_weight.set_exponent(exponent)
        return self.by_weight


@dataclass(frozen=True)
class AnswerRule:
    """How a question is answered."""

    run: Callable[..., Answer]  # from the state and the arguments
    keeps: str = ""  # the part of the state that it changes: "", "costs" or "assigner"
    begins: bool = False  # whether that part is made anew: earlier questions do not matter then
    points: str = ""  # the name of the rows in the answer, if there are any


def scale_numbers(scale: SumScale) -> list[float]:
    """The scale as numbers, for a message."""
    return [scale.largest, scale.smallest, scale.heaviest, scale.lightest, float(scale.digits)]


def scale_of_numbers(numbers: list[float]) -> SumScale:
    """The scale that `scale_numbers` was given. ValueError if no rows have it."""
    largest, smallest, heaviest, lightest, digits = map(float, numbers)
    sizes = 0 <= largest < math.inf and smallest > 0 and 0 <= heaviest < math.inf
    if not (sizes and lightest > 0 and 1 <= digits <= 53):
        raise ValueError("the scale of sums is not one of rows")
    return SumScale(largest, smallest, heaviest, lightest, int(digits))


def check_arguments(arguments: Mapping[str, Any], d: int, least: int = 0) -> None:
    """ValueError if centres (at least so many) or a scale of a question are impossible."""
    if "scale" in arguments:
        scale_of_numbers(arguments["scale"])
    if "centers" in arguments:
        centers = arguments["centers"]
        shaped = isinstance(centers, np.ndarray) and centers.ndim == 2 and centers.shape[1] == d
        if not shaped or len(centers) < least or not np.isfinite(centers).all():
            raise ValueError(f"centres should be finite, of shape (k, {d})")


# -- about all rows --------------------------------------------------------------------------------


def _describe(state: PeerState) -> Answer:
    data, weight = state.data, state.data.weight
    total = float(data.n) if weight is None else to_float(exact_total(weight))
    return {
        "n": data.n, "d": data.d, "dtype": data.dtype.str, "weight": total,
        "scale": scale_numbers(data.scale), "weighted": weight is not None,
    }  # fmt: skip


def _take(state: PeerState, indices: Any) -> Answer:
    return {"points": state.data.take(indices)}


def _column_sums(state: PeerState, exponent: int) -> Answer:
    parts = (part.rows.column_sums(exponent) for part in state.data.parts())
    return {"limbs": reduce(add, parts).limbs}


def _evaluate(state: PeerState, centers: F64, weighted: bool = True) -> Answer:
    """The cost of the rows at their nearest centres, and how many rows each centre has."""
    cost, counts = 0, np.zeros(len(centers), dtype=np.int64)
    for part in state.data.parts():
        rows, weight = part.rows, part.weight
        labels = rows.nearest(centers)
        cost += exact_total(rows.costs(centers, labels), weight if weighted else None)
        counts += np.bincount(labels, minlength=len(centers))
    return {"cost": cost, "counts": counts}


def _spread(state: PeerState) -> Answer:
    """The sum of the weighted squared distances to the mean of the peer: a term of Theorem 4."""
    data, weight, scale = state.data, state.data.weight, state.data.scale
    if not data.n or (weight is not None and not weight.any()):
        return {"spread": 0.0}
    one = np.zeros(data.n, dtype=np.int32)
    sums: Any = (SumsByLabel(p.rows, p.weight, one[: p.n], 1, scale) for p in data.parts())
    mean = reduce(add, sums).values / (data.n if weight is None else weight.sum())
    costs = (exact_total(p.rows.costs(mean, one[: p.n]), p.weight) for p in data.parts())
    return {"spread": to_float(sum(costs))}


# -- exact seeding: see `Costs` --------------------------------------------------------------------


def _begin_costs(state: PeerState) -> Answer:
    state.costs, state.by_weight = state.data.costs(), None
    return {}


def _largest(state: PeerState, by_weight: bool) -> Answer:
    costs = state.seeding_costs()
    return {"largest": (costs.by_weight() if by_weight else costs).largest()}


def _set_exponent(state: PeerState, exponent: int) -> Answer:
    state.seeding_costs().set_exponent(exponent)
    return {}


def _total(state: PeerState, exponent: int | None) -> Answer:
    return {"total": state.costs_for(exponent).total()}


def _lower(state: PeerState, centers: F64, first: int, limit: F64 | None) -> Answer:
    state.seeding_costs().lower(centers, first, limit)
    return {}


def _gain_bounds(state: PeerState, candidates: F64, limit: F64 | None) -> Answer:
    return {"bounds": state.seeding_costs().gain_bounds(candidates, limit)}


def _gains(state: PeerState, candidates: F64, limit: F64 | None) -> Answer:
    return {"gains": state.seeding_costs().gains(candidates, limit)}


def _lower_to(state: PeerState, candidates: F64, best: int, name: int) -> Answer:
    return {"total": state.seeding_costs().lower_to(candidates, best, name)}


def _propose(state: PeerState, goal: int, pending: F64, first: int) -> Answer:
    found = state.seeding_costs().propose(goal, pending, first)
    return {"row": found.row, "bound": found.bound, "cost": found.cost}


def _rows_at(state: PeerState, goals: list[int], exponent: int | None) -> Answer:
    return {"rows": state.costs_for(exponent).rows_at(goals)}


def _masses(state: PeerState, k: int, exponent: int) -> Answer:
    return {"masses": state.seeding_costs().masses(k, exponent)}


# -- Dk-means++: a peer shows its potential and one row a draw -------------------------------------


def _potential(state: PeerState, centers: F64, known: int) -> Answer:
    """The cost of the rows at their nearest centres, of which the first `known` are not new."""
    if known == 0 or state.costs is None:
        state.costs, known = state.data.costs(), 0
    costs = state.costs
    if len(centers):
        costs.lower(centers[known:], known, None)
        return {"potential": to_float(exact_total(costs.cost, state.data.weight))}
    return {"potential": _describe(state)["weight"]}


def _draw(state: PeerState, step: int) -> Answer:
    """A row, drawn by weight with the peer's own random numbers."""
    rng = np.random.default_rng([*state.seed, step])
    data, weight = state.data, state.data.weight
    share = None if weight is None else weight / weight.sum()
    return {"points": data.take(rng.choice(data.n, size=1, p=share))}


# -- Lloyd: see `ExactAssigner` --------------------------------------------------------------------


def _assign(state: PeerState, centers: F64, scale: list[float]) -> Answer:
    """Exact statistics of the clusters. The scale is that of the rows of all peers."""
    k, wanted = len(centers), scale_of_numbers(scale)
    if state.assigner is None or state.assigner_for != (k, wanted):
        state.assigner, state.assigner_for = state.data.assigner(k), (k, wanted)
        state.assigner.set_scale(wanted)
    found = state.assigner.assign(centers)
    return {
        "sums": found.exact_sums.limbs, "weights": found.exact_weights.limbs,
        "counts": found.counts, "changed": found.changed,
    }  # fmt: skip


def _far_costs(state: PeerState, count: int) -> Answer:
    """The largest costs at the last assignment."""
    return {"costs": _assigned(state).farthest(count).costs}


def _far_rows(state: PeerState, count: int, least: float) -> Answer:
    """The rows of at least this cost."""
    far = _assigned(state).farthest(count)
    kept = far.costs >= least
    fields: Any = far._asdict()
    return {name: values[kept] for name, values in fields.items()}


def _assigned(state: PeerState) -> InMemoryAssigner | BlockAssigner:
    if state.assigner is None:
        raise ValueError("nothing was assigned yet; ask 'assign' first")
    return state.assigner


QUESTIONS: dict[str, AnswerRule] = {
    "describe": AnswerRule(_describe),
    "take": AnswerRule(_take, points="points"),
    "column_sums": AnswerRule(_column_sums),
    "evaluate": AnswerRule(_evaluate),
    "spread": AnswerRule(_spread),
    "begin_costs": AnswerRule(_begin_costs, "costs", begins=True),
    "largest": AnswerRule(_largest),
    "set_exponent": AnswerRule(_set_exponent, "costs"),
    "total": AnswerRule(_total),
    "lower": AnswerRule(_lower, "costs"),
    "gain_bounds": AnswerRule(_gain_bounds, "costs"),
    "gains": AnswerRule(_gains),
    "lower_to": AnswerRule(_lower_to, "costs"),
    "propose": AnswerRule(_propose, "costs"),
    "rows_at": AnswerRule(_rows_at),
    "masses": AnswerRule(_masses),
    "potential": AnswerRule(_potential, "costs", begins=True),
    "draw": AnswerRule(_draw, points="points"),
    "assign": AnswerRule(_assign, "assigner", begins=True),
    "far_costs": AnswerRule(_far_costs),
    "far_rows": AnswerRule(_far_rows, points="points"),
}


def logged(log: list[Question], question: Question) -> list[Question]:
    """The questions from which the state can be computed again, after one more."""
    entry = QUESTIONS[question.name]
    if not entry.keeps:
        return log
    kept = log
    if entry.begins:
        kept = [q for q in log if QUESTIONS[q.name].keeps != entry.keeps]
    return [*kept, question]


# -- the peer --------------------------------------------------------------------------------------


FITS = 4  # whose states are kept; others are computed again from their logs


@dataclass(frozen=True, eq=False)
class Envelope:
    """A question on its way to a peer."""

    fit: int  # the number of the fit
    position: int  # how many questions before it have changed the state of the peer
    question: Question
    # Those questions, for a peer that has lost its state; None: not sent. For a party that holds
    # columns: questions without answers that come before this one.
    log: Sequence[Question] | None = None


class LogNeeded(Exception):  # noqa: N818
    """The peer has lost its state. Ask again, with the log."""


@dataclass(frozen=True)
class Policy:
    """What a peer answers: questions of these names."""

    questions: frozenset[str]
    points: int | None = None  # the most rows that it shows, in all fits; None: any number


TRUSTING = Policy(frozenset(QUESTIONS))


class Peer:
    """Rows that may not leave, and the state of the last few fits.

    They are in memory, or in blocks of a source, of which every pass reads a few at a time. `seed`:
    of the peer's own draws.
    """

    def __init__(self, data: PartedData, seed: int, policy: Policy = TRUSTING) -> None:
        self._data, self._seed, self._policy = data, seed, policy
        self._states: OrderedDict[int, PeerState] = OrderedDict()
        self._shown = 0  # rows
        self._lock = threading.Lock()

    def answer(self, envelope: Envelope) -> Answer:
        """Raise LogNeeded if the state is lost, and ValueError if the policy forbids the answer."""
        with self._lock:
            entry = self._allowed(envelope)
            state = self._state(envelope)
            check_arguments(envelope.question.arguments, self._data.d)
            try:
                answer = entry.run(state, **envelope.question.arguments)
            except BaseException:
                self._states.pop(envelope.fit, None)  # it may have changed in part
                raise
            state.position += bool(entry.keeps)
            shown, most = len(answer[entry.points]) if entry.points else 0, self._policy.points
            if shown and most is not None and self._shown + shown > most:
                raise ValueError(
                    f"{self._shown} of {most} rows were shown, and no more are allowed"
                )
            self._shown += shown
            return answer

    def _allowed(self, envelope: Envelope) -> AnswerRule:
        for question in (*(envelope.log or ()), envelope.question):
            if question.name not in QUESTIONS:
                raise ValueError(f"the question {question.name!r} is not known")
            if question.name not in self._policy.questions:
                raise ValueError(f"the question {question.name!r} is not allowed by this peer")
        return QUESTIONS[envelope.question.name]

    def _state(self, envelope: Envelope) -> PeerState:
        state = self._states.get(envelope.fit)
        if state is None or state.position != envelope.position:
            state = self._computed_again(envelope)
        self._states[envelope.fit] = state
        self._states.move_to_end(envelope.fit)
        while len(self._states) > FITS:
            self._states.popitem(last=False)
        return state

    def _computed_again(self, envelope: Envelope) -> PeerState:
        if envelope.position and envelope.log is None:
            raise LogNeeded
        state = PeerState(self._data, (self._seed, envelope.fit))
        for question in envelope.log or ():
            QUESTIONS[question.name].run(state, **question.arguments)
        state.position = envelope.position
        return state
