"""Runs a text of Python in a process of its own, for tests that would harm the one of the tests."""

import os
import subprocess
import sys
import textwrap

from gpu.libraries import HERE


def output_of(code, **environment):
    """What it prints to both streams, in lines; AssertionError if it fails."""
    # -P: the tests' own modules are not importable by accident.
    command = [sys.executable, "-P", "-W", "ignore", "-c", textwrap.dedent(code)]
    paths = [path for path in sys.path if path and not path.startswith(str(HERE.parent))]
    known = os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | environment
    ended = subprocess.run(
        command, env=known, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=180, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    return ended.stdout.splitlines()
