"""One process of `golden.fits`: computes the digests that GOLDEN_JOB names, into GOLDEN_OUT."""

import json
import os
import time
from pathlib import Path

from golden import fits


def test_digests():
    names = json.loads(Path(os.environ["GOLDEN_JOB"]).read_text(encoding="utf-8"))
    digests, seconds = {}, {}
    for name in names:
        begin = time.perf_counter()
        digests[name] = fits.digest(name)
        seconds[name] = round(time.perf_counter() - begin, 3)
    out = {"digests": digests, "seconds": seconds}
    Path(os.environ["GOLDEN_OUT"]).write_text(json.dumps(out), encoding="utf-8")
