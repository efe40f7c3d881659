"""Rows in memory, metric spaces, and all calls of the native code, which is loaded here.

It is loaded so that waiting threads soon give up the processor. A waiting thread of GNU's OpenMP
spins for about 15 ms before it sleeps. On a busy machine this keeps the thread that it waits for
from running, and a fit becomes several times slower. The library reads the spin count from the
environment once, when it is loaded. So the variable is set during loading only, and a setting of
the user is kept.

A process made by ``os.fork()`` computes on one thread: OpenMP's threads do not exist there, and it
would wait for them forever. The native module notices the fork by itself.
"""

from __future__ import annotations

import os

SPINS = "1000"  # about 50 microseconds
OURS = not any(name in os.environ for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"))

if OURS:
    os.environ["GOMP_SPINCOUNT"] = SPINS
try:
    from kvariates import _native  # noqa: F401
finally:
    if OURS:
        del os.environ["GOMP_SPINCOUNT"]
