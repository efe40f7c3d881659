"""One process of `golden.fits`: computes the digests that GOLDEN_JOB names, into GOLDEN_OUT."""

import json
import os
from pathlib import Path

from golden import fits

from kvariates import _native

# On a busy machine the first thread can be done before the second one wakes up.
TRIES = 1 if os.environ.get("OMP_NUM_THREADS") == "1" else 3


def test_digests():
    names = json.loads(Path(os.environ["GOLDEN_JOB"]).read_text(encoding="utf-8"))
    digests, others = {}, {}
    for name in names:
        for _ in range(TRIES if name in fits.THREADED else 1):
            before = _native.tasks_of_other_threads()
            digests[name] = fits.digest(name)
            others[name] = _native.tasks_of_other_threads() - before
            if others[name]:
                break
    level = _native.instruction_set()
    out = {"digests": digests, "tasks of other threads": others, "instruction set": level}
    Path(os.environ["GOLDEN_OUT"]).write_text(json.dumps(out), encoding="utf-8")


if __name__ == "__main__":
    test_digests()
