"""Reports of fits as one HTML file, pictures and result files."""

from os import PathLike
from pathlib import Path
from typing import Any

from kvariates.file_writing import write_aside

__all__ = ["write_report"]

READABLE = 0o644


def write_report(model: Any, path: str | PathLike[str], X: Any = None) -> None:
    """Write a report of a fitted model: one HTML file that works without a network.

    The page has the clusters, their centres and sizes, what is proved about the cost, and, if there
    are some, the ledger of a private fit, the synopses of a stream or the transcript of peers. The
    file appears when it is complete, and replaces an older one.

    Parameters
    ----------
    model : estimator, Pipeline or FederatedResult
        Fitted. Centres of a pipeline are written in the units before its steps, if each step has an
        ``inverse_transform``; otherwise in those after them, and the page says so.
    path : str or path
        The file, as "report.html".
    X : array-like or CSR matrix of shape (n_samples, n_features), default=None
        The rows, which are drawn and counted. For `VerticalKMeans`, the columns of each party; for
        ``metric="graph"`` and "precomputed", coordinates of the points: a graph is then drawn as
        a map with its edges. (The graph or the distances themselves are taken, too, and not
        drawn.) None: only centres are drawn, and synopses of a stream. A model of private rows
        takes none.

    Examples
    --------
    >>> from kvariates import KMeans
    >>> from kvariates.report import write_report
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> write_report(KMeans(2, random_state=0).fit(X), "report.html", X)
    """
    from kvariates.report.fit_page import fit_html  # the command often needs small parts only
    from kvariates.report.model_report import run_of

    html = fit_html(*run_of(model, X))
    write_aside(Path(path), html.encode("utf-8", "backslashreplace"), READABLE)
