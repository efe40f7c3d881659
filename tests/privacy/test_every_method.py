"""Laws of every private method: its ledger equals the claim, nothing else about the data leaves.

All tests run over PRIVATE_METHODS, so a new method is tested without an edit here.
"""

import dataclasses
import pickle
import warnings

import numpy as np
import pytest
from api import (
    LARGEST,
    SMALLEST,
    BudgetError,
    Charge,
    Domain,
    FitFacts,
    Ledger,
    Loss,
    NoisyLloyd,
    PrivateTask,
)
from privacy.exact_noise import both_adjacencies
from privacy.private_models import DELTAS, METHODS, X, every_method, make_model, seen
from scipy import sparse

# By its noise, a count of few rows may seem large enough for a partition that is mostly noise, and
# counts of centres may be noise alone.
SMALL_BUDGET = "The budget may be too small for the partition|.* may be only noise"


def random_task(rng, adjacency, delta, n=None):
    d, k = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    n = int(rng.integers(1, 150)) if n is None else n
    ends = rng.normal(size=d) * 10 ** rng.uniform(-3, 3)
    sides = rng.uniform(0.1, 2.0, d) * 10 ** rng.uniform(-3, 3)
    box = Domain.box(ends, ends + sides)
    domain = box if rng.random() < 0.5 else Domain.around(ends, float(sides[0]))
    rows = domain.rows(ends + rng.normal(size=(n, d)) * sides)
    return PrivateTask(rows, domain, k, adjacency, Loss(float(np.exp(rng.uniform(-4, 2.5))), delta))


# ---- the ledger ----


@every_method
@both_adjacencies
@pytest.mark.parametrize("delta", DELTAS)
def test_the_ledger_equals_the_claim_and_is_never_above_it(name, adjacency, delta):
    rng = np.random.default_rng([3, len(name)])
    for run in range(5):
        task = random_task(rng, adjacency, delta, n=0 if run == 0 else None)
        result = METHODS[name](task)
        total = Ledger(adjacency, result.charges, task.loss).total()  # raises if above
        assert total.epsilon == pytest.approx(task.loss.epsilon, rel=1e-9)
        assert total.delta in (0.0, delta)
        centers, slack = result.centers, 1e-9 * task.domain.radius
        assert centers.shape == (task.k, task.domain.d)
        np.testing.assert_allclose(task.domain.clip(centers), centers, atol=slack)


def test_a_method_that_spends_too_much_raises():
    def greedy(task):
        result = NoisyLloyd()(task)
        return dataclasses.replace(result, charges=result.charges * 2)

    with pytest.raises(BudgetError, match="more than the claim"):
        make_model(method=greedy).fit(X)


# The charges of these methods depend on public numbers only.
@pytest.mark.parametrize(
    "name", ["forgy", "gupt", "sample-aggregate", "lloyd", "grid", "kvariates"]
)
@pytest.mark.parametrize("delta", DELTAS)
def test_charges_do_not_depend_on_the_data(name, delta):
    one = make_model(name, adjacency="replace-one", delta=delta).fit(X)
    other = make_model(name, adjacency="replace-one", delta=delta).fit(np.full((60, 2), 0.75))
    assert one.ledger_.charges == other.ledger_.charges


# ---- what a model stores ----

PUBLIC = {"n_features_in_", "feature_names_in_", "condition_"}
RELEASED = {
    "cluster_centers_", "cluster_counts_", "ledger_", "notes_", "doubtful_", "center_errors_",
    "center_errors_about_",
}  # fmt: skip


def complaints(model):
    """Everything that a fitted model holds and that is neither public nor released."""
    held = vars(model)
    found = [
        name for name in held if name not in {*PUBLIC, *RELEASED, *model.get_params(deep=False)}
    ]
    ledger, centers = held["ledger_"], held["cluster_centers_"]
    found += _fields(ledger, Ledger, "ledger_", FitFacts)
    found += _fields(ledger.facts, FitFacts, "facts")
    for charge in ledger.charges:
        found += _fields(charge, Charge, "charge")
    if dataclasses.is_dataclass(model.method):
        found += _fields(model.method, type(model.method), "method")
    if centers.shape != (model.n_clusters, model.n_features_in_) or centers.base is not None:
        found.append("cluster_centers_: another shape, or a view of other memory")
    if held["cluster_counts_"].shape != (model.n_clusters,):
        found.append("cluster_counts_: another shape")
    return found


def _fields(record, kind, name, *others):
    """Attributes that the record's class does not declare, and values of other kinds."""
    if type(record) is not kind:
        return [f"{name} is no {kind.__name__}"]
    declared = {field.name for field in dataclasses.fields(record)}
    simple = (str, float, int, tuple, type(None), *others)
    return [
        f"{name}.{key}"
        for key, value in vars(record).items()
        if key not in declared or not isinstance(value, simple)
    ]


@every_method
@both_adjacencies
def test_a_model_stores_nothing_else(name, adjacency):
    fits = {}
    for n in (60, 6000):
        model = make_model(name, adjacency=adjacency).fit(np.resize(X, (n, 2)))
        assert complaints(model) == []
        assert complaints(pickle.loads(pickle.dumps(model))) == []
        fits[n] = model
    # The pickle holds no array with a byte a row; charges may differ a little.
    assert abs(len(pickle.dumps(fits[6000])) - len(pickle.dumps(fits[60]))) < 2000
    unfitted = make_model(name, adjacency=adjacency)
    text = repr(fits[60]).split("  # ")
    assert text[0] == repr(unfitted)
    assert (len(text) == 2) == (fits[60].condition_ is not None)


@every_method
def test_no_row_is_in_the_pickle_or_in_print(name):
    secret = np.tile([0.123456789012345, -0.987654321098765], (60, 1))
    model = make_model(name).fit(secret)
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
def test_a_planted_leak_is_found(plant):
    model = make_model(method=NoisyLloyd(steps=2)).fit(X)
    assert complaints(model) == []
    plant(model)
    assert len(complaints(model)) == 1


# ---- rows ----


@every_method
def test_no_rows_and_more_clusters_than_rows(name):
    for n in (0, 1, 3):
        model = make_model(name, n_clusters=5).fit(X[:n])
        assert model.cluster_centers_.shape == (5, 2)
        assert (np.abs(model.cluster_centers_) <= 1 + 1e-9).all()
    model = make_model(name, n_clusters=5, adjacency="replace-one").fit(X[:3])
    assert model.cluster_centers_.shape == (5, 2)


def test_no_rows_raise_if_their_number_is_public():
    with pytest.raises(ValueError, match="0 sample"):
        make_model(adjacency="replace-one").fit(X[:0])


@every_method
def test_rows_outside_are_clipped_without_a_warning(name):
    far = X.copy()
    far[3], far[4] = [1e308, -1e308], [5.0, 0.5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", SMALL_BUDGET)
        model = make_model(name).fit(far)
    assert (np.abs(model.cluster_centers_) <= 1 + 1e-9).all()
    domain = Domain.box(np.full(2, -1.0), np.full(2, 1.0))
    assert np.array_equal(*(seen(domain.rows(X)) for X in (far, np.clip(far, -1, 1))))


def test_the_error_for_a_bad_row_does_not_depend_on_the_rows():
    messages = set()
    for n, at, value in ((60, 3, np.nan), (7, 0, np.inf), (200, 199, -np.inf)):
        rows = np.random.default_rng(n).normal(size=(n, 2))
        rows[at, 1] = value
        with pytest.raises(ValueError, match="NaN or infinity") as error:
            make_model(missing="error").fit(rows)
        messages.add(str(error.value))
    assert len(messages) == 1
    assert "\n" not in messages.pop()


class Quoting:
    """A value that is quoted in its error."""

    def __float__(self):
        raise ValueError("this is no number: secret")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["1", "secret"], ["2", "3"]], "could not convert"),
        (np.array([42.5, 17.25]), "Expected 2D array"),
        (np.array([[42.5 + 1j]]), "Complex data"),
        (np.array([[1.0, Quoting()]], dtype=object), "table of numbers"),
        ([[1.0, 2.0]] * 16 + [[3.0]], "table of numbers"),
        ([[10**400, 1]], "table of numbers"),
        (np.empty((17, 0)), "0 feature"),
    ],
    ids=["text", "one dimension", "complex", "quoting", "ragged", "large", "no columns"],
)
def test_errors_neither_quote_nor_count_rows(rows, message):
    with pytest.raises((ValueError, TypeError), match=message) as error:
        make_model().fit(rows)
    for part in ("secret", "42.5", "17", "\n"):
        assert part not in str(error.value)
    assert error.value.__context__ is None  # it would hold the message of the validator


def test_rows_may_be_arrays_lists_and_data_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["east", "north"])
    for rows in (X.astype(np.float32), X.tolist(), np.asfortranarray(X), frame, X[::2]):
        model = make_model().fit(rows)
        assert model.cluster_centers_.dtype == np.float64
        assert model.predict(rows).shape == (len(rows),)
    fitted = make_model().fit(frame)
    assert list(fitted.feature_names_in_) == ["east", "north"]
    assert complaints(fitted) == []


def test_sparse_rows_raise():
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        make_model().fit(sparse.csr_array(X))


@every_method
@pytest.mark.parametrize("size", [SMALLEST, LARGEST])
def test_fits_do_not_fail_in_the_smallest_and_the_largest_domain(name, size):
    middle = np.zeros((40, 2))
    near, corners = middle.copy(), np.full((40, 2), size)
    near[0, 0], corners[::2] = size * 1e-6, -size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", SMALL_BUDGET)
        for rows in (middle, near, corners, np.vstack([middle, corners[:1]])):
            make_model(name, bounds=None, radius=size).fit(rows)
