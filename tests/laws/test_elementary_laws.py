"""Elementary functions: NumPy's in extended precision, where there is one.

Those of float64 depend on NumPy's version and on the processor.
"""

import numpy as np
from api import arcsine, exp2, expm1, log1p, sine_cosine

POWERS = np.ldexp(1.0, -np.arange(1, 1074))


def near(found, truth):
    """Within two units in the last place."""
    assert (np.abs(found - truth) <= 2 * np.spacing(np.abs(truth.astype(np.float64)))).all()


def wide(x):
    return x.astype(np.longdouble)


def test_sine_cosine_and_arcsine():
    rng = np.random.default_rng(3)
    special = np.arange(-16, 17) * np.pi / 4
    angles = np.concatenate([rng.uniform(-7, 7, 20_000), special, np.ldexp(1.0, -np.arange(60))])
    found = sine_cosine(angles)
    np.testing.assert_allclose(found.sine, np.sin(wide(angles)), rtol=5e-16, atol=1e-25)
    np.testing.assert_allclose(found.cosine, np.cos(wide(angles)), rtol=5e-16, atol=1e-25)
    x = np.concatenate([rng.random(20_000), np.ldexp(1.0, -np.arange(1000)), [0.0, 0.5, 1.0]])
    np.testing.assert_allclose(arcsine(x), np.arcsin(wide(x)), rtol=5e-16)


def test_log1p_of_uniform_numbers():
    near_one = 1 - np.ldexp(1.0, -np.arange(1, 54))
    u = np.concatenate([np.random.default_rng(0).random(20_000), POWERS, near_one])
    near(log1p(-u), np.log1p(wide(-u)))
    assert log1p(np.zeros(1)) == 0


def test_expm1_up_to_zero():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.random(20_000) * 40, rng.random(20_000), POWERS, [700.0, 745.0, 1e300]])
    near(expm1(-x), np.expm1(wide(-x)))
    assert (expm1(np.array([0.0, -np.inf])) == [0.0, -1.0]).all()


def test_powers_of_two():
    x = np.random.default_rng(2).uniform(-60, 60, 20_000)
    near(exp2(x), np.exp2(wide(x)))
    whole = np.arange(-1074.0, 1024.0)
    assert (exp2(whole) == np.ldexp(1.0, whole.astype(int))).all()
