"""PrivateKMeans: differentially private k-means behind scikit-learn's interface.

    check the parameters -> spend the budget -> read the data -> run the method -> store

A wrong parameter costs nothing, and a budget that is too small is found before data are read. All
that a fitted model stores is public or was computed from releases.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from kvariates.data.lattice_rows import Adjacency
from kvariates.data.rows import Labels, Rows, check_sparse
from kvariates.estimators import validation
from kvariates.estimators.array_input import check_readable, host_array
from kvariates.estimators.callbacks import FitReport
from kvariates.estimators.fitted_centers import FittedCenters
from kvariates.estimators.private_input import (
    CONSTRAINTS,
    DomainSpec,
    Missing,
    PrivateEstimator,
    all_finite,
    check_kind,
    checked_claim,
    missing_as_nan,
    number_of_features,
    spendable,
    without_missing,
)
from kvariates.estimators.validation import PrivateMethodName
from kvariates.privacy.budget import Budget
from kvariates.privacy.secret import silent
from kvariates.private_methods.methods import PRIVATE_METHODS
from kvariates.private_methods.task import PrivateMethod, PrivateResult, PrivateTask, run_method
from kvariates.tables import documented

Function = Callable[[PrivateTask], PrivateResult]
DTYPES = [np.float64, np.float32]


@documented(PRIVATE_METHODS=PRIVATE_METHODS)
@dataclass(eq=False, repr=False)
class PrivateKMeans(PrivateEstimator, FittedCenters):
    """k-means whose centres are (epsilon, delta)-differentially private, with a ledger.

    A fitted model reveals almost nothing about any one row. Each release it was computed from has a
    line in ``ledger_``; there are no labels, no inertia and no exact number of rows. ``predict``,
    ``transform`` and ``score`` are computed from the rows that the caller gives, and are not
    private.

    Noise comes from OpenDP and cannot be seeded: two fits differ.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of centres; it may be larger than the number of rows, which is secret.
    epsilon : float
        The budget of a fit. There is no default; ``kvariates.privacy.price`` helps to choose.
    delta : float, default=0.0
        0 is pure epsilon-privacy. Above 0 (such as 1e-6; well below one over the number of rows)
        noise is Gaussian, and far smaller if there are many features.
    bounds : tuple (low, high) or dict, default=None
        Where rows may be: two numbers, or two for each feature; of a DataFrame also a pair for
        each column, ``{"age": (0, 120), "income": (0, 200)}``. Known without the data.
    radius, center : float and array-like, default=None
        A ball instead of bounds; `center` is the origin by default. Rows outside are clipped.
    adjacency : {"add-remove", "replace-one"}, default="add-remove"
        Which data sets are neighbours: those that differ by one row more, or by one row replaced;
        then the number of rows is public.
    method : str or method object, default="auto"
        A name, or an object with other choices, such as ``NoisyLloyd(steps=3)``.

        <list of PRIVATE_METHODS>
    missing : {"drop", "error"}, default="drop"
        Rows with NaN or infinity. "drop": they are left out silently, since a message would reveal
        a row; under replace-one they become the centre of the domain. "error": the fit fails, which
        tells that there is such a row; then the claim has a condition.
    budget : Budget, default=None
        A budget that several fits share. If too little of it is left, ``fit`` raises BudgetError
        before it reads X. The number of features is public and looked at before; if X turns out to
        be bad otherwise (text, or a Python integer above the range of floats), the budget is spent
        all the same.
    verbose : int, default=0
        Print a line for every phase. The lines say nothing about rows.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
    cluster_counts_ : ndarray of shape (n_clusters,)
        Noisy numbers of the rows of each centre, paid for by the budget.
    ledger_ : Ledger
        Every release with its sensitivity, noise and cost, and the claim. ``ledger_.report()`` is a
        page in words.
    condition_ : str or None
        What the claim assumes about the data; None if nothing.
    notes_ : tuple of str
        What ``fit`` warned of, such as how many centres may be only noise; empty if nothing was
        noticed. Computed from releases alone, as all that follows.
    doubtful_ : ndarray of bool of shape (n_clusters,)
        The centres that may be only noise: noise alone could give their counts.
    center_errors_ : ndarray of shape (n_clusters, n_features) or None
        Error bars, for the noise of the last release: each number of a centre is at most so far
        from what it would be without this noise, with a probability of at least 95 %. NaN where
        nothing can be said. None if the method does not tell.
    center_errors_about_ : str
        What the error bars cover and what not, or why there are none.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has names that are strings.
    """

    n_clusters: int = 8
    _: KW_ONLY
    epsilon: float
    delta: float = 0.0
    bounds: Any = None
    radius: float | None = None
    center: Any = None
    adjacency: Adjacency = "add-remove"
    method: PrivateMethodName | PrivateMethod[PrivateTask] | Function = "auto"
    missing: Missing = "drop"
    budget: Budget | None = None
    verbose: int = 0

    _complete = "conditional: that X has no missing value, since missing='error' reveals one"
    _parameter_constraints: ClassVar[dict[str, list[Any] | str]] = {
        **dict.fromkeys(("bounds", "radius", "center"), "no_validation"),  # see `DomainSpec`
        **CONSTRAINTS,
        "method": [StrOptions(PRIVATE_METHODS.keys()), callable],
        "verbose": ["verbose"],
    }

    @validation.checked_fit
    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute private centres and their ledger.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of numbers, one for each person (or whatever is to be protected), at most 2^31.
            Under add-remove there may be none. Method "candidates" takes CSR matrices, too, in a
            domain around the origin.
        y : ignored

        Returns
        -------
        self : PrivateKMeans
        """
        return self._fit_and_warn(X)

    @validation.all_or_nothing
    def _fit(self, X: Any, report: FitReport) -> None:
        check_readable(X)
        spec = DomainSpec.of(self.bounds, self.radius, self.center, X)
        claim = checked_claim(self.epsilon, self.delta)
        method = self._method_of(PRIVATE_METHODS)
        is_sparse = sparse.issparse(X)
        check_kind(X, sparse_allowed=method.traits.sparse)
        n_features = number_of_features(X)
        spec.check_features(n_features)
        if is_sparse:
            spec.check_sparse()
        method.check_features(n_features)
        condition = self._pay(method, claim, "clusters")
        with report.phase("read the rows"), silent():
            X = self._validate(host_array(X))
            domain = spec.domain(X)
            rows = domain.rows(without_missing(X, self.adjacency, domain.center))
        k, loss = int(self.n_clusters), spendable(claim)
        task = PrivateTask(rows, domain, k, self.adjacency, loss, sparse=is_sparse)
        with report.phase("releases"):
            result = run_method(method, task)
        if condition is not None:
            charges = tuple(replace(c, label=_conditional(c.label)) for c in result.charges)
            result = replace(result, charges=charges)
        columns = getattr(self, "feature_names_in_", ())
        self._store_releases(result, claim, condition, domain.words(), "one row", columns=columns)
        self.cluster_centers_ = result.centers + domain.center

    def _validate(self, X: Any) -> Any:
        """X as an array. An error says nothing about any row except that there is a bad one."""
        least = 0 if self.adjacency == "add-remove" else 1
        refused = None
        try:
            check_sparse(X)
            X = validate_data(
                self, missing_as_nan(X), dtype=DTYPES, ensure_all_finite=False,
                ensure_min_samples=least, accept_sparse="csr", accept_large_sparse=False,
            )  # fmt: skip
            X = validation.canonical(X)
        except (OverflowError, TypeError, ValueError) as error:
            refused = _without_values(error, count_is_secret=least == 0)
        if refused is not None:
            raise refused  # outside `except`, so that the validator's error is not its context
        if self.missing == "error" and not all_finite(X):
            raise ValueError(
                "X contains NaN or infinity: leave such rows out, fill them in, or use "
                "missing='drop'."
            )
        return X

    def score(self, X: Any, y: Any = None) -> float:  # type: ignore[override]
        """Minus the sum of squared distances to the nearest centres. Not private."""
        return super().score(X)

    def fit_predict(self, X: Any, y: Any = None) -> Labels:
        """``fit(X).predict(X)``. The labels are not private."""
        labels: Labels = self.fit(X).predict(X)
        return labels

    def _fitted_rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        return Rows.of(self._validated(X, reset=False))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        condition = vars(self).get("condition_")
        end = "" if condition is None else f"  # {_conditional(condition)}"
        return f"{super().__repr__(N_CHAR_MAX=N_CHAR_MAX)}{end}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        entry = PRIVATE_METHODS.get(self.method) if isinstance(self.method, str) else None
        method = self.method if entry is None else entry.run
        tags.input_tags.sparse = isinstance(method, PrivateMethod) and method.traits.sparse
        return tags


# Validators' messages about X as a whole. Others may quote values of X.
ABOUT_THE_WHOLE = (
    "Complex data", "Expected 2D array", "Found array with", "Only sparse", "Sparse data",
    "could not convert string to float", "float() argument must be",
)  # fmt: skip


def _without_values(error: Exception, *, count_is_secret: bool) -> Exception:
    """The error of a validator without quoted values and, if secret, the number of rows."""
    line = str(error).split("\n", maxsplit=1)[0]
    if not line.startswith(ABOUT_THE_WHOLE):
        line = "X must be a table of numbers, every row as long as the others."
    elif line.startswith("could not convert"):
        line = line.split(":", maxsplit=1)[0] + "."
    if count_is_secret:
        line = re.sub(r"shape=\(\d+", "shape=(..", line)
    return TypeError(line) if isinstance(error, TypeError) else ValueError(line)


def _conditional(words: str) -> str:
    return words if "conditional" in words else f"conditional: {words}"
