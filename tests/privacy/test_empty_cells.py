"""Sampled empty cells have the law of adding noise to every cell (ALPHA: 1e-6)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from api import Cost, Histogram, charge_of, count_query, histogram_query, release
from api import empty_cells_module as empty_cells
from api import noise_source_module as noise_source
from privacy.exact_noise import pmf
from privacy.repeatable_noise import repeatable_noise
from sampling.chi_square import ALPHA, chi_square
from scipy import stats

EMPTY = [
    ("laplace", 5.0, 2.0),
    ("laplace", 0.5, 1.3),
    ("gaussian", 4.2, 2.5),
    ("gaussian", 0.0, 0.8),
]
CELLS, RUNS = 300, 1500


def chance_above(law, t, scale):
    z, p = pmf(law, scale)
    return p[z > t].sum()


def check_empty(runs, law, threshold, scale):
    """The p-values of how many pass, which ones, the first one, and their values."""
    t = math.floor(threshold)
    q = chance_above(law, t, scale)
    many = np.bincount([len(run.cells) for run in runs], minlength=CELLS + 1)
    yield "how many", chi_square(many, stats.binom.pmf(np.arange(CELLS + 1), CELLS, q))
    cells = np.concatenate([run.cells for run in runs])
    yield "which", chi_square(np.bincount(cells, minlength=CELLS), np.full(CELLS, 1 / CELLS))
    first = [run.cells[0] if len(run.cells) else CELLS for run in runs]
    gap = np.append(q * (1 - q) ** np.arange(CELLS), (1 - q) ** CELLS)
    yield "first", chi_square(np.bincount(first, minlength=CELLS + 1), gap)
    values = np.concatenate([run.counts for run in runs])
    z, p = pmf(law, scale)
    z, p = z[z > t], p[z > t] / q
    seen = np.bincount(np.clip(values - z[0], 0, len(z) - 1), minlength=len(z))
    yield "values", chi_square(seen, p) if values.min() > t else 0.0


def one_by_one(law, threshold, scale):
    drawn = np.array(noise_source.measurement(law, scale)([0] * CELLS))
    which = np.flatnonzero(drawn > threshold)
    return empty_cells.Passing(which, drawn[which])


@pytest.mark.parametrize(("law", "threshold", "scale"), EMPTY)
def test_sampled_cells_have_the_exact_law(law, threshold, scale):
    runs = [empty_cells.sample_passing(CELLS, threshold, scale, law=law) for _ in range(RUNS)]
    for name, p in check_empty(runs, law, threshold, scale):
        assert p > ALPHA, name
    wrong = dict(check_empty(runs, law, threshold, 1.3 * scale))
    assert wrong["how many"] < ALPHA
    assert all(np.all(np.diff(run.cells) > 0) for run in runs)


def test_adding_noise_to_every_cell_has_that_law_too():
    law, threshold, scale = EMPTY[0]
    runs = [one_by_one(law, threshold, scale) for _ in range(RUNS)]
    for name, p in check_empty(runs, law, threshold, scale):
        assert p > ALPHA, name


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_few_cells_and_low_thresholds_have_the_same_law(law):
    many = empty_cells.sample_passing(20_000, -1.5, 2.0, law=law)
    z, p = pmf(law, 2.0)
    z, p = z[z > -2], p[z > -2]
    seen = np.bincount(np.clip(many.counts - z[0], 0, len(z) - 1), minlength=len(z))
    assert chi_square(seen, p / p.sum()) > ALPHA
    assert len(empty_cells.sample_passing(0, 3.0, 1.0).cells) == 0
    few = [len(empty_cells.sample_passing(3, 0, 1.0, law=law).cells) for _ in range(2000)]
    q = chance_above(law, 0, 1.0)
    assert chi_square(np.bincount(few, minlength=4), stats.binom.pmf(range(4), 3, q)) > ALPHA


@pytest.mark.parametrize(("law", "threshold", "scale"), EMPTY)
def test_floats_decide_as_exact_numbers_do(law, threshold, scale, monkeypatch):
    """The same random bits, compared in floats first, and compared exactly only."""

    def run():
        with repeatable_noise(7):
            gaps = empty_cells._gaps(200, 10**6, law, math.floor(threshold), scale)
            bits = [empty_cells._accepted(Fraction(i, 50)) for i in range(150)]
            return gaps, bits

    fast = run()
    monkeypatch.setattr(empty_cells, "SLACK", 0.999)
    calls, decide = [], empty_cells._decide
    monkeypatch.setattr(empty_cells, "_decide", lambda *a: calls.append(1) or decide(*a))
    assert run() == fast
    assert len(calls) > 200


def test_more_bits_are_read_if_53_do_not_decide():
    """Uniform numbers at the edge of a gap."""
    rate = empty_cells._rate("laplace", 3, 2.0, 80)
    edge = math.floor((1 - chance_above("laplace", 3, 2.0)) ** 5 * 2**53)
    gaps = set()
    for word in range(edge - 40, edge + 40):
        low, high = Fraction(word, 2**53), Fraction(word + 1, 2**53)
        ends = empty_cells._gap_bounds((low, high), 10**6, rate, 80)
        gap = empty_cells._decide(word, lambda u, p: empty_cells._gap_bounds(u, 10**6, rate, p))
        assert ends[0] <= gap <= ends[1]
        gaps.add(gap)
    assert gaps == {4, 5}


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize(("t", "scale"), [(0, 0.4), (3, 2.0), (40, 3.0), (500, 100.0)])
def test_the_probability_to_pass_is_enclosed(law, t, scale):
    widths = []
    for digits in (40, 80, 160):
        low, high = empty_cells._rate(law, t, scale, digits)
        assert 0 < low < high
        widths.append((high - low) / high)
        assert widths[-1] < Fraction(1, 10 ** (digits - 5))
        q = chance_above(law, t, scale)
        assert float(low) == pytest.approx(-math.log1p(-q), rel=1e-9)
    assert widths[0] > widths[1] > widths[2]


def test_more_cells_than_integers_have_bits():
    for law in ("laplace", "gaussian"):
        run = empty_cells.sample_passing(2**2000, 1e4, 4.0, law=law)
        assert len(run.cells) == 0
    run = empty_cells.sample_passing(2**70, 46 * 2.0, 2.0)  # 2^70 e^-46.5 / 1.6: about 5 pass
    assert run.cells.dtype == object
    assert all(0 <= cell < 2**70 for cell in run.cells)
    assert len(run.cells) < 60


def test_a_histogram_is_released_above_a_threshold():
    occupied = {5: 50, 100: 0, 302: 4}
    cells = Histogram(np.array([*occupied]), np.array([*occupied.values()]), CELLS + 3)
    query = histogram_query(cells, 6.0, "replace-one", "leaves")
    made = [release(query, Cost(epsilon=1.0)) for _ in range(RUNS)]
    counting = count_query([1], "replace-one", "leaves")
    assert made[0].charge == charge_of(counting, Cost(epsilon=1.0))
    runs = [one.value for one in made]
    assert all(np.all(run.counts > 6) and np.all(np.diff(run.cells) > 0) for run in runs)
    for cell, value in occupied.items():
        seen = sum(cell in run.cells for run in runs)
        q = chance_above("laplace", 6 - value, 2.0)
        assert stats.binomtest(seen, RUNS, min(q, 1.0)).pvalue > ALPHA
    empty = []
    for run in runs:
        kept = ~np.isin(run.cells, [*occupied])
        rank = run.cells[kept] - np.searchsorted([*occupied], run.cells[kept])
        empty.append(empty_cells.Passing(rank, run.counts[kept]))
    for name, p in check_empty(empty, "laplace", 6.0, 2.0):
        assert p > ALPHA, name
    charge = charge_of(query, Cost(rho=1.0))
    assert (charge.mechanism, charge.scale) == ("gaussian", pytest.approx(1.0))
