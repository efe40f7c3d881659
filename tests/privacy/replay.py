"""Replay: run a private method on D, then on a neighbour D' with the same noisy outputs.

    record   every query, every noisy number, and every public value that the method uses
    replay   on D': queries are computed from D', but their noisy numbers are those of D

A method is private if, given the same outputs, it asks the same queries and computes the same
results from them, and if the exact values of each query differ by no more than its charge covers.
Both are checked exactly, without statistics:

| must be equal in both runs | checked where |
|---|---|
| labels, sensitivities, costs and sizes of queries; ledgers | `Accountant.release`, `publish` |
| public values in functions that see rows (their closures) | `Secret.map` |
| values that are revealed | `Secret.reveal` |
| answers, given the same noisy numbers | `Accountant.release` |
| results and warnings | `Outcome` |

| must be covered by the charge | how |
|---|---|
| counts and sums | l1 distance / scale, or l2 distance^2 / (2 scale^2) |
| choices | range of the differences / scale, or its square / 8 |
| histograms | as counts, over the cells of either data set |
| drawn rows with noise | sum of ln(1 + share (exp(distance / scale) - 1)), exact shares |
| a group of disjoint queries | the sum over the group, by the largest charge |

Randomness that privacy does not need (starts, blocks, keys) is the same in both runs, row by row.
`replay` returns None, or what was wrong in words.
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from api import CHOICES, Accountant, Calibrated, FlooredPotential, NoisyRows, Passing, Secret
from api import noise_source_module as noise_source
from api import query_module as query
from privacy.private_models import seen
from privacy.public_marks import mark
from privacy.public_marks import name as name_of
from privacy.replay_trace import Asked, Broken, Draw, Outcome, Pair, Trace, compare


def replay(
    fit: Callable[[np.ndarray], Outcome],
    pair: Pair,
    noise: str = "drawn",
    centers: Callable[[int, int], Any] | None = None,
    free: bool = False,
    hooks: Callable[[Any], Any] | None = None,
) -> str | None:
    """What is wrong with a fit on two neighbours, or None.

    noise : "drawn", or "zero": then noisy numbers are the exact ones of the first data set, which
        puts counts exactly at thresholds.
    centers : from the number of a noisy row and of features to that row, instead of noise.
    free : the two data sets must not differ in any query, as if nothing had been paid.
    hooks : from a run to a context with hooks of its own, e.g. for draws of rows.
    """
    many = 1 + max(int(of.numbers.max(initial=0)) for of in (pair.first, pair.second))
    try:
        before = _Run(pair.first, many, None, noise, centers, hooks).of(fit)
        after = _Run(pair.second, many, before, noise, centers, hooks).of(fit)
        compare(before, after, 0.0 if free else 1.0)
    except Broken as found:
        return str(found)
    return None


# --- one run ---------------------------------------------------------------------------------


class _Run:
    """The hooks of one run; with `before`, a replay of that."""

    def __init__(self, data, many, before, noise, centers, hooks=None):
        self.data, self.many, self.before = data, many, before
        self.zero, self.centers, self.hooks = noise == "zero", centers, hooks or nullcontext
        self.trace, self.current, self.generators = Trace(), None, 0
        self.true_draw, self.true_default = Calibrated.__call__, np.random.default_rng

    def of(self, fit):
        hooks = {
            (Accountant, "release"): self._release,
            (Accountant, "publish"): self._publish,
            (Calibrated, "__call__"): self._noise,
            (NoisyRows, "__call__"): self._noisy_row,
            (FlooredPotential, "draw"): self._draw,
            (Secret, "map"): self._map,
            (Secret, "reveal"): self._reveal,
        }
        with ExitStack() as stack, warnings.catch_warnings():
            warnings.simplefilter("error")
            stack.enter_context(self.hooks(self))
            for (owner, name), hook in hooks.items():
                true = getattr(owner, name)
                stack.enter_context(patch.object(owner, name, _bound(hook, true)))
            sampled = query.sample_passing
            stack.enter_context(
                patch.object(query, "sample_passing", partial(self._empty, sampled))
            )
            stack.enter_context(patch.object(np.random, "default_rng", self._default_rng))
            stack.enter_context(patch.object(noise_source, "random_words", self._words))
            try:
                self.trace.outcome = fit(self.data.rows)
            except Exception as error:
                which = "first" if self.before is None else "second"
                raise Broken(f"the fit fails on the {which} data set: {error!r}") from error
        return self.trace

    def _step(self, kind, what, value):
        self.trace.steps.append((kind, mark(value)))
        if self.before is None:
            return
        place = len(self.trace.steps) - 1
        if place >= len(self.before.steps):
            raise Broken(f"{kind}: one more than on the first data set")
        if self.trace.steps[place] != self.before.steps[place]:
            raise Broken(f"{kind}: public values depend on the rows ({what})")

    def _map(self, true, secret, function):
        self._step("map", name_of(function), function)
        return true(secret, function)

    def _reveal(self, true, secret, reason):
        value = true(secret, reason)
        if reason != "for a test" and self.current is None:
            self._step("reveal", reason, value)
        return value

    def _release(self, true, accountant, exact, cost):
        mine = Asked(seen(exact), cost)
        self.trace.asked.append(mine)
        if self.before is not None:
            place = len(self.trace.asked) - 1
            if place >= len(self.before.asked):
                raise Broken(f"{mine.query.label!r} is released on the second data set only")
            other = self.before.asked[place]
            if mine.public() != other.public():
                raise Broken(f"another query: {other.query.label!r}, then {mine.query.label!r}")
        self.current = mine
        made = true(accountant, exact, cost)
        self.current = None
        mine.value, mine.charge = made.value, made.charge
        self.trace.charges.append(made.charge)
        if self.before is not None and mark(other.value) != mark(made.value):
            raise Broken(f"{made.charge.label!r}: the answer depends on more than noisy numbers")
        return made

    def _publish(self, true, accountant, secret, charge):
        self.trace.charges.append(charge)
        self.trace.published.append(charge)
        return true(accountant, secret, charge)

    def _noise(self, true, noise, values):
        if noise.cost == math.inf:  # of empty cells, which `_empty` compares
            return true(noise, values)
        mine = self.current
        if mine is None:
            raise Broken("noise is drawn without a release")
        mine.noise = noise
        if self.before is None:
            mine.noisy = true(noise, values) if not self.zero else _exact(noise, values)
        else:
            mine.noisy = self._forced(self.before.asked[len(self.trace.asked) - 1], mine)
        return mine.noisy

    def _forced(self, other, mine):
        """The noisy numbers of the first run. Of a histogram, those of the second's cells."""
        if mine.histogram is None:
            return other.noisy
        least = math.floor(mine.query.answer.args[1])  # does not pass
        noisy = other.noisy or []  # no noise was drawn if all cells were empty
        known = dict(zip(other.histogram.cells.tolist(), noisy, strict=True))
        known |= dict(zip(other.value.cells.tolist(), other.value.counts.tolist(), strict=True))
        return [known.get(cell, least) for cell in mine.histogram.cells.tolist()]

    def _empty(self, true, how_many, threshold, scale, *, law):
        """The empty cells that pass: those of the first run that are empty in this one."""
        if self.before is None:
            return true(how_many, threshold, scale, law=law)
        passing = self.before.asked[len(self.trace.asked) - 1].value
        occupied = self.current.histogram.cells
        empty = ~np.isin(passing.cells, occupied)
        cells, counts = passing.cells[empty], passing.counts[empty]
        ranks = cells - np.searchsorted(occupied, cells)
        possible = (ranks < how_many) & (counts > threshold)
        return Passing(ranks[possible], counts[possible])

    def _draw(self, true, potential, rng):
        steps = potential.domain.lattice.steps(potential.points.X).tolist()
        weights: Counter[tuple[int, ...]] = Counter()
        for row, weight in zip(steps, potential.weights().tolist(), strict=True):
            weights[tuple(row)] += weight or 0
        if not sum(weights.values()):  # all weights are 0: the draw is uniform
            weights = Counter(map(tuple, steps))
        self.trace.draws.append(Draw(weights))
        return true(potential, rng)

    def _noisy_row(self, true, noisy, rows):
        place = len(self.trace.draws) - 1
        if self.before is not None:
            value = self.before.draws[place].noisy[1]
        elif self.centers is not None:
            value = np.asarray(self.centers(place, rows.shape[1]))[None]
        elif self.zero:
            value = rows
        else:
            drawn = self.true_draw(noisy.noise, noisy.lattice.steps(rows).ravel().tolist())
            value = np.array(drawn).reshape(rows.shape) * noisy.lattice.step
        self.trace.draws[place].noisy.extend([noisy, value])
        return value

    def _default_rng(self, *seed):
        if seed:
            return self.true_default(*seed)
        self.generators += 1
        return _RowByRow(np.random.PCG64(self.generators), self)

    def _words(self, how_many):
        words = np.random.PCG64(7).random_raw(max(self.many, how_many))
        numbers = self.numbers(how_many)
        return words[:how_many] if numbers is None else words[numbers]

    def numbers(self, size):
        """The numbers of all rows, or of those without NaN, by how many there are."""
        finite = np.isfinite(self.data.rows)
        finite = finite if finite.ndim == 1 else finite.all(axis=1)
        for numbers in (self.data.numbers, self.data.numbers[finite]):
            if size == len(numbers):
                return numbers
        return None


class _RowByRow(np.random.Generator):
    """A generator whose draws for all rows belong to the numbers of the rows."""

    def __init__(self, bits, run):
        super().__init__(bits)
        self.run = run

    def spawn(self, n_children):
        first, *others = self.bit_generator.spawn(n_children)
        return [_RowByRow(first, self.run), *map(np.random.Generator, others)]

    def integers(self, *args, size=None, **options):
        return self._draw(partial(super().integers, *args, **options), size)

    def exponential(self, *args, size=None):
        return self._draw(partial(super().exponential, *args), size)

    def _draw(self, draw, size):
        numbers = self.run.numbers(size)
        return draw(size=size) if numbers is None else draw(size=self.run.many)[numbers]


def _bound(hook, true):
    def hooked(own, *args, **options):
        return hook(true, own, *args, **options)

    return hooked


def _exact(noise, values):
    return int(np.argmax(values)) if noise.law in CHOICES else [int(value) for value in values]
