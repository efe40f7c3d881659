"""Ctrl-C and SIGTERM while modules are imported: they wait, and are not lost."""

import os
import signal
import subprocess
import sys

import pytest
from api import app_module as interrupts

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")

# Python turns an exception in __set_name__ into a RuntimeError, and ignores one in __del__.
MODULE = """
import os, time
class Sends:
    def {method}(self, *_):
        os.kill(os.getpid(), {number})
        for _ in range(10_000):
            pass
{use}
time.sleep(0.1)
print("imported", flush=True)
"""
USES = {"__set_name__": "class A:\n    x = Sends()", "__del__": "Sends()"}
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits SIG_IGN
from kvariates.cli import app
from kvariates.cli.app import run_command, tidy_errors

@app.command()
def wait():
    with tidy_errors():
        import sends
        import time
        time.sleep(60)
        print("lost")

sys.argv[1:] = ["wait"]
run_command()
"""
ENDS = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}


@pytest.mark.parametrize("method", USES)
@pytest.mark.parametrize("number", ENDS)
def test_a_signal_during_an_import_ends_the_command_after_it(tmp_path, method, number):
    content = MODULE.format(method=method, number=int(number), use=USES[method])
    (tmp_path / "sends.py").write_text(content)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=50, check=False,
        env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    code, word = ENDS[number]
    assert (done.returncode, done.stdout) == (code, "imported\n"), done.stderr
    assert done.stderr == f"kvariates: {word}\n"


def test_an_interrupt_before_the_work_has_no_traceback():
    code = COMMAND.replace("        import sends", "        pass").replace(
        "    with tidy_errors():", "    raise KeyboardInterrupt\n    with tidy_errors():"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def test_an_import_that_hangs_is_interrupted(monkeypatch):
    monkeypatch.setattr(interrupts, "is_importing", lambda frame: True)
    monkeypatch.setattr(interrupts, "MOST", 3)
    handle = interrupts.raise_after_imports(KeyboardInterrupt)
    before = signal.getsignal(signal.SIGALRM)
    try:
        for _ in range(3):
            handle(signal.SIGINT, None)
            signal.setitimer(signal.ITIMER_REAL, 0)
        with pytest.raises(KeyboardInterrupt):
            handle(signal.SIGINT, None)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
