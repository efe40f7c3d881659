"""Ctrl-C stops a long call soon, whatever is chosen, and the process stays usable."""

import os
import signal
import subprocess
import sys
import time

import pytest
from contracts.choices import CHOICES

CHILD = """
import signal, numpy as np
from kvariates import KMeans, kmeans_plusplus
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits SIG_IGN
X = np.random.default_rng(0).random((100_000, 12), dtype=np.float32) + np.float32(0.1)

def fit(choice):
    k = 3000 if "init" in choice else 300
    KMeans(k, **{"init": X[:k], "tol": 0, "max_iter": 10**6, "n_init": 1, **choice}).fit(X)

def seed(trials):
    kmeans_plusplus(X, 20_000, n_local_trials=trials, random_state=0)

calls = [lambda choice=choice: fit(choice) for choice in CHOICES]
calls += [lambda trials=trials: seed(trials) for trials in (1, None)]
KMeans(2, random_state=0).fit(X[:100])
for call in calls:
    try:
        print("ready", flush=True)
        while True:
            call()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
print("usable", KMeans(2, random_state=0).fit([[0.0], [1.0], [9.0]]).inertia_, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_interrupts():
    command = [sys.executable, "-c", CHILD.replace("CHOICES", repr(CHOICES))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as child:
        try:
            for what in [*CHOICES, "plain seeding", "greedy seeding"]:
                assert child.stdout.readline().strip() == "ready", child.stderr.read()
                time.sleep(0.25)
                child.send_signal(signal.SIGINT)
                begin = time.perf_counter()
                assert child.stdout.readline().strip() == "interrupted", child.stderr.read()
                # About 0.2 s on a free machine; the rest is for a busy one.
                assert time.perf_counter() - begin < 1.5, what
            assert child.stdout.readline().strip() == "usable 0.5", child.stderr.read()
        finally:
            child.kill()
