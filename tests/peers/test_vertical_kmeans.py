"""Vertical k-means finds the clusters of the pooled columns."""

import numpy as np
import pytest
from api import (
    Aggregator,
    FitOptions,
    InProcessParties,
    MaskedAssigner,
    StopRule,
    VerticalSession,
    lloyd,
)
from laws.brute import squared_distances
from peers.local_transport import LocalTransport
from peers.party_transports import RecordedParties, WireParties, parties_of

from kvariates import KMeans, VerticalKMeans

RNG = np.random.default_rng(7)
GROUP = RNG.integers(6, size=(800, 1))
SETS = {
    "groups": RNG.normal(size=(800, 7)) + 4 * GROUP * RNG.random(7),
    "one blob": RNG.normal(size=(500, 7)),
    "ties": RNG.integers(0, 3, size=(400, 7)).astype(float),
    "duplicates": np.repeat(RNG.integers(0, 2, size=(25, 7)), 8, axis=0).astype(float),
    "other scales": RNG.normal(size=(600, 7)) * 10.0 ** np.array([-9, 4, 0, 3, -2, 4, 1]),
    "far from zero": RNG.normal(size=(500, 7)) + 1e7,
    "constant columns": np.hstack([RNG.normal(size=(300, 5)), np.full((300, 2), 0.1)]),
    "zeros beside tiny": np.hstack([np.zeros((300, 3)), 1e-130 * RNG.normal(size=(300, 4))]),
    "tiny": 1e-130 * RNG.normal(size=(300, 7)),
    "huge": 1e130 * RNG.normal(size=(300, 7)),
}
CUTS = {"2": (3,), "3": (1, 4), "7 parties": (1, 2, 3, 4, 5, 6)}


def split(X, cuts):
    return np.split(X, cuts, axis=1)


def error(model, X):
    """Of the encoding, and of the float64 distances themselves."""
    largest = (np.ptp(X, axis=0) ** 2).sum()
    return model.transcript_.error + (X.shape[1] + 2) * 2.0**-52 * largest


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("name", SETS)
def test_the_clusters_are_those_of_the_pooled_columns(name, cuts):
    X = SETS[name]
    model = VerticalKMeans(6, random_state=3).fit(split(X, cuts))
    pooled = KMeans(6, init=X[model.seed_rows_], n_init=1).fit(X)
    centers = np.hstack(model.cluster_centers_)
    assert [own.shape[1] for own in model.cluster_centers_] == np.diff([0, *cuts, 7]).tolist()
    D, allowed = squared_distances(X, pooled.cluster_centers_), 2 * error(model, X)
    rows = np.arange(len(X))
    assert (D[rows, model.labels_] - D[rows, pooled.labels_] <= allowed).all()
    assert abs(model.inertia_ - pooled.inertia_) <= len(X) * allowed
    # No row of these sets is as near to two centres as the error: so even the labels are equal.
    assert np.array_equal(model.labels_, pooled.labels_)
    assert model.n_iter_ == pooled.n_iter_
    assert np.allclose(centers, pooled.cluster_centers_, rtol=0, atol=1e-12 * np.abs(X).max())


@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_a_run_that_was_stopped_has_the_labels_of_its_last_centers(max_iter):
    X = SETS["one blob"]
    model = VerticalKMeans(9, random_state=1, max_iter=max_iter, tol=0).fit(split(X, (2,)))
    pooled = KMeans(9, init=X[model.seed_rows_], n_init=1, max_iter=max_iter, tol=0).fit(X)
    assert model.n_iter_ == max_iter
    assert np.array_equal(model.labels_, pooled.labels_)
    assert model.inertia_ == pytest.approx(pooled.inertia_, rel=1e-13)
    D = squared_distances(X, np.hstack(model.cluster_centers_))
    assert np.array_equal(model.labels_, D.argmin(axis=1))


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
def test_a_run_stops_at_the_tolerance_of_the_pooled_columns(tol):
    X = SETS["one blob"] * np.array([1, 1, 1, 5, 5, 5, 5])
    model = VerticalKMeans(9, random_state=1, tol=tol).fit(split(X, (2, 3)))
    pooled = KMeans(9, init=X[model.seed_rows_], n_init=1, tol=tol).fit(X)
    assert model.n_iter_ == pooled.n_iter_ < 40


@pytest.mark.parametrize("starts", [[0, 0, 5], [3, 3, 3, 3, 9], [0, 1, 1, 2, 2]])
def test_empty_clusters_get_the_farthest_rows_as_in_memory(starts):
    X = SETS["groups"][:60]
    parties = parties_of(X, (3,))
    session = VerticalSession(InProcessParties(parties))
    session.ask("start", rows=np.array(starts))
    assigner = MaskedAssigner(session, len(starts))
    start, stop = np.zeros(len(starts)), StopRule(300, 0.0)
    end = lloyd(assigner, start, assigner.update, stop, moves_of=lambda _, moves: moves)
    pooled = KMeans(len(starts), init=X[starts], n_init=1, tol=0).fit(X)
    assert end.converged
    assert np.array_equal(assigner.labels, pooled.labels_)
    assert np.allclose(np.hstack([p.centers for p in parties]), pooled.cluster_centers_)


def test_more_clusters_than_distinct_rows():
    X = np.repeat(np.arange(6.0).reshape(3, 2), 4, axis=0)
    with pytest.warns(UserWarning, match=r"distinct clusters \(3\) found smaller than"):
        model = VerticalKMeans(5, random_state=0).fit(split(X, (1,)))
    assert model.inertia_ == 0
    assert np.isin(np.hstack(model.cluster_centers_), X).all()


def test_rows_that_are_all_equal():
    X = np.full((30, 3), 0.1)
    with pytest.warns(UserWarning, match=r"distinct clusters \(1\) found smaller than"):
        model = VerticalKMeans(2, random_state=0).fit(split(X, (1,)))
    assert model.inertia_ == pytest.approx(0, abs=1e-30)
    assert np.hstack(model.cluster_centers_) == pytest.approx(0.1)


def test_the_best_run_is_kept():
    X = SETS["groups"]
    model = VerticalKMeans(6, n_init=8, random_state=0).fit(split(X, (3,)))
    runs = [
        VerticalKMeans(6, random_state=rng).fit(split(X, (3,)))
        for rng in [np.random.default_rng(0)] * 8
    ]
    best = min(runs, key=lambda run: run.inertia_)
    assert len({run.inertia_ for run in runs}) > 1
    assert runs[-1].inertia_ > best.inertia_
    assert model.inertia_ == best.inertia_
    assert np.array_equal(model.seed_rows_, best.seed_rows_)
    assert np.array_equal(model.labels_, best.labels_)
    for own, other in zip(model.cluster_centers_, best.cluster_centers_, strict=True):
        assert own.tobytes() == other.tobytes()


@pytest.mark.parametrize("block_bytes", [8, 1000, 2**30])
def test_blocks_change_nothing(block_bytes):
    X = split(SETS["one blob"][:150], (3,))
    whole = VerticalKMeans(4, random_state=0).fit(X)
    model = VerticalKMeans(4, random_state=0, block_bytes=block_bytes).fit(X)
    assert np.array_equal(whole.labels_, model.labels_)
    assert whole.inertia_ == model.inertia_
    assert np.array_equal(whole.cluster_centers_[1], model.cluster_centers_[1])
    rows = max(1, block_bytes // 32)
    passes = model.transcript_.by_question["update"].rounds + 1
    lloyd_rounds = passes * -(-150 // rows)
    seed_rounds = 4 * -(-150 // max(1, block_bytes // 8))
    assert model.transcript_.by_question["distances"].rounds == lloyd_rounds + seed_rounds


def over_threads(parties):
    """The transport of peers with rows."""
    return LocalTransport({str(i): party.answer for i, party in enumerate(parties)})


def test_the_transport_changes_nothing():
    X, ids = SETS["groups"], [f"row {i}" for i in range(800)]
    options = FitOptions(6, "d2", n_init=2)
    found = [
        Aggregator(VerticalSession(kind(parties_of(X, (1, 4), ids)))).fit(
            options, np.random.default_rng(5)
        )
        for kind in (InProcessParties, WireParties, over_threads)
    ]
    for other in found[1:]:
        assert np.array_equal(found[0].labels, other.labels)
        assert found[0].inertia == other.inertia


def test_each_party_ends_with_the_labels_and_its_part_of_the_centers():
    X = SETS["groups"]
    parties = parties_of(X, (3,))
    options = FitOptions(6, "d2", n_init=3)
    session = VerticalSession(InProcessParties(parties))
    result = Aggregator(session).fit(options, np.random.default_rng(0))
    D = squared_distances(X, np.hstack([party.centers for party in parties]))
    for party in parties:
        assert np.array_equal(party.labels, result.labels)
    assert np.array_equal(result.labels, D.argmin(axis=1))
    assert parties[0].fingerprint == parties[1].fingerprint


def test_new_rows_have_the_labels_of_the_pooled_centers():
    X = SETS["groups"]
    model = VerticalKMeans(6, random_state=3).fit(split(X, (3,)))
    assert np.array_equal(model.predict(split(X, (3,))), model.labels_)
    new = 100 * RNG.normal(size=(300, 7))  # far outside the box of the fitted rows
    D = squared_distances(new, np.hstack(model.cluster_centers_))
    assert np.array_equal(model.predict(split(new, (3,))), D.argmin(axis=1))
    assert np.array_equal(model.predict(split(new[:1], (3,))), D[:1].argmin(axis=1))


def test_the_transcript_counts_what_was_sent():
    X, n, k, r = SETS["groups"], 800, 6, 3
    parties = RecordedParties(parties_of(X, (1, 4)))
    aggregator = Aggregator(VerticalSession(parties))
    result = aggregator.fit(FitOptions(k, "d2", tol=0.0), np.random.default_rng(0))
    transcript, passes = aggregator.session.transcript, result.n_iter
    assert result.converged
    counts = transcript.by_question
    assert counts["distances"].bytes_from_parties == 8 * r * n * (k + k * passes)
    assert counts["update"].bytes_to_parties == r * (n + 8) * (passes - 1)  # labels in one byte
    assert counts["update"].bytes_from_parties == 8 * r * k * (passes - 1)
    asked = {question: len(answers) for question, answers in parties.answers.items()}
    assert {question: traffic.rounds for question, traffic in counts.items()} == asked
    assert transcript.rounds == sum(asked.values())
    assert transcript.messages == 2 * r * transcript.rounds
    sent = sum(t.bytes_to_parties + t.bytes_from_parties for t in counts.values())
    assert transcript.bytes == sent
    assert transcript.fingerprint == parties.parties[0].fingerprint
    assert "The aggregator learns" in str(transcript)
