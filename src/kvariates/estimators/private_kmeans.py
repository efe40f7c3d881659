"""PrivateKMeans: differentially private k-means behind scikit-learn's interface.

    parameters -> budget -> data -> centres and their ledger

A parameter that is wrong costs nothing; a budget that is spent reads nothing; and what is kept
after a fit was paid for, or is public.
"""

from __future__ import annotations

import re
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from kvariates.data.rows import Labels, Rows, total_cost
from kvariates.estimators import domain_spec
from kvariates.privacy.ledger import Adjacency, Budget, Ledger, Loss
from kvariates.private_methods.methods import METHODS
from kvariates.private_methods.task import Domain, Method, PrivateResult, PrivateTask

DTYPES = [np.float64, np.float32]


class PrivateKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """k-means whose centres are (epsilon, delta)-differentially private, with a ledger.

    What is fitted tells almost nothing about any one row. Everything that it was computed from is a
    line of ``ledger_``; there are no labels, no inertia and no number of rows. ``predict``,
    ``transform`` and ``score`` work on rows that the caller holds, and promise nothing about them.

    Noise comes from the operating system and cannot be seeded: two fits differ.

    Parameters
    ----------
    n_clusters : int, default=8
        How many centres; more than there are rows is allowed, for their number is secret.
    epsilon : float
        The budget of a fit. There is no default: see ``kvariates.privacy.price`` for what one buys.
    delta : float, default=0.0
        0 is pure epsilon-privacy. Above 0 (well below one over the number of rows) noise is
        Gaussian, and far smaller where there are many features.
    bounds : tuple (low, high), default=None
        Where rows may be: numbers, or one for each feature. Known without the data.
    radius, center : float and array-like, default=None
        The same as a ball; `center` is the origin by default. Either `bounds` or `radius`. Rows
        outside are clipped, and how many is not told.
    adjacency : {"add-remove", "replace-one"}, default="add-remove"
        What one row's data means: that it is there at all; or what it says, and then the number of
        rows is public.
    method : str or method, default="auto"
        A name of ``kvariates.private_methods.methods.METHODS``, or a method object.
    budget : Budget, default=None
        What several fits share. A fit that it cannot pay raises BudgetError and reads nothing.
        A fit that the budget has paid for is paid for: that data are bad (NaN, words) is seen only
        by reading them, and nothing is given back.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
    ledger_ : Ledger
        Every release with its sensitivity, noise and cost, beside the claim.
    condition_ : str or None
        What the claim rests on besides the mechanism; None: nothing.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where X has names that are strings.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any] | str]] = {
        **dict.fromkeys(("bounds", "radius", "center"), "no_validation"),  # `domains` does
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "adjacency": [StrOptions({"add-remove", "replace-one"})],
        "method": [StrOptions(set(METHODS)), callable],
        "budget": [Budget, None],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float,
        delta: float = 0.0,
        bounds: Any = None,
        radius: float | None = None,
        center: Any = None,
        adjacency: Adjacency = "add-remove",
        method: str | Method = "auto",
        budget: Budget | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.radius = radius
        self.center = center
        self.adjacency = adjacency
        self.method = method
        self.budget = budget

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> PrivateKMeans:
        """Find the centres, and write down what they cost.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense rows of numbers, one for each person (or whatever is to be protected), 2^31 at
            most. There may be none under add-remove.
        y : ignored

        Returns
        -------
        self : PrivateKMeans
        """
        asked = domain_spec.DomainSpec.of(self.bounds, self.radius, self.center)
        asked.check_columns(X)
        loss = Loss(float(self.epsilon), float(self.delta))
        method = METHODS[self.method] if isinstance(self.method, str) else self.method
        if isinstance(method, type):
            raise TypeError(f"method must be a name or an object: give {method.__name__}(...).")
        getattr(method, "check", lambda: None)()  # choices that a method cannot do without
        if self.budget is not None:
            self.budget.spend(*loss, label=f"PrivateKMeans, {self.n_clusters} clusters")
        X = self._rows(X)
        domain = asked.domain(X.shape[1])
        task = PrivateTask(domain.rows(X), domain, int(self.n_clusters), self.adjacency, loss)
        self._keep(method(task), domain, loss)
        return self

    def _rows(self, X: Any) -> Any:
        """X, or an error that says nothing about any row but that there is a bad one."""
        least = 0 if self.adjacency == "add-remove" else 1
        refused = None
        try:
            X = validate_data(
                self, X, dtype=DTYPES, ensure_all_finite=False, ensure_min_samples=least
            )
        except (OverflowError, TypeError, ValueError) as error:
            refused = _without_values(error, count_is_secret=least == 0)
        if refused is not None:
            raise refused  # not where it was caught: the validator's own words would hang on it
        if not domain_spec.all_finite(X):
            raise ValueError("X contains NaN or infinity: leave such rows out, or fill them in.")
        return X

    def _keep(self, released: PrivateResult, domain: Domain, loss: Loss) -> None:
        charges = released.charges
        if released.condition is not None:
            charges = tuple(replace(c, label=_conditional(c.label)) for c in charges)
        self.ledger_ = Ledger(self.adjacency, charges, loss)
        self.condition_ = released.condition
        self.cluster_centers_ = released.centers + domain.center

    def predict(self, X: Any) -> Labels:
        """The number of the nearest centre of every row. Not private: it is for who holds X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        labels: Labels = self._known(X).nearest(self.cluster_centers_)
        return labels

    def fit_predict(self, X: Any, y: Any = None) -> Labels:
        """``fit(X).predict(X)``: labels are for who holds X, and not private.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        self.fit(X)
        return self.predict(X)

    def transform(self, X: Any) -> NDArray[Any]:
        """Distances of every row to the centres. Not private: they are for who holds X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        distances : ndarray of shape (n_samples, n_clusters)
        """
        return self._known(X).distances(self.cluster_centers_)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the sum of squared distances to the nearest centres. Not private.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        score : float
        """
        space = self._known(X)
        labels = space.nearest(self.cluster_centers_)
        return -total_cost(space.costs(self.cluster_centers_, labels), None)

    def _known(self, X: Any) -> Rows:
        check_is_fitted(self)
        return Rows.of(validate_data(self, X, dtype=DTYPES, order="C", reset=False))

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        condition = getattr(self, "condition_", None)
        end = "" if condition is None else f"  # {_conditional(condition)}"
        return f"{super().__repr__(N_CHAR_MAX=N_CHAR_MAX)}{end}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# What validators say of the table as a whole. Anything else they say may quote what is in it.
OF_THE_TABLE = (
    "Complex data", "Expected 2D array", "Found array with", "Sparse data",
    "could not convert string to float", "float() argument must be",
)  # fmt: skip


def _without_values(error: Exception, *, count_is_secret: bool) -> Exception:
    """What a validator said, without the values that it quotes, and without the number of rows."""
    line = str(error).split("\n", maxsplit=1)[0]
    if not line.startswith(OF_THE_TABLE):
        line = "X must be a table of numbers, every row as long as the others."
    elif line.startswith("could not convert"):
        line = line.split(":", maxsplit=1)[0] + "."
    if count_is_secret:
        line = re.sub(r"shape=\(\d+", "shape=(..", line)
    return TypeError(line) if isinstance(error, TypeError) else ValueError(line)


def _conditional(words: str) -> str:
    return words if "conditional" in words else f"conditional: {words}"
