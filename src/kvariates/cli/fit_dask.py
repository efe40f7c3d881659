"""The work of `kvariates fit --dask`: clusters Parquet files on the workers of a Dask cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.fit_command import FitRequest, Fitted
from kvariates.cli.fit_means import check_metric
from kvariates.cli.reading import ReadRequest, beside_names
from kvariates.cli.screen import fit_with_bar, phase
from kvariates.data.rows import nearest_centers
from kvariates.estimators.kmeans import KMeans as HostKMeans
from kvariates.estimators.partitions import is_numeric
from kvariates.extras import needed
from kvariates.peers.coordinator import PeerLost
from kvariates.report.run import ClusterTotals, ShownRows, cluster_masses
from kvariates.seeding.seedings import PEER_SEEDINGS
from kvariates.sources.columns import listed
from kvariates.sources.parquet_writer import write_labelled_frames

SHOWN = 2_000  # synopses in the picture
SECONDS = 10  # to connect
LABELS = "label of kvariates"  # the name of a column


def fit_on_cluster(address: str, request: FitRequest, folder: Path, progress: Progress) -> Fitted:
    """Fit on the workers; labels, sizes and weights come back partition by partition."""
    choices = _dask_choices(request)
    with _connected(address) as client:
        from dask import dataframe

        from kvariates.dask import KMeans, StreamingSummary

        frame = dataframe.read_parquet(str(request.data))
        X, left_out = _columns(frame, request.reading)
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
            summary = StreamingSummary(
                SHOWN, 1, metric=request.metric, random_state=0, client=client
            )
            points = summary.fit(X, sample_weight=w).synopses_
    centers = model.cluster_centers_
    names = tuple(str(name) for name in X.columns)
    if left_out:
        request.notes.add(f"left out, not numeric: {', '.join(left_out)}")
    run = request.run(
        model, table=request.table(names, left_out, int(totals.sizes.sum()), streamed=True),
        parameters=choices | {"dask": address}, centers=centers, sizes=totals.sizes,
        masses=totals.masses, seconds=seconds,
    )  # fmt: skip
    shares = summary.synopsis_weights_
    shown = ShownRows(points, nearest_centers(points, centers), centers, shares)
    # A model that predicts without a cluster.
    alone = HostKMeans(request.k or 1, init=centers, metric=request.metric, n_init=1, max_iter=1)
    alone.fit(np.ascontiguousarray(centers)).cluster_centers_ = centers  # to the last bit
    return Fitted(run, shown, alone)


def _dask_choices(request: FitRequest) -> dict[str, Any]:
    """The parameters of kvariates.dask.KMeans; ValueError for what it cannot do."""
    why, init = "does not work with --dask", request.choices.get("init")
    check_metric(request)
    never = ("algorithm", "n_init", "size_min", "size_max", "certify")
    request.refuse(f"{why}; leave it out", *never, but=("auto",))
    request.refuse(
        why, k="; give a number", scale="; scale the columns before",
        missing="; leave such rows out before",
    )  # fmt: skip
    if init is not None and init not in PEER_SEEDINGS:
        raise ValueError(f"--init {init} {why}; use one of {PEER_SEEDINGS.names}")
    if not request.data.is_dir() and request.data.suffix != ".parquet":
        raise ValueError(f"{request.data} is not Parquet; --dask reads a .parquet file or a folder")
    choices = {name: value for name, value in request.choices.items() if name != "algorithm"}
    return {"n_clusters": request.k, **choices}


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


def _columns(frame: Any, reading: ReadRequest) -> tuple[Any, tuple[str, ...]]:
    """The columns to cluster, and those that are not numeric."""
    wanted, weights = reading.columns, reading.weights
    if missing := {*(wanted or ()), weights} - {*frame.columns, None}:
        raise ValueError(f"{reading.data}: has no column {', '.join(sorted(map(str, missing)))}")
    numeric = [name for name in frame.columns if is_numeric(frame.dtypes[name])]
    if weights is not None and weights in (wanted or ()):
        raise ValueError(
            f"{reading.data}: column {weights!r} holds the weights; do not cluster it as well"
        )
    kept = [name for name in numeric if name not in (weights, reading.identifier)]
    if wanted is None and not kept:
        found = listed([str(name) for name in frame.columns])
        raise ValueError(
            f"{reading.data}: no numeric column (found {found}); vectors are read without --dask, "
            "for example with --stream"
        )
    if wanted is not None:
        return frame[wanted], ()
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
