"""A fit in a process made by fork() ends, after a fit on several threads in its parent."""

import os

import pytest
from hostile.child import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork()")

FORK = """
import os
_native.set_work_per_thread(1)
X = np.random.default_rng(0).normal(size=(20_000, 8))
fit = lambda: KMeans(9, random_state=0).fit(X)
before = fit()
assert _native.tasks_of_other_threads() > 0, "the parent used one thread only"
child = os.fork()
if child == 0:
    parent = _native.tasks_of_other_threads()
    same = np.array_equal(fit().cluster_centers_, before.cluster_centers_)
    os._exit(0 if same and _native.tasks_of_other_threads() == parent else 1)
print(os.waitpid(child, 0)[1], np.array_equal(fit().labels_, before.labels_))
"""


def test_a_fit_after_a_fork_gives_the_same_centres_on_one_thread():
    assert run(FORK, OMP_NUM_THREADS="2") == ["0 True"]


POOL = """
import multiprocessing
_native.set_work_per_thread(1)
X = np.random.default_rng(0).normal(size=(5000, 4))
D = np.abs(X[:300, :1] - X[:300, 0])
jobs = [KMeans(5, random_state=0), KMedian(3, metric="precomputed", random_state=0)]
fit = lambda model: model.fit(D).inertia_
def job(i):
    return fit(jobs[i])
before = [fit(model) for model in jobs]
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(job, range(2)) == before)
"""


def test_a_pool_of_forked_workers_can_fit():
    assert run(POOL, OMP_NUM_THREADS="2") == ["True"]
