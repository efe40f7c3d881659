"""The work of `kvariates fit --dask`: clusters Parquet files on the workers of a Dask cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.fit_request import FitRequest
from kvariates.cli.reading import beside_names
from kvariates.cli.saved_model import save_model
from kvariates.cli.screen import fit_with_bar, phase
from kvariates.data.rows import nearest_centers
from kvariates.estimators.fit_record import fit_record_of
from kvariates.extras import needed
from kvariates.peers.coordinator import PeerLost
from kvariates.report.fit_page import write_fit
from kvariates.report.run import ClusterTotals, FitRun, FittedTable, ShownRows, cluster_masses
from kvariates.seeding.seedings import PEER_SEEDINGS
from kvariates.sources.parquet_writer import write_labelled_frames

SHOWN = 2_000  # synopses in the picture
SECONDS = 10  # to connect
LABELS = "label of kvariates"  # the name of a column


def fit_on_cluster(address: str, request: FitRequest, folder: Path, progress: Progress) -> FitRun:
    """Fit on the workers; labels, sizes and weights come back partition by partition."""
    choices = _dask_choices(request)
    with _connected(address) as client:
        from dask import dataframe

        from kvariates.dask import KMeans, StreamingSummary

        frame = dataframe.read_parquet(str(request.data))
        X, left_out = _columns(frame, request)
        beside = beside_names(request.reading, [str(name) for name in frame.columns])
        weights = request.reading.weights
        w = None if weights is None else frame[weights]
        with phase(progress, f"clustering {request.data.name} on {address}") as bar:
            model = KMeans(**choices, client=client)
            seconds = fit_with_bar(model, bar, request.notes, X, sample_weight=w)
        totals = ClusterTotals(len(model.cluster_centers_))
        with phase(progress, "writing labels"):
            parts = _labels(client, model.labels_, w, frame[beside], totals)
            write_labelled_frames(folder / "labels.parquet", parts)
        with phase(progress, "drawing"):
            summary = StreamingSummary(SHOWN, 1, random_state=0, client=client)
            points = summary.fit(X, sample_weight=w).synopses_
            shares = summary.synopsis_weights_
    centers = model.cluster_centers_
    names = tuple(str(name) for name in X.columns)
    rows = int(totals.sizes.sum())
    table = FittedTable(request.data, names, left_out, rows, w is not None, False, True)
    if left_out:
        request.notes.add(f"left out, not numeric: {', '.join(left_out)}")
    run = FitRun(
        table, choices | {"dask": address}, centers, totals.sizes, totals.masses, model.inertia_,
        model.n_iter_, seconds, fit_record_of(model), request.command, notes=request.notes.lines,
    )  # fmt: skip
    nearest = nearest_centers(points, centers)
    write_fit(run, ShownRows(points, nearest, centers, shares), folder)
    save_model(_in_memory(model, choices), names, None, folder / "model.skops")
    return run


def _in_memory(model: Any, choices: dict[str, Any]) -> Any:
    """A model that predicts without a cluster."""
    from kvariates.estimators.kmeans import KMeans

    centers = np.ascontiguousarray(model.cluster_centers_)
    made = KMeans(choices["n_clusters"], init=centers, n_init=1, max_iter=1)
    return made.fit(centers)


def _dask_choices(request: FitRequest) -> dict[str, Any]:
    """The parameters of kvariates.dask.KMeans; ValueError for what it cannot do."""
    choices, reading, why = request.choices, request.reading, "does not work with --dask"
    unknown = ("metric", "algorithm", "n_init", "size_min", "size_max", "certify")
    request.without_usual().refuse(f"{why}; leave it out", *unknown)
    if request.k is None:
        raise ValueError(f"-k auto {why}; give a number")
    if request.scaling != "none":
        raise ValueError(f"--scale {request.scaling} {why}; scale the columns before")
    if reading.missing != "error":
        raise ValueError(f"--missing {reading.missing} {why}; leave such rows out before")
    if choices.get("init") is not None and choices["init"] not in PEER_SEEDINGS:
        raise ValueError(f"--init {choices['init']} {why}; use one of {PEER_SEEDINGS.names}")
    if not request.data.is_dir() and request.data.suffix != ".parquet":
        raise ValueError(f"{request.data} is not Parquet; --dask reads a .parquet file or a folder")
    kept = {name: choices[name] for name in ("init", "random_state") if name in choices}
    return {"n_clusters": request.k} | kept


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """A client of the cluster; errors of the cluster become ValueErrors of one line."""
    distributed = needed("distributed", "dask", "fit --dask")
    if not re.fullmatch(r"([\w+]+://)?.+:\d+", address):
        raise ValueError(
            f"--dask {address}: give the address of a scheduler, as tcp://10.0.0.1:8786"
        )
    with distributed.Client(address, timeout=SECONDS, set_as_default=False) as client:
        try:
            yield client
        except PeerLost as error:
            raise ValueError(str(error)) from error


def _columns(frame: Any, request: FitRequest) -> tuple[Any, tuple[str, ...]]:
    """The columns to cluster, and those that are not numeric."""
    from kvariates.estimators.partitions import is_numeric

    wanted, weights = request.reading.columns, request.reading.weights
    if missing := {*(wanted or ()), weights} - {*frame.columns, None}:
        raise ValueError(f"{request.data}: has no column {', '.join(sorted(map(str, missing)))}")
    numeric = [name for name in frame.columns if is_numeric(frame.dtypes[name])]
    if weights is not None and weights in (wanted or ()):
        raise ValueError(
            f"{request.data}: column {weights!r} holds the weights; do not cluster it as well"
        )
    if wanted is not None:
        return frame[wanted], ()
    kept = [name for name in numeric if name not in (weights, request.reading.identifier)]
    left_out = tuple(str(name) for name in frame.columns if name not in numeric)
    return frame[kept], left_out


def _labels(
    client: Any, labels: Any, weights: Any, beside: Any, totals: ClusterTotals
) -> Iterator[Any]:
    """The labels of each partition, which is added to the totals, and its other columns."""
    from dask import delayed

    from kvariates.dask.partitions import blocks_of

    # In one graph: Dask may cut columns of the same file differently.
    meta = beside._meta.assign(**{LABELS: 0})
    table = beside.map_partitions(
        _with_labels, labels, meta=meta, align_dataframes=False, enforce_metadata=False
    )
    blocks = blocks_of(table, weights)
    heavy = blocks.weights or [None] * len(blocks.rows)
    found = delayed(_labelled, pure=False)
    pairs = zip(blocks.rows, heavy, strict=True)
    futures = client.compute([found(part, w, totals.k) for part, w in pairs])
    while futures:
        part, masses, more = futures.pop(0).result()
        totals.add(part, masses)
        yield part, more


def _with_labels(table: Any, labels: Any) -> Any:
    return table.assign(**{LABELS: labels.to_numpy()})


def _labelled(table: Any, weights: Any, k: int) -> tuple[Any, Any, Any]:
    """The labels of a partition, the weights of its clusters, other columns. On a worker."""
    labels = table[LABELS].to_numpy()
    return labels, cluster_masses(labels, weights, k), table.drop(columns=LABELS)
