"""OLk-means++ is Algorithm 3: the centre of a batch follows weight * D^2 to the centres before.

The law of whole sequences of rows is enumerated. RUNS is large enough to see each of WRONG.
"""

import numpy as np
import pytest
from api import OnlineKMeans, Rows, next_center
from sampling.chi_square import ALPHA, follows
from sampling.exact import potentials, pushed, sequence_law_of, squared

RUNS = 3000
# Duplicates inside a batch and across batches; the last batch of "alone" repeats a centre, so that
# all its costs can be zero. Values are exact in float32.
STREAMS = {
    "three batches": ([[0.0], [1], [5]], [[2.0], [2], [9], [-3]], [[7.0], [0], [4]]),
    "duplicates": ([[0.0], [0], [3]], [[0.0], [3], [3], [8]], [[8.0], [1], [1]]),
    "alone": ([[1.0], [4]], [[4.0]], [[4.0], [4], [1]]),
    "plane": ([[0.0, 0], [2, 1], [4, 4]], [[1.0, 1], [-5, 2]], [[6.0, 6], [0, 0], [3, -2]]),
}
WEIGHTS = ([1.0, 3, 2], [2.0, 0, 1, 4], [1.0, 5, 2])


def step_of(batches, power=1.0):
    """The law of the next row among all rows, of which step t sees those of batch t only."""
    batch_of = np.repeat(np.arange(len(batches)), [len(b) for b in batches])

    def step(D, weights, chosen):
        own = weights * (batch_of == len(chosen))
        share = potentials(D**power, own, chosen)
        share = share if share.any() else own
        return share / share.sum()

    return step


def law_of(batches, weights=None, power=1.0):
    joined = None if weights is None else np.concatenate(weights)
    rows = np.concatenate([np.array(b) for b in batches])
    return sequence_law_of(step_of(batches, power), squared(rows), len(batches), joined)


def weights_for(batches):
    return [np.array(w[: len(b)]) for w, b in zip(WEIGHTS, batches, strict=True)]


def drawn(batches, weights=None, dtype=np.float64):
    """Sequences of rows, by their numbers among all rows."""
    rng = np.random.default_rng(7)
    rows = [Rows.of(np.array(b, dtype=dtype)) for b in batches]
    weights = [None] * len(batches) if weights is None else weights
    first = np.cumsum([0, *(r.n for r in rows)]).tolist()
    runs = []
    for _ in range(RUNS):
        centers, picked = np.empty((0, rows[0].d)), []
        for start, batch, weight in zip(first, rows, weights, strict=False):
            seeds = next_center(centers, batch, weight, rng)
            centers = seeds.centers
            picked.append(start + int(seeds.indices[0]))
        runs.append(tuple(picked))
    return runs


def values(batches):
    """What a sequence of row numbers looks like from outside."""
    rows = [tuple(row) for b in batches for row in b]
    return lambda sequence: tuple(rows[i] for i in sequence)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", STREAMS)
def test_rows_follow_the_law(name, weighted):
    batches = STREAMS[name]
    weights = weights_for(batches) if weighted else None
    dtype = np.float32 if weighted else np.float64
    assert follows(drawn(batches, weights, dtype), law_of(batches, weights)) > ALPHA


WRONG = {
    "weights left out": law_of,
    "distance, not its square": lambda b: law_of(b, weights_for(b), 0.5),
    "batches in another order": lambda b: law_of(b, weights_for(b)[:1] * 3),
}


def test_another_law_is_seen():
    batches = ([[0.0], [1], [5]], [[2.0], [2], [9]], [[7.0], [0], [4]])
    runs = drawn(batches, weights_for(batches))
    assert follows(runs, law_of(batches, weights_for(batches))) > ALPHA
    for why, law in WRONG.items():
        assert follows(runs, law(batches)) < ALPHA, why


@pytest.mark.parametrize("repeated", [False, True])
def test_weights_and_repeats_have_one_law(repeated):
    """The centres of an estimator, by value: rows of integer weight, and rows so many times."""
    batches = STREAMS["three batches"]
    weights = weights_for(batches)
    law = pushed(law_of(batches, weights), values(batches))
    given = [
        np.repeat(b, w.astype(int), axis=0) if repeated else np.array(b)
        for b, w in zip(batches, weights, strict=True)
    ]
    draws = []
    for seed in range(1000):
        model = OnlineKMeans(3, update=False, random_state=seed)
        for batch, weight in zip(given, weights, strict=True):
            model.partial_fit(batch, sample_weight=None if repeated else weight)
        draws.append(tuple(map(tuple, model.cluster_centers_.tolist())))
    assert follows(draws, law) > ALPHA
