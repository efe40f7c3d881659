"""Audits pass what is right, and catch what was planted.

A right mechanism fails an audit with probability 1e-6 at most, by construction; seeds are fixed, so
what passes keeps passing.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from privacy.attacks import PAIR, laplace, run
from privacy.mutants import CASES, on_grid
from scipy import stats

from kvariates.privacy.auditing import audit, near
from kvariates.privacy.claims import Approximate, Concentrated, high, low
from kvariates.privacy.neighbours import neighbours
from kvariates.privacy.testers import Statistic

ALPHA = 1e-6


# --- verdicts --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_right_mechanism_passes(name):
    case = CASES[name]
    rng = np.random.default_rng(1)
    found = audit(case.right(rng), case.neighbours, batch=True, runs=case.runs, **case.claim)
    assert found.passed, str(found)


@pytest.mark.parametrize("name", CASES)
def test_a_planted_mistake_is_caught(name):
    case = CASES[name]
    rng = np.random.default_rng(2)
    found = audit(case.planted(rng), case.neighbours, batch=True, runs=case.runs, **case.claim)
    assert not found.passed, str(found)


def test_the_bound_comes_near_the_truth():
    assert 0.9 < run(laplace(1.0), runs=40_000).lower_bound <= 1.0
    assert 1.8 < run(laplace(0.5), runs=40_000).lower_bound <= 2.0


def test_false_alarms_are_as_rare_as_stated():
    """At a confidence of one half, of a mechanism that uses its whole budget."""
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


@pytest.mark.parametrize("turn", [1, -1])
def test_both_directions(turn):
    """Given away by an event that happens on one data set only, and seldom: in either order."""
    rng = np.random.default_rng(0)

    def mechanism(data, runs):
        return np.where(rng.random(runs) < 0.05, data[0], 0.0)

    found = run(mechanism, PAIR[::turn], runs=4000)
    assert not found.passed
    assert found.event.likelier == ("first" if turn == 1 else "second")


def test_delta_pays_for_what_seldom_happens():
    rng = np.random.default_rng(0)

    def tells_all_now_and_then(data, runs):
        return np.where(rng.random(runs) < 0.1, data[0], 0.5)

    assert run(tells_all_now_and_then, delta=0.1).passed
    assert not run(tells_all_now_and_then, delta=0.05).passed
    assert not run(tells_all_now_and_then).passed


def test_runs_are_used_once():
    """A statistic that knows the runs it was learnt on, and nothing else, shows nothing."""
    rng = np.random.default_rng(0)

    def learnt_by_heart(a, b):
        seen = set(a.numbers[:, 0].tolist())
        yield Statistic("seen", lambda out: np.array([float(x in seen) for x in out.numbers[:, 0]]))

    found = run(lambda data, runs: rng.random(runs), test=learnt_by_heart)
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


def test_certainty_is_worth_most():
    p, q = np.array([1.0, 0.5]), np.array([0.0, 0.0])
    assert np.isinf(Approximate(1.0).least(p, q)).all()
    assert np.isinf(Concentrated(1.0).least(p, q)).all()
    assert Concentrated(1.0).least(np.array(0.2), np.array(0.2)) == 0.0
    assert Approximate(1.0, 0.3).least(np.array(0.2), np.array(0.1)) == 0.0


# --- whatever a mechanism returns ------------------------------------------------------------

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


def test_a_view_opens_an_estimator():
    rng = np.random.default_rng(0)

    def fit(data):
        return SimpleNamespace(centers=data + on_grid(rng.laplace(size=1)), cost=data.sum())

    with pytest.raises(TypeError, match="view="):
        run(lambda data: object(), batch=False, runs=400)
    assert run(fit, batch=False, view=lambda model: model.centers).passed
    assert not run(fit, batch=False, view=vars).passed


def test_near_does_not_mind_the_order_of_centers():
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


# --- at the door -----------------------------------------------------------------------------


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
def test_bad_input_is_told(options, says):
    with pytest.raises(ValueError, match=says):
        run(laplace(1.0), **options)


def test_more_bad_input_is_told():
    with pytest.raises(ValueError, match="outputs"):
        run(lambda data, runs: [0.0])
    with pytest.raises(ValueError, match="kind"):
        neighbours("nowhere", 2, 2)
    with pytest.raises(ValueError, match="at least 1"):
        neighbours("corner", 0, 2)


def test_as_many_runs_as_it_says_are_enough():
    with pytest.raises(ValueError, match="take at least") as told:
        run(laplace(1.0), epsilon=6.0, runs=100)
    needed = int(str(told.value).split("at least ")[1].split(",")[0])
    assert run(lambda data: data[0], batch=False, epsilon=6.0, runs=needed).lower_bound > 6.0


def test_an_audit_prints():
    shown = str(run(laplace(0.5)))
    assert "THE CLAIM IS BROKEN" in shown
    assert "number 0" in shown
    assert "no violation found" in str(run(laplace(1.0)))
    assert "rho" in str(audit(laplace(9.0), PAIR, rho=1.0, runs=400, batch=True))
