"""What every private method owes: a ledger that is the claim, no other trace of the data, no seed.

All of it is parametrised over METHODS, so that a method that is new is tested because it is there.
"""

import dataclasses
import io
import pickle
import warnings

import numpy as np
import pytest

from kvariates import PrivateKMeans
from kvariates.estimators.domains import LARGEST, SMALLEST
from kvariates.privacy.ledger import Budget, BudgetError, Charge, Ledger, Loss
from kvariates.private.aggregate import Gupt, SampleAggregate
from kvariates.private.grid import Grid
from kvariates.private.kvariates import Conditional
from kvariates.private.lloyd import Lloyd
from kvariates.private.methods import METHODS
from kvariates.private.task import Domain, Task

SIDES = ("add-remove", "replace-one")
DELTAS = (0.0, 1e-6)
CHOICES = {**METHODS, "kvariates-conditional": Conditional(delta_w=0.5)}

every_method = pytest.mark.parametrize("name", CHOICES)
both_sides = pytest.mark.parametrize("adjacency", SIDES)
X = np.random.default_rng(0).uniform(-1, 1, (60, 2))


def model_of(name="lloyd", **options):
    how = {"epsilon": 1.0, "bounds": (-1.0, 1.0), "method": CHOICES[name], **options}
    return PrivateKMeans(how.pop("n_clusters", 3), **how)


def random_task(rng, adjacency, delta, n=None):
    d, k = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    n = int(rng.integers(1, 150)) if n is None else n
    ends = rng.normal(size=d) * 10 ** rng.uniform(-3, 3)
    sides = rng.uniform(0.1, 2.0, d) * 10 ** rng.uniform(-3, 3)
    box = Domain.box(ends, ends + sides)
    domain = box if rng.random() < 0.5 else Domain.around(ends, float(sides[0]))
    rows = domain.rows(ends + rng.normal(size=(n, d)) * sides)
    return Task(rows, domain, k, adjacency, Loss(float(np.exp(rng.uniform(-4, 2.5))), delta))


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
        released = Lloyd()(task)
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
    model = model_of(method=Lloyd(steps=2)).fit(X)
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


# ---- parameters ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": np.nan}, "epsilon"),
        ({"epsilon": np.inf}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -1e-9}, "delta"),
        ({"n_clusters": 0}, "n_clusters"),
        ({"adjacency": "swap"}, "adjacency"),
        ({"method": "magic"}, "method"),
        ({"bounds": None}, "known without the data.*leak.*range"),
        ({"bounds": (1.0, -1.0)}, "low < high"),
        ({"bounds": (0.0, 0.0)}, "low < high"),
        ({"bounds": ([0, 0], [1, 0])}, "low < high"),
        ({"bounds": (0.0, np.inf)}, "finite"),
        ({"bounds": (np.nan, 1.0)}, "finite"),
        ({"bounds": (0.0, 1e200)}, "rescale"),
        ({"bounds": 3.0}, "pair"),
        ({"bounds": (1, 2, 3)}, "pair"),
        ({"bounds": ("a", "b")}, "number"),
        ({"bounds": ([0, 0], [1, 1, 1])}, "2 low ends and 3"),
        ({"bounds": ([0, 0, 0], [1, 1, 1])}, "3 features, but X has 2"),
        ({"radius": 1.0}, "either"),
        ({"center": [0, 0]}, "either"),
        ({"bounds": None, "radius": 0.0}, "radius"),
        ({"bounds": None, "radius": -1.0}, "radius"),
        ({"bounds": None, "radius": np.inf}, "radius"),
        ({"bounds": None, "radius": "wide"}, "radius"),
        ({"bounds": None, "radius": True}, "radius"),
        ({"bounds": None, "radius": 1e-200}, "rescale"),
        ({"bounds": None, "radius": 1.0, "center": [0, 0, 0]}, "3 features, but X has 2"),
        ({"bounds": None, "radius": 1.0, "center": [np.nan, 0]}, "finite"),
        ({"bounds": None, "center": [0.0, 0.0]}, "known without the data"),
        ({"budget": 1.0}, "budget"),
        ({"method": "kvariates-conditional"}, "delta_w"),
    ],
    ids=str,
)
def test_parameters_that_are_none_cost_nothing(options, message):
    budget = Budget(5.0, 0.5)
    with pytest.raises(ValueError, match=message) as refused:
        model_of(**{"budget": budget, **options}).fit(X)
    assert "\n" not in str(refused.value)
    assert budget.spent == Loss(0.0, 0.0)


@pytest.mark.parametrize(
    "made",
    [
        lambda: Lloyd(steps=0),
        lambda: Grid(rows_a_cell=0.0),
        lambda: Gupt(power=1.5),
        lambda: SampleAggregate(power=-1),
    ],
)
def test_choices_that_are_none(made):
    with pytest.raises(ValueError, match="must be"):
        made()


def test_a_ball_with_a_centre_is_where_it_was_said_to_be():
    rows = np.random.default_rng(0).normal([50.0, -20.0], size=(2000, 2))
    model = PrivateKMeans(2, epsilon=5.0, radius=4.0, center=[50, -20], method="lloyd").fit(rows)
    assert (np.linalg.norm(model.cluster_centers_ - [50.0, -20.0], axis=1) <= 4 + 1e-9).all()


# ---- a shared budget ----


class Unreadable:
    """Data that tell when they are looked at."""

    def __array__(self, *_, **__):
        raise AssertionError("was read")

    __len__ = __iter__ = __getitem__ = __array__


def test_a_budget_that_is_spent_reads_nothing():
    budget = Budget(2.5)
    for _ in range(2):
        model_of(budget=budget).fit(X)
    assert budget.left == Loss(0.5, 0.0)
    with pytest.raises(BudgetError, match=r"what is left is epsilon = 0\.5"):
        model_of(budget=budget).fit(Unreadable())
    assert budget.left == Loss(0.5, 0.0)
    model_of(budget=budget, epsilon=0.5).fit(X)
    with pytest.raises(BudgetError):
        model_of(budget=Budget(9.0), delta=1e-6).fit(Unreadable())
    assert [loss.epsilon for _, loss in budget.lines] == [1.0, 1.0, 0.5]


def test_the_budget_is_spent_before_data_are_read():
    budget = Budget(1.0)
    with pytest.raises(AssertionError, match="was read"):
        model_of(budget=budget).fit(Unreadable())
    assert budget.left == Loss(0.0, 0.0)


def test_a_fitted_model_comes_back_from_a_pickle_without_its_budget():
    budget = Budget(3.0)
    model = model_of(budget=budget).fit(X)
    again = pickle.load(io.BytesIO(pickle.dumps(model)))
    assert np.array_equal(again.predict(X), model.predict(X))
    with pytest.raises(BudgetError, match="pickled"):
        again.fit(X)


# ---- the owner's rows ----


def test_labels_distances_and_score_are_of_the_centres():
    model = model_of().fit(X)
    apart = np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2)
    np.testing.assert_allclose(model.transform(X), apart)
    assert np.array_equal(model.predict(X), apart.argmin(axis=1))
    assert model.score(X) == pytest.approx(-(apart.min(axis=1) ** 2).sum())
    assert model.fit_predict(X).shape == (60,)
    assert list(model.get_feature_names_out()) == [f"privatekmeans{j}" for j in range(3)]


def test_a_conditional_claim_says_so_everywhere():
    model = model_of("kvariates-conditional").fit(X)
    assert "conditional" in model.condition_
    assert "conditional" in repr(model)
    assert all("conditional" in charge.label for charge in model.ledger_.charges)

    def assumed(task):
        return dataclasses.replace(Lloyd()(task), condition="rows are distinct")

    model = model_of(method=assumed).fit(X)
    assert repr(model).endswith("# conditional: rows are distinct")
    assert all("conditional" in charge.label for charge in model.ledger_.charges)


# ---- the front door ----


def test_privacys_front_door():
    """`audit` is the function, though its module has the same name and is imported too."""
    from kvariates import privacy
    from kvariates.privacy.audit import near

    def mechanism(rows):
        return model_of(epsilon=0.5, n_clusters=1, method=Lloyd(steps=1)).fit(rows)

    pair = np.full((40, 2), 0.9), np.full((39, 2), 0.9)
    found = privacy.audit(mechanism, pair, epsilon=0.5, runs=100, view=near([[0.9, 0.9]]))
    assert found.passed  # wrongly broken: 1e-6
    priced = privacy.price(lambda e: model_of(epsilon=e), X, [0.1, 10.0], runs=2)
    assert (priced.mean > 0).all()
    assert {"Budget", "BudgetError", "Ledger", "audit", "price"} <= set(privacy.__all__)
