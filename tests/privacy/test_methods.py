"""What every private method owes: a ledger that is the claim, no other trace of the data, no seed.

All of it is parametrised over METHODS, so that a method that is new is tested because it is there.
"""

import dataclasses
import pickle
import warnings

import numpy as np
import pytest
from privacy.models import CHOICES, DELTAS, X, both_sides, every_method, model_of

from kvariates.estimators.domain_spec import LARGEST, SMALLEST
from kvariates.privacy.ledger import BudgetError, Charge, Ledger, Loss
from kvariates.private_methods.noisy_lloyd import NoisyLloyd
from kvariates.private_methods.task import Domain, PrivateTask


def random_task(rng, adjacency, delta, n=None):
    d, k = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    n = int(rng.integers(1, 150)) if n is None else n
    ends = rng.normal(size=d) * 10 ** rng.uniform(-3, 3)
    sides = rng.uniform(0.1, 2.0, d) * 10 ** rng.uniform(-3, 3)
    box = Domain.box(ends, ends + sides)
    domain = box if rng.random() < 0.5 else Domain.around(ends, float(sides[0]))
    rows = domain.rows(ends + rng.normal(size=(n, d)) * sides)
    return PrivateTask(rows, domain, k, adjacency, Loss(float(np.exp(rng.uniform(-4, 2.5))), delta))


# ---- the ledger is the claim ----


@every_method
@both_sides
@pytest.mark.parametrize("delta", DELTAS)
def test_the_ledger_is_the_claim_and_never_above_it(name, adjacency, delta):
    rng = np.random.default_rng([3, len(name)])
    for run in range(5):
        task = random_task(rng, adjacency, delta, n=0 if run == 0 else None)
        released = CHOICES[name](task)
        total = Ledger(adjacency, released.charges, task.loss).total()  # raises if above
        assert total.epsilon == pytest.approx(task.loss.epsilon, rel=1e-9)
        assert total.delta in (0.0, delta)
        assert released.centers.shape == (task.k, task.domain.d)
        assert np.isfinite(released.centers).all()
        slack = 1e-9 * task.domain.radius
        np.testing.assert_allclose(
            task.domain.inside(released.centers), released.centers, atol=slack
        )


def test_a_method_that_spends_too_much_is_refused():
    def greedy(task):
        released = NoisyLloyd()(task)
        return dataclasses.replace(released, charges=released.charges * 2)

    with pytest.raises(BudgetError, match="more than the claim"):
        model_of(method=greedy).fit(X)


# Charges that hang on nothing but public numbers: those of other data with as many rows are equal.
@pytest.mark.parametrize(
    "name", ["forgy", "gupt", "sample-aggregate", "lloyd", "grid", "kvariates"]
)
@pytest.mark.parametrize("delta", DELTAS)
def test_charges_do_not_know_the_data(name, delta):
    one = model_of(name, adjacency="replace-one", delta=delta).fit(X)
    other = model_of(name, adjacency="replace-one", delta=delta).fit(np.full((60, 2), 0.75))
    assert one.ledger_ == other.ledger_


# ---- nothing else leaves ----

PUBLIC = {"n_features_in_", "feature_names_in_", "condition_"}
PAID = {"cluster_centers_", "ledger_"}


def complaints(model):
    """Return everything a fitted model holds that is neither public nor paid for."""
    held = vars(model)
    found = [name for name in held if name not in {*PUBLIC, *PAID, *model.get_params(deep=False)}]
    ledger, centers = held["ledger_"], held["cluster_centers_"]
    found += _fields(ledger, Ledger, "ledger_")
    for charge in ledger.charges:
        found += _fields(charge, Charge, "charge")
    if dataclasses.is_dataclass(model.method):
        found += _fields(model.method, type(model.method), "method")
    if centers.shape != (model.n_clusters, model.n_features_in_) or centers.base is not None:
        found.append("cluster_centers_: a shape or a memory that is not theirs")
    return found


def _fields(record, kind, name):
    """Return attributes that the record's class does not declare, and values of other kinds."""
    if type(record) is not kind:
        return [f"{name} is no {kind.__name__}"]
    declared = {field.name for field in dataclasses.fields(record)}
    simple = (str, float, int, tuple, type(None))
    return [
        f"{name}.{key}"
        for key, value in vars(record).items()
        if key not in declared or not isinstance(value, simple)
    ]


@every_method
@both_sides
def test_nothing_else_leaves(name, adjacency):
    fits = {}
    for n in (60, 6000):
        model = model_of(name, adjacency=adjacency).fit(np.resize(X, (n, 2)))
        assert complaints(model) == []
        assert complaints(pickle.loads(pickle.dumps(model))) == []
        fits[n] = model
    # No array as long as the data hides in the pickle, a byte a row; charges may differ a little.
    assert abs(len(pickle.dumps(fits[6000])) - len(pickle.dumps(fits[60]))) < 2000
    unfitted = model_of(name, adjacency=adjacency)
    told = repr(fits[60]).split("  # ")
    assert told[0] == repr(unfitted)
    assert (len(told) == 2) == (fits[60].condition_ is not None)


@every_method
def test_no_row_is_in_the_pickle_or_in_print(name):
    """A row whose bytes nobody else has."""
    secret = np.tile([0.123456789012345, -0.987654321098765], (60, 1))
    model = model_of(name).fit(secret)
    page = pickle.dumps(model)
    for value in secret[0]:
        assert np.float64(value).tobytes() not in page
        assert f"{value:.9f}"[:10] not in f"{model!r} {model.ledger_} {model.ledger_.charges}"


@pytest.mark.parametrize(
    "plant",
    [
        lambda m: setattr(m, "labels_", m.predict(X)),
        lambda m: setattr(m, "inertia_", -m.score(X)),
        lambda m: setattr(m, "_n", 60),
        lambda m: object.__setattr__(m.ledger_, "rows", 60),
        lambda m: object.__setattr__(m.ledger_.charges[0], "exact", 17),
        lambda m: object.__setattr__(m.ledger_.charges[0], "label", X[:1]),
        lambda m: object.__setattr__(m.method, "start", X[:1]),
        lambda m: setattr(m, "cluster_centers_", np.vstack([m.cluster_centers_, X])),
        lambda m: setattr(m, "cluster_centers_", np.vstack([m.cluster_centers_, X])[:3]),
    ],
    ids=["labels", "inertia", "n", "ledger", "charge", "label", "method", "rows", "view"],
)
def test_what_is_planted_is_found(plant):
    model = model_of(method=NoisyLloyd(steps=2)).fit(X)
    assert complaints(model) == []
    plant(model)
    assert len(complaints(model)) == 1


@every_method
@both_sides
def test_noise_cannot_be_seeded(name, adjacency):
    """Two fits that are equal by chance: at most (1/30)^8, for medians among 256 places."""
    rows, fits = np.random.default_rng(1).uniform(-1, 1, (3000, 2)), []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        fits.append(model_of(name, n_clusters=4, adjacency=adjacency).fit(rows).cluster_centers_)
    assert not np.array_equal(*fits)


# ---- rows ----


@every_method
def test_no_rows_and_more_clusters_than_rows(name):
    for n in (0, 1, 3):
        model = model_of(name, n_clusters=5).fit(X[:n])
        assert model.cluster_centers_.shape == (5, 2)
        assert (np.abs(model.cluster_centers_) <= 1 + 1e-9).all()
    model = model_of(name, n_clusters=5, adjacency="replace-one").fit(X[:3])
    assert model.cluster_centers_.shape == (5, 2)


def test_no_rows_where_their_number_is_public():
    with pytest.raises(ValueError, match="0 sample"):
        model_of(adjacency="replace-one").fit(X[:0])


@every_method
def test_rows_outside_are_clipped_in_silence(name):
    far = X.copy()
    far[3], far[4] = [1e308, -1e308], [5.0, 0.5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = model_of(name).fit(far)
    assert (np.abs(model.cluster_centers_) <= 1 + 1e-9).all()
    domain = Domain.box(np.full(2, -1.0), np.full(2, 1.0))
    assert np.array_equal(domain.rows(far), domain.rows(np.clip(far, -1, 1)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_bad_row_gives_one_error_whatever_the_others_are(value):
    said = set()
    for n, at in ((60, 3), (7, 0), (200, 199)):
        rows = np.random.default_rng(n).normal(size=(n, 2))
        rows[at, 1] = value
        with pytest.raises(ValueError, match="NaN or infinity") as refused:
            model_of().fit(rows)
        said.add(str(refused.value))
    assert len(said) == 1
    assert "\n" not in said.pop()


class Quoting:
    """A value whose error tells it."""

    def __float__(self):
        raise ValueError("this is no number: secret")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["1", "secret"], ["2", "3"]], "could not convert"),
        (np.array([["1", "secret"], ["2", "3"]], dtype=object), "could not convert"),
        (np.array([42.5, 17.25]), "Expected 2D array"),
        (np.array([[42.5 + 1j]]), "Complex data"),
        (np.array([[1.0, Quoting()]], dtype=object), "table of numbers"),
        ([[1.0, 2.0]] * 16 + [[3.0]], "table of numbers"),
        ([[10**400, 1]], "table of numbers"),
        (np.empty((17, 0)), "0 feature"),
    ],
    ids=[
        "words", "objects", "one dimension", "complex", "quoting", "ragged", "large", "no columns",
    ],
)  # fmt: skip
def test_errors_quote_no_rows_and_do_not_count_them(rows, message):
    with pytest.raises((ValueError, TypeError), match=message) as refused:
        model_of().fit(rows)
    for part in ("secret", "42.5", "17", "\n"):
        assert part not in str(refused.value)
    assert refused.value.__context__ is None  # where the validator's own words would be


def test_rows_come_as_arrays_lists_and_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["east", "north"])
    for rows in (X.astype(np.float32), X.tolist(), np.asfortranarray(X), frame, X[::2]):
        model = model_of().fit(rows)
        assert model.cluster_centers_.dtype == np.float64
        assert model.predict(rows).shape == (len(rows),)
    fitted = model_of().fit(frame)
    assert list(fitted.feature_names_in_) == ["east", "north"]
    assert complaints(fitted) == []


def test_sparse_rows_are_refused():
    from scipy import sparse

    with pytest.raises(TypeError, match=r"[Ss]parse"):
        model_of().fit(sparse.csr_array(X))


@every_method
@pytest.mark.parametrize("size", [SMALLEST, LARGEST])
def test_in_the_smallest_and_the_largest_domain_no_row_makes_a_fit_fail(name, size):
    """A hair's breadth among rows that are all the same, and rows in the corners."""
    middle = np.zeros((40, 2))
    hair, corners = middle.copy(), np.full((40, 2), size)
    hair[0, 0], corners[::2] = size * 1e-6, -size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (middle, hair, corners, np.vstack([middle, corners[:1]])):
            model_of(name, bounds=None, radius=size).fit(rows)
