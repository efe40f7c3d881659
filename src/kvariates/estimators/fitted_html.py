"""How a model looks in a notebook: scikit-learn's diagram, and what was found in a few lines."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from kvariates.guarantees import how_to_measure, is_certifiable
from kvariates.notebook_html import boxed
from kvariates.privacy.ledger_report import error_lines


class FittedHtml:
    """A mixin for estimators: a box above scikit-learn's diagram once the model is fitted."""

    def _html_repr(self) -> str:
        diagram = str(estimator_html_repr(self))
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        title, *lines = fitted_lines(self)
        return f"{boxed(title, lines)}{diagram}"

    # scikit-learn calls `_html_repr` itself since 1.7.
    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        output = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            output["text/html"] = self._html_repr()
        return output


def fitted_lines(model: Any) -> list[str]:
    """What was found: a title, and lines of text. Of a private model, only what was released."""
    name = type(model).__name__
    if hasattr(model, "ledger_"):
        return _private_lines(model, name)
    if hasattr(model, "balance_"):
        return [
            f"{name}: {model.n_groups} groups, objective {model.objective_:.6g}",
            f"{model.n_sweeps_} sweeps{'' if model.converged_ else '; not converged'}",
        ]
    return _open_lines(model, name)


def _private_lines(model: Any, name: str) -> list[str]:
    ledger = model.ledger_
    title = f"{name}: {model.n_clusters} clusters, {ledger.claim.words()} ({ledger.adjacency})"
    releases = (
        f"{len(ledger.charges)} releases; print(model.ledger_.report()) says what was promised "
        "and what may be published."
    )
    condition = [] if model.condition_ is None else [f"Only if: {model.condition_}"]
    return [title, *model.notes_, releases, *condition, *error_lines(ledger)]


def _open_lines(model: Any, name: str) -> list[str]:
    words = [f"{getattr(model, 'n_clusters', '?')} clusters"]
    if (inertia := getattr(model, "inertia_", None)) is not None:
        words.append(f"inertia {inertia:.6g}")
    for attribute, what in (("n_iter_", "iterations"), ("n_swaps_", "swaps")):
        if (count := getattr(model, attribute, None)) is not None:
            words.append(f"{count} {what}")
    if (rows := getattr(model, "n_rows_seen_", None)) is not None:
        words.append(f"{rows:,} rows seen")
    lines = [f"{name}: {', '.join(words)}"]
    if (certificate := getattr(model, "certificate_", None)) is not None:
        lines.append(f"Certificate: {certificate}")
    if (guarantee := getattr(model, "guarantee_", None)) is not None:
        lines.append(f"Guarantee: {guarantee.promise}")
    elif (lost := getattr(model, "guarantee_lost_", None)) is not None:
        lines.append(f"No guarantee in numbers: {lost}")
        if certificate is None and is_certifiable(model):
            lines.append(how_to_measure(certifiable=True))
    return lines
