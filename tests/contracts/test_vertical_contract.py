"""VerticalKMeans as an estimator: its input, its errors, and what a failed fit leaves."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from api import InProcessParties, Question, VerticalParty, VerticalSession
from peers.party_transports import ask
from sklearn.base import clone

from kvariates import VerticalKMeans

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 5)) + 4 * RNG.integers(0, 3, size=(90, 1))
PARTS = [X[:, :2], X[:, 2:]]
IDS = [f"patient {i}" for i in range(90)]


def cluster(parts=PARTS, k=3, ids=None, **options):
    return VerticalKMeans(k, random_state=0, **options).fit(parts, ids=ids)


def test_the_same_seed_gives_the_same_bits_with_other_keys():
    one, two = cluster(), cluster()
    assert one.transcript_.fingerprint != two.transcript_.fingerprint
    assert np.array_equal(one.labels_, two.labels_)
    assert one.inertia_ == two.inertia_
    for a, b in zip(one.cluster_centers_, two.cluster_centers_, strict=True):
        assert a.tobytes() == b.tobytes()


def test_parameters_and_results():
    model = cluster(ids=[IDS, IDS])
    assert clone(model).get_params() == model.get_params()
    assert np.array_equal(clone(model).fit_predict(PARTS), model.labels_)
    assert model.labels_.dtype == np.int32
    assert "8 (2 + ln k)" in model.guarantee_.explain()
    with pytest.raises(ValueError, match="n_clusters"):
        cluster(k=0)
    with pytest.raises(ValueError, match="block_bytes"):
        cluster(block_bytes=4)


@pytest.mark.parametrize(
    "convert",
    [pd.DataFrame, np.asfortranarray, lambda own: own.tolist(), lambda own: own.astype(np.float32)],
    ids=["frames", "Fortran order", "lists", "float32"],
)
def test_other_kinds_of_matrices(convert):
    parts = [own.astype(np.float32).astype(np.float64) for own in PARTS]
    before = [own.copy() for own in parts]
    given = [convert(own) for own in parts]
    model, expected = cluster(given), cluster(parts)
    assert np.array_equal(model.labels_, expected.labels_)
    assert np.array_equal(model.predict(given), expected.labels_)
    assert all(np.array_equal(a, b) for a, b in zip(parts, before, strict=True))


def test_ids_of_any_kind_are_compared_as_text():
    numbers = np.arange(90)
    cluster(ids=[numbers, [str(i) for i in range(90)]])
    cluster(ids=[pd.Series(numbers), numbers.astype(object)])


def other(where, value="nobody"):
    return [value if i in where else name for i, name in enumerate(IDS)]


@pytest.mark.parametrize(
    ("parts", "ids", "message"),
    [
        (X, None, r"X must be a list with the columns of each party; got ndarray"),
        ([X], None, r"columns of 1 party; two at least"),
        ([], None, r"columns of 0 party"),
        ([X, X[:-3]], None, r"Party 1 has 87 rows and party 0 has 90; all parties must hold"),
        ([X, np.where(X[4, 1] == X, np.nan, X)], None, r"Input X\[1\] contains NaN"),
        ([np.where(X[4, 1] == X, np.inf, X), X], None, r"Input X\[0\] contains infinity"),
        ([X, X[:, 0]], None, r"Expected 2D array"),
        ([X, np.empty((90, 0))], None, r"0 feature"),
        ([X[:2], X[:2]], None, r"n_samples=2 should be >= n_clusters=3"),
        ([X, X], [IDS], r"ids are given for 1 parties and X for 2"),
        ([X, X], [IDS, IDS[1:]], r"Party 1: ids have the shape \(89,\) for 90 rows"),
        ([X, X], [IDS, None], r"Party 1 has no ids, but others have"),
        ([X, X], [None, IDS], r"Party 0 has no ids, but others have"),
        ([X, X, X], [IDS, IDS, other({7, 30})], r"Party 2 has other ids than party 0 in 2 of 90"),
        ([X, X], [IDS, IDS[1:] + IDS[:1]], r"Party 1 .* in 90 of 90 rows, first in row 0;"),
        ([X, X], [IDS, other({89})], r"Party 1 .* in 1 of 90 rows, first in row 89;"),
        ([X, 1e160 * X], None, r"Party 1: .*overflow"),
        ([1e-200 * X, X], None, r"Party 0: .*vanish"),
    ],
)
def test_input_that_is_refused_with_one_line(parts, ids, message):
    with pytest.raises(ValueError, match=message) as caught:
        cluster(parts, ids=ids)
    if "X[" not in str(caught.value) and "array" not in str(caught.value):
        assert "\n" not in str(caught.value)


def test_ids_that_are_cut_at_other_places_differ():
    with pytest.raises(ValueError, match="other ids"):
        cluster([X[:2], X[:2]], k=1, ids=[["ab", "c"], ["a", "bc"]])


def test_new_rows_need_the_columns_of_the_fit():
    model = cluster()
    with pytest.raises(ValueError, match=r"parties have \[3, 2\] columns, but .* on \[2, 3\]"):
        model.predict(PARTS[::-1])
    with pytest.raises(ValueError, match=r"Party 1 has 5 rows and party 0 has 90"):
        model.predict([PARTS[0], PARTS[1][:5]])
    with pytest.raises(Exception, match="not fitted"):
        VerticalKMeans().predict(PARTS)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_a_fit_that_fails_leaves_the_model_as_it_was(error, monkeypatch):
    model = cluster()
    before, store = copy.deepcopy(vars(model)), VerticalKMeans._store

    def fails(self, *args):
        store(self, *args)
        raise error

    monkeypatch.setattr(VerticalKMeans, "_store", fails)
    with pytest.raises(error):
        model.fit([own[:50] for own in PARTS])
    assert str(vars(model)) == str(before)
    assert np.array_equal(model.labels_, before["labels_"])


# ---- a party alone ----


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (np.array([1.0, 2]), r"matrix with rows and columns; got the shape \(2,\)"),
        (np.empty((0, 2)), r"got the shape \(0, 2\)"),
        (np.array([[1.0, np.nan]]), "NaN or infinity"),
    ],
)
def test_columns_that_a_party_refuses(columns, message):
    with pytest.raises(ValueError, match=message):
        VerticalParty(columns)


def test_centers_that_a_party_refuses():
    with pytest.raises(ValueError, match="centers have 3 columns, and X has 5"):
        VerticalParty(X, centers=PARTS[1][:4])


def test_questions_that_come_too_early_or_do_not_exist():
    party = VerticalParty(X, IDS)
    for question, arguments, message in (
        ("columns", {}, r"no question 'columns'; ask one of keys, peers"),
        ("peers", {"index": 0, "public_keys": []}, "Ask 'keys' before 'peers'"),
        ("distances", {"first": 0, "last": 1, "round": 1}, "ask 'agree' first"),
        ("agree", {"sealed": []}, "ask 'keys' and 'peers' first"),
        ("tokens", {}, "no common secret: ask 'agree' first"),
        ("spread", {"round": 1}, "ask 'keys' and 'peers' first"),
    ):
        with pytest.raises(ValueError, match=message):
            ask(party, question, arguments)


def session():
    parties = [VerticalParty(own) for own in PARTS]
    return parties, VerticalSession(InProcessParties(parties))


def test_a_party_answers_a_round_once_and_meets_its_peers_once():
    parties, met = session()
    met.ask("start", rows=np.arange(3))
    met.masked_sum("distances", (90, 3), first=0, last=90)
    with pytest.raises(ValueError, match="Round 1 was used already"):
        ask(parties[0], "distances", {"first": 0, "last": 90, "round": 1})
    keys = [party._keys for party in parties]
    with pytest.raises(ValueError, match="Ask 'keys' before 'peers'"):
        ask(parties[0], "peers", {"index": 0, "public_keys": [b"1" * 32, b"2" * 32]})
    assert parties[0]._keys is keys[0]


@pytest.mark.parametrize("answer", [False, None])
def test_a_fingerprint_that_is_not_confirmed_ends_the_session(answer):
    seen = []

    def confirm(text):
        seen.append(text)
        return answer

    parties = [VerticalParty(PARTS[0]), VerticalParty(PARTS[1], confirm=confirm)]
    with pytest.raises(ValueError, match=r"Party 1: The fingerprint .* was not confirmed"):
        VerticalSession(InProcessParties(parties))
    assert seen == [parties[0].fingerprint]
    with pytest.raises(ValueError, match="There is no session"):
        ask(parties[1], "agree", {"sealed": [b"", b""]})
    answer = True
    assert VerticalSession(InProcessParties(parties)).fingerprint == seen[-1]


def test_messages_of_all_parties_are_needed_once():
    """One party's exponent alone, or two agreements, would disclose its columns."""
    parties = [VerticalParty(X[:, :2]), VerticalParty(X[:, 2:])]
    keys = [ask(party, "keys", {})["public_key"] for party in parties]
    sealed = [
        ask(party, "peers", {"index": i, "public_keys": keys})["sealed"]
        for i, party in enumerate(parties)
    ]
    with pytest.raises(ValueError, match="1 messages of 2 parties"):
        ask(parties[0], "agree", {"sealed": [b""]})
    ask(parties[0], "agree", {"sealed": [b"", sealed[1][0]]})
    with pytest.raises(ValueError, match="agreed already"):
        ask(parties[0], "agree", {"sealed": [b"", sealed[1][0]]})


def test_hashed_ids_of_two_sessions_have_nothing_in_common():
    """The secret is new in every session: the aggregator cannot try names."""
    parties = [VerticalParty(own, IDS) for own in PARTS]
    digests, tokens = [], []
    for _ in range(2):
        met = VerticalSession(InProcessParties(parties))
        public = [ask(party, "keys", {})["public_key"] for party in parties]
        sealed = [
            ask(party, "peers", {"index": i, "public_keys": public})["sealed"]
            for i, party in enumerate(parties)
        ]
        for i, party in enumerate(parties):
            digests.append(ask(party, "agree", {"sealed": [s[i] for s in sealed]})["digest"])
        tokens.append(met.ask("tokens"))
    assert digests[0] == digests[1] != digests[2] == digests[3]
    found = [[answer["tokens"] for answer in answers] for answers in tokens]
    assert found[0][0] == found[0][1] != found[1][0] == found[1][1]
    assert len(found[0][0]) == 16 * len(IDS)


def test_an_answer_of_another_round_is_noticed():
    parties, met = session()
    met.ask("start", rows=np.arange(3))
    answer = parties[1].answer

    def of_next_round(envelope):
        name, arguments = envelope.question.name, envelope.question.arguments
        later = Question(name, {**arguments, "round": arguments["round"] + 1})
        return answer(replace(envelope, question=later))

    parties[1].answer = of_next_round
    with pytest.raises(ValueError, match="masks of the parties did not cancel in round 1"):
        met.masked_sum("distances", (90, 3), first=0, last=90)


def test_an_answer_of_another_shape_is_noticed():
    parties, met = session()
    ask(parties[1], "start", {"rows": np.arange(2)})
    ask(parties[0], "start", {"rows": np.arange(3)})
    with pytest.raises(ValueError, match=r"Party 1 answered 'distances' with uint64 of shape"):
        met.masked_sum("distances", (90, 3), first=0, last=90)
