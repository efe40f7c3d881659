"""Empty cells sampled by number have the law of noising every one of them (ALPHA: 1e-6)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from privacy.exact import pmf
from sampling.chi_square import ALPHA, chi_square
from scipy import stats

from kvariates.privacy import empty_cells, mechanisms, noise_source

COMMON = {"label": "x"}


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
def test_empty_cells_have_the_law_of_noising_every_cell(law, threshold, scale):
    runs = [mechanisms.empty_cells(CELLS, threshold, scale, law=law) for _ in range(RUNS)]
    for name, p in check_empty(runs, law, threshold, scale):
        assert p > ALPHA, name
    wrong = dict(check_empty(runs, law, threshold, 1.3 * scale))
    assert wrong["how many"] < ALPHA
    assert all(np.all(np.diff(run.cells) > 0) for run in runs)


def test_noising_every_cell_has_that_law_too():
    law, threshold, scale = EMPTY[0]
    runs = [one_by_one(law, threshold, scale) for _ in range(RUNS)]
    for name, p in check_empty(runs, law, threshold, scale):
        assert p > ALPHA, name


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_few_cells_and_low_thresholds_are_noised_one_by_one(law):
    many = mechanisms.empty_cells(20_000, -1.5, 2.0, law=law)
    z, p = pmf(law, 2.0)
    z, p = z[z > -2], p[z > -2]
    seen = np.bincount(np.clip(many.counts - z[0], 0, len(z) - 1), minlength=len(z))
    assert chi_square(seen, p / p.sum()) > ALPHA
    assert len(mechanisms.empty_cells(0, 3.0, 1.0).cells) == 0
    few = [len(mechanisms.empty_cells(3, 0, 1.0, law=law).cells) for _ in range(2000)]
    q = chance_above(law, 0, 1.0)
    assert chi_square(np.bincount(few, minlength=4), stats.binom.pmf(range(4), 3, q)) > ALPHA


@pytest.mark.parametrize(("law", "threshold", "scale"), EMPTY)
def test_floats_settle_nothing_differently(law, threshold, scale, monkeypatch):
    """The same bits, read in floats first and read exactly only."""

    def run():
        with mechanisms._REPEATABLE_NOISE_FOR_TESTS_ONLY(7, i_know_that_this_protects_nobody=True):
            gaps = empty_cells._gaps(200, 10**6, law, math.floor(threshold), scale)
            bits = [empty_cells._accepted(Fraction(i, 50)) for i in range(150)]
            return gaps, bits

    fast = run()
    monkeypatch.setattr(empty_cells, "SLACK", 0.999)
    asked = []
    settle = empty_cells._settled
    monkeypatch.setattr(empty_cells, "_settled", lambda *a: asked.append(1) or settle(*a))
    assert run() == fast
    assert len(asked) > 200


def test_the_uniform_number_is_read_as_far_as_it_takes():
    """A number on the very edge of a gap: 53 bits do not tell, more do."""
    rate = empty_cells._rate("laplace", 3, 2.0, 80)
    edge = math.floor((1 - chance_above("laplace", 3, 2.0)) ** 5 * 2**53)
    gaps = set()
    for word in range(edge - 40, edge + 40):
        low, high = Fraction(word, 2**53), Fraction(word + 1, 2**53)
        ends = empty_cells._gap_bounds((low, high), 10**6, rate, 80)
        gap = empty_cells._settled(word, lambda u, p: empty_cells._gap_bounds(u, 10**6, rate, p))
        assert ends[0] <= gap <= ends[1]
        gaps.add(gap)
    assert gaps == {4, 5}


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize(("t", "scale"), [(0, 0.4), (3, 2.0), (40, 3.0), (500, 100.0)])
def test_the_chance_to_pass_is_enclosed(law, t, scale):
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
        run = mechanisms.empty_cells(2**2000, 1e4, 4.0, law=law)
        assert len(run.cells) == 0
    run = mechanisms.empty_cells(2**70, 46 * 2.0, 2.0)  # 2^70 e^-46.5 / 1.6: about 5 pass
    assert run.cells.dtype == object
    assert all(0 <= cell < 2**70 for cell in run.cells)
    assert len(run.cells) < 60


def test_cells_above_is_a_histogram_cut_at_a_threshold():
    asked = {"adjacency": "replace-one", "label": "leaves", "epsilon": 1.0}
    runs = [mechanisms.cells_above([50, 0, 4], CELLS, 6.0, **asked) for _ in range(RUNS)]
    charge = runs[0][1]
    assert charge == mechanisms.counts([1], **asked)[1]
    seen = np.bincount(np.concatenate([run.occupied for run, _ in runs]), minlength=3)
    for i, value in enumerate([50, 0, 4]):
        q = chance_above("laplace", 6 - value, 2.0)
        assert stats.binomtest(int(seen[i]), RUNS, min(q, 1.0)).pvalue > ALPHA
    assert all(np.all(run.occupied_counts > 6) for run, _ in runs)
    for name, p in check_empty([run.empty for run, _ in runs], "laplace", 6.0, 2.0):
        assert p > ALPHA, name
    _, concentrated = mechanisms.cells_above(
        [], 10, 6.0, rho=0.5, adjacency="add-remove", label="x"
    )
    assert (concentrated.mechanism, concentrated.scale) == ("gaussian", 1.0)
