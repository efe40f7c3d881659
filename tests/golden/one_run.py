"""One process of `golden.fits`: computes the digests that GOLDEN_JOB names, into GOLDEN_OUT."""

import json
import os
import time
from pathlib import Path

from golden import fits
from laws.threads import work_of_other_threads

from kvariates import _native


def test_digests():
    names = json.loads(Path(os.environ["GOLDEN_JOB"]).read_text(encoding="utf-8"))
    digests, seconds, others = {}, {}, {}
    for name in names:
        begin, work = time.perf_counter(), work_of_other_threads()
        digests[name] = fits.digest(name)
        seconds[name] = round(time.perf_counter() - begin, 3)
        others[name] = work_of_other_threads() - work
    out = {
        "digests": digests,
        "seconds": seconds,
        "seconds of other threads": others,
        "instruction set": _native.instruction_set(),
    }
    Path(os.environ["GOLDEN_OUT"]).write_text(json.dumps(out), encoding="utf-8")
