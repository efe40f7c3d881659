"""A short test of an installed kvariates without extras: fits, threads, and what is missing."""

import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

import kvariates
from kvariates import KMeans, KMedian, PrivateKMeans, StreamingKMeans, _native
from kvariates.cuda.card import card_of, source_of

OPTIONAL = ("typer", "pyarrow", "matplotlib", "opendp", "cryptography", "skops", "pandas")
COMMAND = Path(sysconfig.get_path("scripts"), "kvariates")


def says(call, line):
    try:
        call()
    except ImportError as error:
        assert line in str(error), error
    else:
        raise AssertionError(f"no error with {line!r}")


def check_fits():
    """Several threads are used, and they do not change the result."""
    X = np.random.default_rng(0).normal(size=(50_000, 8))
    model = KMeans(n_clusters=10, random_state=0).fit(X)
    with threadpool_limits(1):
        alone = KMeans(n_clusters=10, random_state=0).fit(X)
    assert (model.cluster_centers_ == alone.cluster_centers_).all()
    assert (model.predict(X) == model.labels_).all()
    KMedian(n_clusters=3, random_state=0).fit(X[:500])
    StreamingKMeans(n_clusters=3, random_state=0).fit(X)


def check_native():
    """The module has its own OpenMP, and kernels for this processor's instructions."""
    folders = [
        Path(_native.__file__).parent,
        Path(kvariates.__file__).parents[1] / "kvariates.libs",
    ]
    libraries = [Path(lib["filepath"]).parent for lib in threadpool_info()]
    assert set(libraries) & set(folders), f"no OpenMP of kvariates among {libraries}"
    assert len(_native.instruction_sets()) > 1 or not sys.platform.startswith("linux")
    stable = sys.version_info >= (3, 12)
    assert ("abi3" in _native.__file__) == stable, _native.__file__


def check_missing_packages():
    """What needs an extra says so in one line."""
    assert [name for name in OPTIONAL if find_spec(name)] == []
    private = PrivateKMeans(2, epsilon=1.0, bounds=(0.0, 1.0))
    says(lambda: private.fit(np.random.default_rng(0).random((1000, 2))), "kvariates[private]")
    stream = StreamingKMeans(2).partial_fit([[0.0], [1.0]])
    says(lambda: stream.save("stream.skops"), "kvariates[save]")
    says(card_of, "kvariates[cuda]")
    assert "distance" in source_of("reference.cuh")  # kernels are in the wheel, as text
    done = subprocess.run([COMMAND, "--help"], check=False, capture_output=True, text=True)
    line = "kvariates: The command kvariates needs typer, which is not installed: "
    assert done.stderr.startswith(f"{line}pip install 'kvariates[cli]'"), done
    assert done.stderr.count("\n") == 1, done
    assert (done.returncode, done.stdout) == (2, ""), done


if __name__ == "__main__":
    check_fits()
    check_native()
    check_missing_packages()
