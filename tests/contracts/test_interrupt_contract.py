"""Ctrl-C stops a long call soon, wherever it is, and leaves the process in working order."""

import os
import signal
import subprocess
import sys
import time

import pytest

ENDLESS = {
    "lloyd": "KMeans(300, random_state=0, init='random', n_init=1, tol=0, max_iter=10**6,"
    " algorithm='lloyd').fit(X)",
    "elkan": "KMeans(300, random_state=0, init='random', n_init=1, tol=0, max_iter=10**6,"
    " algorithm='elkan').fit(X)",
    "hamerly": "KMeans(300, random_state=0, init='random', n_init=1, tol=0, max_iter=10**6,"
    " algorithm='hamerly').fit(X)",
    "plain seeding": "kmeans_plusplus(X, 20000, n_local_trials=1, random_state=0)",
    "greedy seeding": "kmeans_plusplus(X, 20000, random_state=0)",
}
CHILD = """
import numpy as np, time
from kvariates import KMeans, kmeans_plusplus
X = np.random.default_rng(0).random((200_000, 12), dtype=np.float32)
KMeans(2, random_state=0).fit(X[:100])
print("ready", flush=True)
try:
    while True:
        {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
print("usable", KMeans(2, random_state=0).fit([[0.0], [1.0], [9.0]]).inertia_, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("call", ENDLESS)
def test_ctrl_c_interrupts(call):
    command = [sys.executable, "-c", CHILD.format(call=ENDLESS[call])]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as child:
        try:
            assert child.stdout.readline().strip() == "ready", child.stderr.read()
            time.sleep(0.7)
            assert child.poll() is None
            child.send_signal(signal.SIGINT)
            asked = time.perf_counter()
            assert child.stdout.readline().strip() == "interrupted", child.stderr.read()
            # About 0.2 s on a free machine; the rest is for a busy one.
            assert time.perf_counter() - asked < 1.5
            # Not communicate(): it does not see a line that readline() has read ahead.
            assert child.stdout.readline().strip() == "usable 0.5", child.stderr.read()
        finally:
            child.kill()
