"""What a fit hands over: one record, which the report, the command and notebooks read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from kvariates.estimators.saving import SavedModel
from kvariates.guarantees import Guarantee, how_to_measure
from kvariates.notebook_html import boxed
from kvariates.privacy.ledger import Ledger, error_lines


@dataclass(frozen=True, eq=False)
class FitRecord:
    """What came out of a fit, and what was noticed. None: there is no such thing in this fit."""

    name: str = "KMeans"  # the class
    method: str = "k-means"  # what it does, in words
    n_clusters: int = 0
    # An array, a CSR matrix or a list; of a callable metric, any objects. None for medoids without
    # coordinates.
    centers: Any = None
    metric: Any = "euclidean"  # a name or a callable
    medoids: Any = None  # the points that are medoids; None: centres are means
    graph: Any = None  # the edges between the points, as a CSR matrix
    labels: Any = None  # of the rows of the fit, if the model holds them
    limited: bool = False  # whether clusters have limits on their sizes
    gap: float = 0.0  # how much the labels may cost more than the best ones within the limits
    inertia: float | None = None
    n_iter: int | None = None
    steps: str = "iterations"  # what `n_iter` counts
    demand: Any = None  # of each cluster
    certificate: Any = None
    certifiable: bool = False  # whether the estimator can compute a certificate of such a fit
    guarantee: Guarantee | None = None  # what is proved
    lost: str | None = None  # why nothing is

    # Of a fit with noise, computed from releases: sizes, which centres may be only noise, error
    # bars and what they mean, and what was noticed.
    counts: Any = None
    doubtful: Any = None
    errors: Any = None
    errors_about: str = ""
    notes: tuple[str, ...] = ()
    ledger: Ledger | None = None
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)  # of private peers, by name
    condition: str | None = None  # what the claim assumes

    # Of a stream.
    synopses: Any = None
    synopsis_weights: Any = None
    spread: Any = None
    rows_seen: int | None = None
    rows_dropped: int = 0
    in_batches: bool = False  # whether the model learns from one batch after the other

    transcript: Any = None  # what a coordinator and its peers, or parties, sent to each other

    @property
    def private(self) -> bool:
        """Whether there is a ledger; then nothing but what was charged may be written."""
        return self.ledger is not None

    @property
    def public_points(self) -> bool:
        """Whether the points of a private fit are public, and only its demand is private."""
        return self.private and self.medoids is not None

    @property
    def parties(self) -> bool:
        """Whether centres are a list of the columns of each party."""
        return self.medoids is None and isinstance(self.centers, list)

    @property
    def has_coordinates(self) -> bool:
        """Whether the centres are rows of numbers; medoids that are nodes, or words, are not."""
        if self.centers is None or self.medoids is None:
            return self.centers is not None
        try:
            return np.asarray(self.centers, dtype=np.float64).ndim == 2
        except (TypeError, ValueError):
            return False


class HasRecord:
    """A fitted model, or a result, that hands over a record."""

    @abstractmethod
    def _fit_record(self) -> FitRecord: ...


def fit_record_of(model: Any) -> FitRecord:
    """The record of a fitted model, of kvariates or with scikit-learn's names for what it found."""
    no_centers = TypeError(f"{type(model).__name__} has no centres to draw; is it fitted?")
    if isinstance(model, HasRecord):
        try:
            if isinstance(model, BaseEstimator):
                check_is_fitted(model)
        except NotFittedError:
            raise no_centers from None
        return model._fit_record()
    found = vars(model) if isinstance(model, BaseEstimator) else {}
    if "cluster_centers_" not in found:
        raise no_centers
    centers = found["cluster_centers_"]
    return FitRecord(
        type(model).__name__, n_clusters=len(centers), centers=centers,
        labels=found.get("labels_"), inertia=found.get("inertia_"), n_iter=found.get("n_iter_"),
    )  # fmt: skip


class FittedHtml(SavedModel, HasRecord):
    """A mixin for estimators: a box above scikit-learn's diagram once the model is fitted."""

    def _html_repr(self) -> str:
        diagram = str(estimator_html_repr(self))
        try:
            check_is_fitted(self)
            title, *lines = self._fitted_lines()
        except NotFittedError:
            return diagram
        return f"{boxed(title, lines)}{diagram}"

    # scikit-learn calls `_html_repr` itself since 1.7.
    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        output = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            output["text/html"] = self._html_repr()
        return output

    def _fitted_lines(self) -> list[str]:
        """What was found: a title, and lines of text."""
        return fitted_lines(self._fit_record())


def fitted_lines(record: FitRecord) -> list[str]:
    """What was found: a title, and lines of text. Of a private fit, only what was released."""
    if record.ledger is not None:
        return _private_lines(record, record.ledger)
    words = [f"{record.n_clusters} clusters"]
    words += [] if record.inertia is None else [f"inertia {record.inertia:.6g}"]
    words += [] if record.n_iter is None else [f"{record.n_iter} {record.steps}"]
    words += [] if record.rows_seen is None else [f"{record.rows_seen:,} rows seen"]
    lines = [f"{record.name}: {', '.join(words)}"]
    if record.certificate is not None:
        lines.append(f"Certificate: {record.certificate}")
    if record.guarantee is not None:
        lines.append(f"Guarantee: {record.guarantee.promise}")
    elif record.lost is not None:
        lines.append(f"No guarantee in numbers: {record.lost}")
        if record.certificate is None and record.certifiable:
            lines.append(how_to_measure(certifiable=True))
    return lines


def _private_lines(record: FitRecord, ledger: Ledger) -> list[str]:
    k, claim = record.n_clusters, ledger.claim.words()
    releases = (
        f"{len(ledger.charges)} releases; print(model.ledger_.report()) says what was promised "
        "and what may be published."
    )
    condition = [] if record.condition is None else [f"Only if: {record.condition}"]
    title = f"{record.name}: {k} clusters, {claim} ({ledger.adjacency})"
    return [title, *record.notes, releases, *condition, *error_lines(ledger)]
