"""Fits in many Python threads, and fits that fail, leave other results as they were."""

from hostile.child import run

# A thread of every algorithm and seeding; some of them fail all the time.
MIXED = """
import threading
_native.set_work_per_thread(1)
rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 5))
n = np.arange(300)
ring = sparse.csr_array((1 + rng.random(300), (n, (n + 1) % 300)), (300, 300))
ring = sparse.csr_array(ring + ring.T)

def raising(data, k, random_state=None):
    raise KeyError("mine")

def kmeans(**options):
    return lambda: KMeans(8, random_state=0, max_iter=20, **options).fit(X).inertia_

JOBS = [kmeans(algorithm=name) for name in ("lloyd", "elkan", "yinyang", "hartigan", "minibatch")]
JOBS += [kmeans(init=name) for name in ("k-means||", "hst")]
JOBS += [lambda: KMedian(4, metric="graph", random_state=0).fit(ring).inertia_]
JOBS += [lambda: outcome(kmeans(init=raising)), lambda: outcome(lambda: KMeans(9).fit(X[:3]))]
expected = [job() for job in JOBS]
wrong = []

def repeat(i):
    wrong.extend(i for _ in range(ROUNDS) if JOBS[i]() != expected[i])

threads = [threading.Thread(target=repeat, args=(i,)) for i in range(len(JOBS))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(wrong, _native.tasks_of_other_threads() > 0)
"""


def test_fits_in_many_threads_do_not_disturb_each_other():
    assert run(MIXED.replace("ROUNDS", "3"), 120, OMP_NUM_THREADS="2") == ["[] True"]


REFIT = """
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
n = np.arange(60)
ring = sparse.csr_array((1 + rng.random(60), (n, (n + 1) % 60)), (60, 60))
ring = sparse.csr_array(ring + ring.T)

class Stops(Exception):
    pass

def stops(data, k, random_state=None):
    raise Stops

MODELS = {
    "KMeans": (KMeans(3, random_state=0), X),
    "cosine": (KMeans(3, metric="cosine", random_state=0), X),
    "mahalanobis": (KMeans(3, distortion="mahalanobis", random_state=0), X),
    "KMedian": (KMedian(3, random_state=0), X),
}
for name, (model, data) in MODELS.items():
    model.fit(data)
    before, labels = dict(vars(model)), model.predict(data)
    if isinstance(model, KMeans):
        model.set_params(init=stops)
    bad = 5 * data + 1 if isinstance(model, KMeans) else data * np.nan
    assert outcome(lambda: model.fit(bad)) != "done"
    model.set_params(init=before["init"])
    report(name, np.array_equal(model.predict(data), labels))
"""


def test_a_refit_that_fails_leaves_the_model_as_it_was():
    lines = run(REFIT)
    assert len(lines) == 4
    assert all(line.endswith(" -> True") for line in lines)
