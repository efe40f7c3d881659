"""One process of `golden.fits`: computes the digests that GOLDEN_JOB names, into GOLDEN_OUT."""

import json
import os
from pathlib import Path

from golden import fits
from laws.threads import work_of_other_threads

from kvariates import _native


def test_digests():
    names = json.loads(Path(os.environ["GOLDEN_JOB"]).read_text(encoding="utf-8"))
    digests, others = {}, {}
    for name in names:
        before = work_of_other_threads()
        digests[name] = fits.digest(name)
        others[name] = work_of_other_threads() - before
    level = _native.instruction_set()
    out = {"digests": digests, "seconds of other threads": others, "instruction set": level}
    Path(os.environ["GOLDEN_OUT"]).write_text(json.dumps(out), encoding="utf-8")
