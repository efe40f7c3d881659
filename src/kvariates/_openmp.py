"""Load the native core with a patient thread pool.

GNU's OpenMP lets a waiting thread spin for about 15 ms before it sleeps. Where another program
wants the core, that is time in which the thread waited for cannot run: a fit on a busy machine
becomes several times slower. How long to spin is read from the environment once, when the library
is loaded, so it is set for that moment only; a user's own setting is left alone.
"""

from __future__ import annotations

import os

SPINS = "1000"  # about 50 microseconds
OWN = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def load() -> None:
    mine = not any(name in os.environ for name in OWN)
    if mine:
        os.environ["GOMP_SPINCOUNT"] = SPINS
    try:
        from kvariates import _native  # noqa: F401
    finally:
        if mine:
            del os.environ["GOMP_SPINCOUNT"]
