"""A worker with a memory limit, and files whose rows take more than it."""

import os

import numpy as np
import pandas as pd
import pytest
from clusters.conftest import local_cluster
from distributed import Client

import kvariates
from kvariates.dask import KMeans

pytestmark = pytest.mark.slow
LIMIT, N, D, FILES = 500_000_000, 10_000_000, 16, 8  # 640 MB of float32


def part(number):
    """A file's rows. Of two digits, so that Parquet packs them into small files."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(N // FILES, D)) + 3 * rng.integers(5, size=(N // FILES, 1))
    return X.round(1).astype(np.float32)


def test_rows_that_exceed_the_memory_of_the_worker(tmp_path):
    """They are read in blocks, and the nanny does not start the worker again."""
    names = [f"c{j}" for j in range(D)]
    for number in range(FILES):
        pd.DataFrame(part(number), columns=names).to_parquet(tmp_path / f"{number}.parquet")
    init = part(0)[:5]
    options = {"init": init, "max_iter": 3}
    with (
        local_cluster(n_workers=1, memory_limit=LIMIT) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        process = client.run(os.getpid)
        ours = KMeans(5, client=client, **options).fit(tmp_path)
        labels = np.concatenate([labels.compute(scheduler=client) for labels in ours.labels_])
        assert client.run(os.getpid) == process
    theirs = kvariates.KMeans(5, **options).fit(np.concatenate([*map(part, range(FILES))]))
    np.testing.assert_array_equal(ours.cluster_centers_, theirs.cluster_centers_)
    np.testing.assert_array_equal(labels, theirs.labels_)
