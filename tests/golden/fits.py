"""Golden digests: what many fits gave, bit by bit, so that a change of code can be compared.

Run these with tests/ on the path:

    python -m golden.fits --check                 compare with digests.json
    python -m golden.fits --check --everywhere    the same on 1, 2 and 7 threads, with each
                                                  instruction set (some minutes)
    python -m golden.fits --write                 record the digests anew

`--only TEXT` takes the cases whose name has TEXT in it; `--public` leaves out the private methods.

A digest is the start of the sha256 of all results of a case: values, types and shapes. Texts of
guarantees are not in it. A case that the library refuses has the message instead of a digest. The
noise of private fits may be repeated in a test only, so the commands run them under pytest. All
other cases need only numpy, scipy and scikit-learn.

Digests may depend on the versions of numpy and scipy and on the processor: `made_with` in
digests.json says which they were.
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy
import sklearn
from golden import kmeans, medians, private, seedings, streams
from threadpoolctl import threadpool_info

from kvariates import _native

HERE = Path(__file__).resolve().parent
RECORD = HERE / "digests.json"
THREADS = ("1", "2", "7")
CASES = {}
for _part in (kmeans, seedings, medians, private, streams):
    for _name, _run in _part.cases():
        assert _name not in CASES, f"two cases are called {_name!r}"
        CASES[_name] = _run


def kind_of(name):
    return name.split("/")[0]


KINDS = tuple(dict.fromkeys(kind_of(name) for name in CASES))
# Large cases that use the native threads, and are fast enough to be run several times.
ON_ONE_THREAD = ("kl", "itakura", "callable", "graph", "two components", "hst_tree 4500x131")
SLOW = ("12001x2 sampled",)
THREADED = tuple(
    name
    for name in CASES
    if "large" in kind_of(name) and not any(words in name for words in ON_ONE_THREAD + SLOW)
)


def update(h, value):
    """Add a value to a hash: with its type and shape, so that nothing is mistaken for another."""
    if isinstance(value, list | tuple) and not all(isinstance(v, str) for v in value):
        h.update(f"{len(value)}(".encode())
        for part in value:
            update(h, part)
    elif isinstance(value, str | list | tuple):
        h.update(repr(value).encode())
    else:
        array = np.asarray(value)
        h.update(f"{type(value).__name__}{array.dtype.str}{array.shape}".encode())
        h.update(np.ascontiguousarray(array).tobytes())


def digest_of(value):
    h = hashlib.sha256()
    update(h, value)
    return h.hexdigest()[:16]


def digest(name):
    """The digest of a case, or the message if the library refuses it. Private: also the ledger's.

    Warnings are not looked at: other tests do.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = CASES[name]()
        except ValueError as error:
            return f"ValueError: {error}"
    if kind_of(name).startswith("private"):
        return " ".join(digest_of(part) for part in found)
    return digest_of(found)


def made_with():
    """What digests may depend on besides the code."""
    blas = {pool["architecture"] for pool in threadpool_info() if pool.get("architecture")}
    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "instruction_sets": list(_native.instruction_sets()),
        "blas": sorted(blas),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def recorded():
    return json.loads(RECORD.read_text(encoding="utf-8"))


def differences(found, before):
    """One line for every case of `found` that is not as it was recorded."""
    return [
        f"{name}: {before.get(name, 'not recorded')} -> {now}"
        for name, now in found.items()
        if before.get(name) != now
    ]


def elsewhere(names, **environment):
    """What `one_run` tells about the named cases, in a fresh process."""
    command = ["-m", "golden.one_run"]
    if any(kind_of(name).startswith("private") for name in names):
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        command += [str(HERE / "one_run.py")]
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        job, out = Path(folder, "job.json"), Path(folder, "out.json")
        job.write_text(json.dumps(list(names)), encoding="utf-8")
        more = {"GOLDEN_JOB": str(job), "GOLDEN_OUT": str(out), "PYTHONPATH": path, **environment}
        done = subprocess.run(
            [sys.executable, *command],
            check=False, capture_output=True, text=True, cwd=HERE.parents[1],
            env={**os.environ, **more},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return json.loads(out.read_text(encoding="utf-8"))


def check(names, **environment):
    """Compare, print what differs, and return how many cases do."""
    begin = time.perf_counter()
    found = elsewhere(names, **environment)["digests"]
    wrong = differences(found, recorded()["digests"])
    words = " ".join(f"{key}={value}" for key, value in environment.items())
    took = time.perf_counter() - begin
    print(f"{len(found)} cases, {len(wrong)} differ, {took:.0f} s {words}", flush=True)
    print("".join(f"  {line}\n" for line in wrong), end="", flush=True)
    return len(wrong)


def main():
    parser = argparse.ArgumentParser(prog="golden.fits")
    for option in ("--write", "--check", "--everywhere", "--public"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    names = [name for name in CASES if asked.only in name]
    if asked.public:
        names = [name for name in names if not kind_of(name).startswith("private")]
    if asked.write:
        kept = recorded()["digests"] if asked.only or asked.public else {}
        digests = kept | elsewhere(names)["digests"]
        kept = {name: digests[name] for name in CASES if name in digests}
        text = json.dumps({"made_with": made_with(), "digests": kept}, indent=1, ensure_ascii=False)
        RECORD.write_text(text + "\n", encoding="utf-8")
        print(f"{len(kept)} digests written")
    elif asked.everywhere:
        runs = [
            check(names, OMP_NUM_THREADS=threads, KVARIATES_ISA=level)
            for threads in THREADS
            for level in _native.instruction_sets()
        ]
        sys.exit(any(runs))
    else:
        sys.exit(check(names) > 0)


if __name__ == "__main__":
    main()
