"""Clusters of two worker processes for all tests of this folder, and rows in three clusters."""

import tempfile
import time

import numpy as np
import pytest
from distributed import Client, LocalCluster


def local_cluster(**options):
    wanted = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    return LocalCluster(**wanted | options)


@pytest.fixture(scope="session")
def client():
    with local_cluster() as cluster, Client(cluster, set_as_default=False) as connected:
        yield connected


@pytest.fixture(scope="module")
def ray_cluster():
    """Ray on this machine, for the tests of one file: Flower starts Ray with other settings."""
    import warnings

    import ray

    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(
                num_cpus=2, include_dashboard=False, object_store_memory=200_000_000,
                _temp_dir=folder, log_to_driver=False,
            )  # fmt: skip
        yield
        ray.shutdown()


@pytest.fixture
def threads():
    """A function that makes a client with workers that are threads of this process."""
    made = []

    def start(workers, threads_per_worker=1):
        cluster = local_cluster(
            n_workers=workers, threads_per_worker=threads_per_worker, processes=False
        )
        connected = Client(cluster, set_as_default=False)
        made.extend([connected, cluster])
        return connected

    yield start
    for thing in made:
        thing.close()


@pytest.fixture(scope="module")
def killable():
    """A client whose workers may die; a nanny starts others."""
    with (
        local_cluster(silence_logs=50) as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


@pytest.fixture
def seconds_until_freed():
    """A function that waits until no worker has rows or states of a fit, at most a minute."""

    def held():
        import gc

        kept = {"Partition", "Peer", "PeerState"}
        return sum(type(thing).__name__ in kept for thing in gc.get_objects())

    def seconds(connected):
        begin = time.monotonic()
        while any(connected.run(held).values()) and time.monotonic() - begin < 60:
            time.sleep(0.05)
        return time.monotonic() - begin

    return seconds


@pytest.fixture(scope="session")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(3000, 4)) + 6 * rng.integers(3, size=(3000, 1))


@pytest.fixture(scope="session")
def weights():
    return np.random.default_rng(1).integers(1, 5, size=3000).astype(float)


@pytest.fixture(autouse=True)
def many_peers(monkeypatch, request):
    """Few rows would be held by one peer; tests of several partitions need several peers."""
    if "few_rows" not in request.keywords:
        monkeypatch.setattr("kvariates.estimators.partitions.SMALL", 0)
