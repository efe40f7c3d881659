"""Audits pass correct mechanisms and catch planted mistakes.

A correct mechanism fails an audit with probability at most 1e-6. Seeds are fixed.
"""

import math
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from api import Approximate, Concentrated, Statistic, audit, high, low, near
from experiments.audit import least_visible
from privacy.numpy_mechanisms import CASES, PAIR, laplace_mechanism, on_lattice, run
from scipy import stats

from kvariates import PrivateKMeans

ALPHA = 1e-6


# --- bounds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_correct_mechanism_passes_and_a_planted_mistake_is_caught(name):
    case = CASES[name]
    options = {"batch": True, "runs": case.runs, **case.claim}
    found = audit(case.right(np.random.default_rng(1)), case.neighbours, **options)
    assert found.passed, str(found)
    found = audit(case.planted(np.random.default_rng(2)), case.neighbours, **options)
    assert not found.passed, str(found)


def test_the_bound_is_near_the_true_epsilon():
    assert 0.9 < run(laplace_mechanism(1.0), runs=40_000).lower_bound <= 1.0
    assert 1.8 < run(laplace_mechanism(0.5), runs=40_000).lower_bound <= 2.0


def test_false_alarms_are_as_rare_as_stated():
    """For a mechanism that uses its whole budget, at a confidence of one half."""
    rng = np.random.default_rng(0)
    truth = np.log(3.0)

    def response(data, runs):
        honest = rng.random(runs) < 0.75
        return np.where(honest, data[0], 1 - data[0])

    audits = 150
    alarms = sum(
        not run(response, epsilon=truth, runs=400, confidence=0.5).passed for _ in range(audits)
    )
    assert 0 < alarms <= stats.binom.isf(ALPHA, audits, 0.5)


def test_both_directions_are_tried():
    """A rare event happens on one data set only."""
    rng = np.random.default_rng(0)

    def mechanism(data, runs):
        return np.where(rng.random(runs) < 0.05, data[0], 0.0)

    for order, likelier in ((1, "first"), (-1, "second")):
        found = run(mechanism, PAIR[::order], runs=4000)
        assert not found.passed
        assert found.event.likelier == likelier


def test_delta_allows_rare_leaks():
    rng = np.random.default_rng(0)

    def leaks_in_a_tenth_of_the_runs(data, runs):
        return np.where(rng.random(runs) < 0.1, data[0], 0.5)

    assert run(leaks_in_a_tenth_of_the_runs, delta=0.1).passed
    assert not run(leaks_in_a_tenth_of_the_runs, delta=0.05).passed
    assert not run(leaks_in_a_tenth_of_the_runs).passed


def test_runs_are_used_once():
    """A statistic that only remembers the runs it was learnt from shows nothing."""
    rng = np.random.default_rng(0)

    def remembers(a, b):
        seen = set(a.numbers[:, 0].tolist())
        yield Statistic("seen", lambda out: np.array([float(x in seen) for x in out.numbers[:, 0]]))

    found = run(lambda data, runs: rng.random(runs), test=remembers)
    assert found.lower_bound == 0.0


# --- claims ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 30])
@pytest.mark.parametrize("error", [0.05, 1e-3])
def test_clopper_pearson_covers(n, error):
    seen = np.arange(n + 1)
    lows, highs = ([bound(int(k), n, error) for k in seen] for bound in (low, high))
    assert lows == sorted(lows)
    assert highs == sorted(highs)
    for p in np.linspace(0, 1, 201):
        odds = stats.binom.pmf(seen, n, p)
        assert odds[np.array(lows) > p].sum() <= error * (1 + 1e-9)
        assert odds[np.array(highs) < p].sum() <= error * (1 + 1e-9)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_no_event_shows_more_rho_than_a_gaussian_has(mu):
    cuts = np.linspace(-6, 6, 400)
    shown = Concentrated(1.0).least(stats.norm.sf(cuts - mu), stats.norm.sf(cuts))
    assert 0.5 * mu**2 / 2 < shown.max() <= mu**2 / 2


def test_no_event_shows_more_epsilon_than_a_gaussian_has():
    mu, epsilon = 1.0, 1.5
    delta = stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(
        -mu / 2 - epsilon / mu
    )
    cuts = np.linspace(-6, 6, 4000)
    shown = Approximate(epsilon, delta).least(stats.norm.sf(cuts - mu), stats.norm.sf(cuts))
    assert epsilon - 1e-4 < shown.max() <= epsilon + 1e-12


def test_certain_events_show_an_infinite_loss():
    p, q = np.array([1.0, 0.5]), np.array([0.0, 0.0])
    assert np.isinf(Approximate(1.0).least(p, q)).all()
    assert np.isinf(Concentrated(1.0).least(p, q)).all()
    assert Concentrated(1.0).least(np.array(0.2), np.array(0.2)) == 0.0
    assert Approximate(1.0, 0.3).least(np.array(0.2), np.array(0.1)) == 0.0


# --- kinds of output -------------------------------------------------------------------------

LEAKS = {
    "text": lambda x: f"value {x:g}",
    "nothing or something": lambda x: None if x else "something",
    "dict": lambda x: {"b": "same", "a": np.array([x, 1.0])},
    "nested": lambda x: [(x, "same"), [True, {"c": 2}]],
    "lists of several lengths": lambda x: [0.5] * (2 if x else 3),
    "set": lambda x: {3, "x", x},
    "not a number": lambda x: np.nan if x else 0.0,
    "infinity": lambda x: [np.inf if x else 0.0, -np.inf],
    "integers beyond float64": lambda x: 2**60 + int(x),
    "the sign of zero": lambda x: np.array([-0.0 if x else 0.0]),
    "empty array": lambda x: np.empty((0, 2) if x else (0, 3)),
}


@pytest.mark.parametrize("name", LEAKS)
def test_any_output_is_compared(name):
    leak = LEAKS[name]
    found = run(lambda data: leak(data[0]), batch=False, runs=400)
    assert found.lower_bound == found.most
    same = run(lambda data: leak(1.0), batch=False, runs=400)
    assert same.lower_bound == 0.0


def test_a_view_reads_an_estimator():
    rng = np.random.default_rng(0)

    def fit(data):
        return SimpleNamespace(centers=data + on_lattice(rng.laplace(size=1)), cost=data.sum())

    with pytest.raises(TypeError, match="view="):
        run(lambda data: object(), batch=False, runs=400)
    assert run(fit, batch=False, view=lambda model: model.centers).passed
    assert not run(fit, batch=False, view=vars).passed


def test_a_view_of_fits_that_are_mostly_noise_is_silent():
    """Of twenty rows, nearly all fits warn that centres may be noise. Other warnings are shown."""

    def fit(rows):
        warnings.warn("of the caller", UserWarning, stacklevel=1)
        return PrivateKMeans(2, epsilon=1.0, bounds=(0.0, 9.0), method="lloyd").fit(rows)

    rows = np.zeros((20, 2))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        audit(fit, (rows, rows[:-1]), epsilon=1.0, view=near([[9.0, 9.0]]), runs=150)
    assert {str(warning.message) for warning in told} == {"of the caller"}


def test_near_does_not_depend_on_the_order_of_centers():
    centers = np.array([[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]])
    view = near([[3.0, 5.0], [0.0, 0.0]])
    for order in ([0, 1, 2], [2, 0, 1]):
        far, nearest = view(SimpleNamespace(cluster_centers_=centers[order]))
        assert far.tolist() == [1.0, 0.0]
        assert nearest.tolist() == [[3.0, 4.0], [0.0, 0.0]]
    assert view(np.empty((0, 2))) == [np.inf, np.inf]


def test_an_exception_is_an_output():
    def refuses_one(data):
        if data[0]:
            raise ValueError("k > n")
        return 0

    found = run(refuses_one, batch=False, runs=400)
    assert not found.passed
    with pytest.raises(ZeroDivisionError):
        run(lambda data: 1 / 0, batch=False, runs=400)


# --- input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"epsilon": None}, "needs the claim"),
        ({"rho": 0.5}, "needs the claim"),
        ({"epsilon": -1.0}, "finite number"),
        ({"epsilon": np.inf}, "finite number"),
        ({"delta": 1.0}, "delta"),
        ({"confidence": 1.0}, "confidence"),
        ({"epsilon": 8.0}, "cannot show a violation"),
        ({"runs": 3}, "cannot show a violation"),
        ({"test": "luck"}, "luck"),
    ],
)
def test_bad_options_raise(options, says):
    with pytest.raises(ValueError, match=says):
        run(laplace_mechanism(1.0), **options)


def test_a_mechanism_with_too_few_outputs_raises():
    with pytest.raises(ValueError, match="outputs"):
        run(lambda data, runs: [0.0])


def test_the_number_of_runs_in_the_error_is_enough():
    with pytest.raises(ValueError, match="take at least") as error:
        run(laplace_mechanism(1.0), epsilon=6.0, runs=100)
    needed = int(str(error.value).split("at least ")[1].split(",")[0])
    assert run(lambda data: data[0], batch=False, epsilon=6.0, runs=needed).lower_bound > 6.0


def test_an_audit_prints():
    shown = str(run(laplace_mechanism(0.5)))
    assert "THE CLAIM IS BROKEN" in shown
    assert "number 0" in shown
    holds = str(run(laplace_mechanism(1.0)))
    assert re.search("The attack showed that epsilon is at least .* which the claim allows", holds)
    nothing = run(lambda data: 0.0, batch=False)
    assert nothing.lower_bound == 0
    assert "The attack found nothing: this does not prove" in str(nothing)
    assert "epsilon >= 0" not in str(nothing)
    assert "rho" in str(audit(laplace_mechanism(9.0), PAIR, rho=1.0, runs=400, batch=True))


@pytest.mark.parametrize("claim", [Approximate(1.0), Concentrated(0.5)])
def test_the_power_of_an_audit(claim):
    """A loss well above the least visible one is found, one well below is not."""
    runs, rng = 2000, np.random.default_rng(0)
    least = least_visible(claim, runs)
    assert claim.value < least < least_visible(claim, runs // 4)
    assert least_visible(Approximate(8.0), 200) == math.inf
    rho = isinstance(claim, Concentrated)
    options = {"rho": claim.value} if rho else {"epsilon": claim.value}
    for factor, visible in ((1.4, True), (0.7, False)):
        loss = factor * least
        scale = 1 / math.sqrt(2 * loss) if rho else 1 / loss

        def noisy(data, size, scale=scale):
            noise = rng.normal(size=size) if rho else rng.laplace(size=size)
            return data[0] + scale * noise

        found = audit(noisy, ([0.0], [1.0]), batch=True, runs=runs, test="coordinates", **options)
        assert found.passed != visible
