"""Workers that die in the middle of a question: the run completes with the same centres.

A client that dies: the workers forget its fit.
"""

import signal
import subprocess
import sys

import dask
import numpy as np
import pytest
from dask import array as da

from kvariates.dask import DaskTransport, KMeans

# Run on one worker: it dies while it answers its `call`-th question of this name.
DIES = """
import os
from dataclasses import replace
from kvariates.peers.questions import QUESTIONS
entry, calls = QUESTIONS[{name!r}], []

def run(*args, **kwargs):
    calls.append(0)
    if len(calls) == {call}:
        os.kill(os.getpid(), 9)
    return entry.run(*args, **kwargs)

QUESTIONS[{name!r}] = replace(entry, run=run)
"""


# A client that says when its third question of Lloyd is on its way.
CLIENT = """
import sys
from dask import array as da
from distributed import Client
from kvariates.dask import DaskTransport, KMeans
send, asked = DaskTransport.send, []

def spy(self, envelopes):
    asked.extend(e.question.name for e in list(envelopes.values())[:1])
    if asked.count("assign") == 3:
        print("asks", flush=True)
    return send(self, envelopes)

DaskTransport.send = spy
X = da.random.default_rng(0).normal(size=(3000, 4), chunks=(500, 4))
KMeans(8, random_state=0, tol=0.0, client=Client(sys.argv[1])).fit(X)
"""
# Run on all workers: an assignment takes a quarter of a second.
SLOW = """
import time
from dataclasses import replace
from kvariates.peers.questions import QUESTIONS
entry = QUESTIONS["assign"]
run = lambda *args, **kwargs: (time.sleep(0.25), entry.run(*args, **kwargs))[1]
QUESTIONS["assign"] = replace(entry, run=run)
"""


def plant(client, name, call):
    worker = next(iter(client.nthreads()))
    client.run(exec, DIES.format(name=name, call=call), {}, workers=[worker])
    return worker


def test_rows_that_cannot_be_computed_again(killable, rows):
    """Scattered data has no graph."""
    worker = plant(killable, "assign", 2)
    scattered = killable.scatter(rows, workers=[worker])
    X = da.from_delayed(scattered, rows.shape, rows.dtype)
    with pytest.raises(RuntimeError, match="peer partition 0: its rows are lost"):
        KMeans(3, random_state=0, client=killable).fit(X)


def test_a_worker_that_leaves_in_order(threads, rows):
    """Its data is moved to the other worker, without the states of the peers."""
    X, left, client = da.from_array(rows, chunks=(500, 4)), [], threads(2)
    expected = KMeans(8, random_state=0, client=client).fit(X)

    class Leaving(DaskTransport):
        def send(self, envelopes):
            if not left and any(e.question.name == "assign" for e in envelopes.values()):
                left.append(self._workers["partition 0"])
                self._client.retire_workers(left)
            return super().send(envelopes)

    quick = dask.config.set({"distributed.comm.timeouts.connect": "1s"})  # for the worker that left
    with quick, pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvariates.dask.kmeans.DaskTransport", Leaving)
        model = KMeans(8, random_state=0, client=client).fit(X)
    assert left
    assert len(client.nthreads()) == 1
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)


@pytest.mark.slow
def test_a_client_is_killed(killable, seconds_until_freed):
    """The workers forget the rows and the states, once they have answered the last question."""
    killable.run(exec, SLOW, {})
    command = [sys.executable, "-c", CLIENT, killable.scheduler.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "asks\n"
        process.send_signal(signal.SIGKILL)
    assert seconds_until_freed(killable) < 5
