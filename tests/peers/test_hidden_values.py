"""What the aggregator is sent says nothing of a single party: it is uniform on 0..2^64 - 1.

Three kinds of mistakes have to be seen: a mask that does not fill all 64 bits, a mask that is used
in two rounds, and masks of several parties that are related. The last tests plant them.
"""

import numpy as np
import pytest
from api import Aggregator, Envelope, FitOptions, PairwiseKeys, Question, VerticalSession
from peers.party_transports import RecordedParties, parties_of
from peers.uniform_words import p_uniform, worst
from sampling.chi_square import ALPHA
from scipy import stats

RNG = np.random.default_rng(1)
GROUP = RNG.integers(4, size=(3000, 1))
X = np.round(RNG.normal(size=(3000, 6)) + 1.5 * GROUP, 2)
K = 4

pytestmark = pytest.mark.usefixtures("fixed_keys")


def fit(cuts, X=X):
    parties = RecordedParties(parties_of(X, cuts))
    options = FitOptions(K, "d2", max_iter=6, tol=0.0)
    result = Aggregator(VerticalSession(parties)).fit(options, np.random.default_rng(0))
    return parties, result


def encoded(parties, party):
    """What this party would have sent without masks in the last round of distances."""
    own = parties.parties[party]
    return own._unit.encode(own._rows.distances(own.centers, squared=True)).ravel()


@pytest.mark.parametrize("cuts", [(3,), (1, 2), (1, 2, 3, 4)], ids=["2", "3", "5 parties"])
def test_a_masked_matrix_alone_is_uniform(cuts):
    parties, _ = fit(cuts)
    for party in range(len(parties)):
        rounds = parties.masked("distances", party)
        assert len(rounds) >= 4
        assert worst(rounds) > ALPHA
        assert p_uniform(rounds) > ALPHA


@pytest.mark.parametrize("cuts", [(3,), (1, 2)], ids=["2", "3 parties"])
def test_two_rounds_together_are_uniform(cuts):
    """Distances change little from round to round, so a mask used twice would show."""
    parties, _ = fit(cuts)
    for party in range(len(parties)):
        rounds = parties.masked("distances", party)
        pairs = [(a, b) for a in range(len(rounds)) for b in range(a)]
        assert worst(rounds[a] - rounds[b] for a, b in pairs) > ALPHA
        assert worst(rounds[a] + rounds[b] for a, b in pairs) > ALPHA


def test_two_of_three_parties_together_are_uniform():
    parties, _ = fit((1, 2))
    sent = [parties.masked("distances", party) for party in range(3)]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert worst(sent[a] + sent[b]) > ALPHA
        assert worst(sent[a] - sent[b]) > ALPHA
    assert p_uniform(sent[0] + sent[1] + sent[2]) < ALPHA  # the sum is what may be known


def test_a_masked_value_does_not_depend_on_the_value():
    """Neither on its own values nor on those of the other party, large or small."""
    parties, _ = fit((3,))
    own = [encoded(parties, party) for party in (0, 1)]
    last = [parties.masked("distances", party)[-1] for party in (0, 1)]
    assert np.array_equal(last[0] + last[1], own[0] + own[1])
    for sent in last:
        for values in own:
            large = values > np.median(values)
            assert worst([sent[large], sent[~large], sent - values, sent + values]) > ALPHA
            assert stats.ks_2samp(sent[large] / 2.0**64, sent[~large] / 2.0**64).pvalue > ALPHA


def test_the_last_party_adds_only_the_sum():
    """Given the sum, what one of two parties sent follows from what the other sent.

    So the aggregator is sent a uniform matrix and the sum. If the parties exchange their columns,
    the sum is the same, and nothing else of what is sent depends on who has which columns.
    """
    (straight, one), (swapped, two) = fit((3,)), fit((3,), np.roll(X, 3, axis=1))
    assert np.array_equal(one.labels, two.labels)
    sums = []
    for parties in (straight, swapped):
        sent = [parties.masked("distances", party) for party in (0, 1)]
        sums.append(sent[0] + sent[1])
        assert worst(sent[0]) > ALPHA
        assert np.array_equal(sent[1], sums[-1] - sent[0])
    assert np.array_equal(*sums)
    assert worst(straight.masked("distances", 0) - swapped.masked("distances", 0)) > ALPHA


@pytest.mark.parametrize("question", ["update", "spread"])
def test_small_answers_are_masked_too(question):
    parties, _ = fit((3,))
    assert all(
        set(answer) == {"masked"} for answers in parties.answers[question] for answer in answers
    )
    for party in (0, 1):
        sent = parties.masked(question, party)
        assert (sent > np.uint64(2**40)).all()  # not a number of columns, or a short move
        assert len(np.unique(sent)) == sent.size


def test_nothing_else_is_sent_by_a_party():
    parties, _ = fit((3,))
    names = {question: set(answers[0][0]) for question, answers in parties.answers.items()}
    assert names == {
        "keys": {"public_key", "rows"},
        "peers": {"sealed"},
        "agree": {"exponent", "digest"},
        "spread": {"masked"},
        "start": set(),
        "distances": {"masked"},
        "update": {"masked"},
        "keep": set(),
        "finish": set(),
    }
    for answers in parties.answers["agree"]:
        assert answers[0] == answers[1]  # so it is known of all parties, not of one


# ---- planted mistakes ----

whole_mask = PairwiseKeys.mask


def test_the_tests_see_a_mask_that_is_used_twice(monkeypatch):
    def same_mask(self, size, round_number, asked=b""):
        self.last_round = 0
        return whole_mask(self, size, 1)

    monkeypatch.setattr(PairwiseKeys, "mask", same_mask)
    parties, _ = fit((3,))
    rounds = parties.masked("distances", 0)
    assert worst(rounds) > ALPHA  # each alone looks right
    assert p_uniform(rounds[1] - rounds[0]) < ALPHA


@pytest.mark.parametrize("bits", [32, 60, 63])
def test_the_tests_see_masks_that_do_not_fill_all_bits(monkeypatch, bits):
    low = np.uint64(2**bits - 1)

    def narrow(self, size, round_number, asked=b""):
        numbers = whole_mask(self, size, round_number) & low
        return numbers if self.index == 0 else 0 - numbers

    monkeypatch.setattr(PairwiseKeys, "mask", narrow)
    monkeypatch.setattr(Aggregator, "fit", lambda self, *_: None)
    parties, _ = fit((3,))
    start = Question("start", {"rows": np.arange(K)})
    asked = Question("distances", {"first": 0, "last": len(X), "round": 2})
    parties.send(dict.fromkeys("01", Envelope(0, 3, asked, (start,))))
    assert p_uniform(parties.masked("distances", 0)) < ALPHA


def test_the_tests_see_masks_on_high_bits_only(monkeypatch):
    def high(self, size, round_number, asked=b""):
        return whole_mask(self, size, round_number) << np.uint64(8)

    monkeypatch.setattr(PairwiseKeys, "mask", high)
    parties, _ = fit((3,))
    assert p_uniform(parties.masked("distances", 0)) < ALPHA
