"""Copies of a process draw noise of their own, or refuse to draw."""

import json
import mmap
import os
import shutil
import subprocess
import sys
import threading
from unittest.mock import patch

import pytest
from api import GUARD, ForkGuard, calibrated
from api import noise_source_module as noise_source

# Prints the noise of a child and of this process, drawn from the same state. With "namespace" the
# child has the process id of this process, 1, in a PID namespace of its own.
SCRIPT = """
import ctypes, json, os, sys
from kvariates.privacy.noise_source import ForkGuard, calibrated

if "unguarded" in sys.argv:
    ForkGuard.check = lambda guard: None
noise = calibrated("laplace", 1, 1e-6, 1e6)
draw = lambda: noise([0] * 4)
draw()
if "namespace" in sys.argv and ctypes.CDLL(None).unshare(0x20000000) != 0:  # CLONE_NEWPID
    sys.exit(77)

def child():
    end, start = os.pipe()
    if os.fork() == 0:
        try:
            seen = draw()
        except RuntimeError as error:
            seen = str(error)
        os.write(start, json.dumps([os.getpid(), seen]).encode())
        os._exit(0)
    os.close(start)
    with os.fdopen(end, "rb") as pipe:
        return json.loads(pipe.read())

children = [child() for _ in range(1 if "namespace" in sys.argv else 2)]
print(json.dumps([*children, [os.getpid(), draw()]]))
"""


def run(*words):
    """The (process id, noise) of the children and of their parent."""
    command = [sys.executable, "-c", SCRIPT, *words]
    if "namespace" in words:
        if shutil.which("unshare") is None:
            pytest.skip("there is no unshare command")
        command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", *command]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    if "namespace" in words and (done.returncode == 77 or done.stderr.startswith("unshare")):
        pytest.skip("this system does not allow PID namespaces")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@needs_fork
def test_children_and_their_parent_draw_different_noise():
    seen = run()
    assert len({pid for pid, _ in seen}) == 3
    assert len({tuple(noise) for _, noise in seen}) == 3


@needs_fork
def test_a_copy_with_the_same_process_id_refuses_to_draw():
    (pid, refused), (own, noise) = run("namespace")
    assert pid == own == 1
    assert isinstance(noise, list)
    assert "same process id" in refused


@needs_fork
def test_without_the_guard_such_a_copy_repeats_the_noise():
    """If this fails, the generator has become better, and the guard may go."""
    (_, repeated), (_, noise) = run("namespace", "unguarded")
    assert repeated == noise


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux clears pages")
def test_the_mark_is_a_page_that_the_kernel_clears():
    assert isinstance(GUARD._page, mmap.mmap)


def test_a_cleared_mark_with_a_known_process_id_is_refused():
    guard = ForkGuard()
    guard.check()
    guard.check()
    with patch.object(os, "getpid", lambda: -5):
        guard._page[0] = 0  # a usual child
        guard.check()
        guard.check()
    guard._page[0] = 0  # a grandchild with the id of its grandparent
    for _ in range(2):
        with pytest.raises(RuntimeError, match="same process id"):
            guard.check()


def test_every_draw_is_guarded():
    with patch.object(GUARD, "check", side_effect=RuntimeError("guarded")):
        for law in ("laplace", "gaussian", "permute-and-flip", "exponential"):
            noise = calibrated(law, 1, 1.0, 1.0)
            for size in (1, 3000):
                with pytest.raises(RuntimeError, match="guarded"):
                    noise([0] * size)


def test_threads_may_draw_first_at_the_same_time():
    guard, failed = ForkGuard(), []
    together = threading.Barrier(8)

    def check():
        together.wait()
        try:
            guard.check()
        except RuntimeError as error:
            failed.append(error)

    threads = [threading.Thread(target=check) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_where_no_page_can_be_cleared_a_fork_in_python_is_noticed():
    with patch.object(noise_source, "WIPE_ON_FORK", 9999):
        guard = ForkGuard()
    assert isinstance(guard._page, bytearray)
    guard.check()
    guard._in_child()
    assert not guard._page[0]
