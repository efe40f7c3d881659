"""Runs code in a fresh process with a time limit: what is tested here could kill or hang pytest."""

import os
import subprocess
import sys
import textwrap

HELPERS = r"""
import faulthandler, sys, warnings
faulthandler.enable()
warnings.simplefilter("ignore")
import numpy as np
from scipy import sparse
import kvariates
from kvariates import KMeans, KMedian, _native

def outcome(call):
    '''What a call does: its error in one line, or "done".'''
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\n", " | ")
    return "done"

def report(name, text):
    print(f"{name} -> {text}", flush=True)
"""


def run(code, seconds=60, **environment):
    """The lines that the code prints. Fails if it crashes, or takes longer than `seconds`."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment}
    try:
        done = subprocess.run(
            [sys.executable, "-c", HELPERS + textwrap.dedent(code)],
            check=False, capture_output=True, text=True, timeout=seconds, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        printed = (late.stdout or b"").decode()
        raise AssertionError(f"no end after {seconds} seconds; printed:\n{printed}") from None
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


def outcomes(cases, setup="", seconds=60, **environment):
    """A dict from every case to what it does: `cases` are expressions by their names."""
    calls = "".join(f"report({name!r}, outcome(lambda: {case}))\n" for name, case in cases.items())
    lines = run(textwrap.dedent(setup) + calls, seconds, **environment)
    return dict(line.split(" -> ", 1) for line in lines)
