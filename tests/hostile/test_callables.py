"""Densities, probes, metrics and starts that raise or return nonsense end with one clear error."""

from hostile.child import outcomes

SETUP = """
from kvariates import kvariates_plusplus, kmeans_parallel, kmeans_plusplus
from kvariates import Dirac, Gaussian, Laplace
X = np.random.default_rng(0).normal(size=(300, 3))
seed = lambda density=None, k=5, probe=None: kvariates_plusplus(
    X, k, density=density, probe=probe, random_state=0)

class Custom:
    '''A density that returns what it is given.'''
    def __init__(self, sample, trace=0.0):
        self.drawn, self.traced = sample, trace
    def sample(self, rows, picked, weight, rng):
        if isinstance(self.drawn, Exception):
            raise self.drawn
        return self.drawn
    def mean(self, rows, weight):
        return X
    def trace(self, rows, weight):
        return np.full(len(X), self.traced)

class Wild:
    def __init__(self, value):
        self.value = value
    def __call__(self, X, k, random_state=None):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

def fails(a, b):
    raise KeyError("metric")

rng = np.random.default_rng(5)
huge = np.where(X > 0, 1.5e308, -1.5e308)
"""

SCALE = "scale must be finite and not negative; got"
LEAVE = "ValueError: Some values or weights are too large (weighted squared distances"
WIDE = "ValueError: The values of X are too large (squared distances overflow float64). Scale"
WEIGHT = "ValueError: sample_weight goes from"
FINITE = "ValueError: The density Custom returned NaN or infinity; its values must be finite."
CASES = {
    "Laplace(nan)": ("seed(Laplace(np.nan))", f"ValueError: Laplace: {SCALE} nan."),
    "Laplace(inf)": ("seed(Laplace(np.inf))", f"ValueError: Laplace: {SCALE} inf."),
    "Laplace(None)": ("seed(Laplace(None))", f"ValueError: Laplace: {SCALE} None."),
    "Laplace('wide')": ("seed(Laplace('wide'))", f"ValueError: Laplace: {SCALE} 'wide'."),
    "Gaussian(-1)": ("seed(Gaussian(-1))", f"ValueError: Gaussian: {SCALE} -1."),
    "Laplace(1e300)": ("seed(Laplace(1e300))", LEAVE),
    "Laplace(1e300), k = 1": (
        "seed(Laplace(1e300), 1)", "ValueError: The density Laplace returned NaN or infinity"),
    "Gaussian of two scales": (
        "seed(Gaussian([1, 2]))", "ValueError: Gaussian has scales of shape (2,) for 3 features;"),
    "Laplace(0)": ("seed(Laplace(0.0))", "done"),
    "density: NaN": ("seed(Custom(np.full((1, 3), np.nan)))", FINITE),
    "density: infinity": ("seed(Custom(np.full((1, 3), np.inf)))", FINITE),
    "density: 1e300": ("seed(Custom(np.full((1, 3), 1e300)))", LEAVE),
    "density: None": (
        "seed(Custom(None))",
        "ValueError: The density Custom returned object of shape (); it must return numbers of"),
    "density: wrong shape": (
        "seed(Custom(np.ones((2, 3))))",
        "ValueError: The density Custom returned float64 of shape (2, 3); it must return numbers"),
    "density: text": ("seed(Custom(np.full((1, 3), 'a')))", "ValueError: The density Custom retur"),
    "density: trace is NaN": ("seed(Custom(X[:1], np.nan))", FINITE),
    "density: raises": ("seed(Custom(KeyError('mine')))", "KeyError: 'mine'"),
    "density: always one row": ("seed(Custom(X[:1]))", "done"),
    "probe: NaN": ("seed(probe=lambda X, t: X * np.nan)", "ValueError: probe returned an array"),
    "probe: 1e200": ("seed(probe=lambda X, t: X * 1e200)", LEAVE),
    "probe: None": ("seed(probe=lambda X, t: None)", "ValueError: probe returned an array of sha"),
    "init: raises": ("KMeans(3, init=Wild(KeyError('mine'))).fit(X)", "KeyError: 'mine'"),
    "init: None": ("KMeans(3, init=Wild(None)).fit(X)", "ValueError: Expected 2D array, got sca"),
    "init: NaN": ("KMeans(3, init=Wild(X[:3] * np.nan)).fit(X)", "ValueError: Input contains NaN"),
    "init: shape": ("KMeans(3, init=Wild(X[:2])).fit(X)", "ValueError: The shape of the initial"),
    "init: 1e300": ("KMeans(3, init=np.full((3, 3), 1e300), n_init=1).fit(X)",
        "ValueError: init: the centres are so far away"),
    "metric: raises": ("KMedian(3, metric=fails).fit(X)", "KeyError: 'metric'"),
    "metric: random": (
        "KMedian(3, metric=lambda a, b: float(rng.random())).fit(X)",
        "ValueError: metric is not symmetric"),
    "k-means||: weights 1e308": (
        "kmeans_parallel(X, 5, sample_weight=np.full(300, 1e308), random_state=0)", WEIGHT),
    "k-means||: rows near 1e308": ("kmeans_parallel(huge, 5, random_state=0)", WIDE),
    "k-means++: rows near 1e308": ("kmeans_plusplus(huge, 5, random_state=0)", WIDE),
    "k-means++: weights times squares": (
        "kmeans_plusplus(X * 1e10, 5, sample_weight=np.full(300, 1e300), random_state=0)",
        "ValueError: sample_weight goes from"),
    "fit: weights times squares": (
        "KMeans(3, n_init=1, init=X[:3]).fit(X * 1e10, sample_weight=np.full(300, 1e300))",
        "ValueError: sample_weight goes from"),
}  # fmt: skip


def test_nonsense_ends_with_one_clear_error():
    found = outcomes({name: case for name, (case, _) in CASES.items()}, SETUP, seconds=120)
    for name, (_, words) in CASES.items():
        assert found[name].startswith(words), f"{name}: {found[name]}"
