"""Secure sums: what a masked peer sends is uniform, masks are fresh, and nothing else is sent."""

import numpy as np
import pytest
from api import (
    QUESTIONS,
    SUMMED,
    TRUSTING,
    Envelope,
    HostData,
    KeyPair,
    LogNeeded,
    MaskedPeer,
    Peer,
    Question,
    Rows,
    SummedQuestion,
    decode,
    from_float,
    to_float,
)
from peers.local_peers import fitted, shards_of
from peers.local_transport import LocalTransport
from peers.uniform_words import p_uniform, worst
from sampling.chi_square import ALPHA

pytestmark = pytest.mark.usefixtures("fixed_keys")

RNG = np.random.default_rng(4)
X = RNG.normal(size=(400, 40)) + 6 * RNG.integers(2, size=(400, 1))
K = 8
SHARDS = shards_of(X, [90, 200, 310])


class RecordedPeer:
    """A masked peer with what it keeps; `sent` has its masked answers and the questions."""

    def __init__(self, X, weight=None, max_groups=3):
        self.peer = MaskedPeer(HostData(Rows.of(X), weight), 0, TRUSTING, max_groups)
        self.plain = Peer(HostData(Rows.of(X), weight), 0)
        self.keeper, self.sent = {}, []

    def answer(self, envelope):
        answer = self.peer.answer(envelope, self.keeper)
        if envelope.question.name == "masked_sum":
            self.sent.append((envelope.question.arguments, answer["masked"].view(np.uint64)))
        return answer

    def ask(self, name, /, **arguments):
        return self.answer(Envelope(1, 0, Question(name, arguments)))

    def rounds(self):
        """The masked statistics of all steps, one row each."""
        return np.array([words for asked, words in self.sent if asked["name"] == "assign"])


def peers_of(shards, **options):
    return [RecordedPeer(X, weight, **options) for X, weight in shards]


def masked_fit(peers, init=None, **options):
    transport = LocalTransport({f"peer {i}": peer.answer for i, peer in enumerate(peers)})
    options = {"max_iter": 6, "tol": 0.0, "secure_sums": True, **options}
    return fitted(transport, K, X[:K] if init is None else init, **options)


@pytest.fixture
def recorded(fixed_keys):
    peers = peers_of(SHARDS)
    masked_fit(peers)
    return peers


def test_a_masked_answer_alone_is_uniform(recorded):
    for peer in recorded:
        assert peer.rounds().shape[0] >= 4
        assert worst(peer.rounds()) > ALPHA
        assert p_uniform(peer.rounds()) > ALPHA


def test_two_rounds_together_are_uniform(recorded):
    for peer in recorded:
        rounds = peer.rounds()
        pairs = [(a, b) for a in range(len(rounds)) for b in range(a)]
        assert worst(rounds[a] - rounds[b] for a, b in pairs) > ALPHA
        assert worst(rounds[a] + rounds[b] for a, b in pairs) > ALPHA


def test_all_but_one_peer_together_are_uniform(recorded):
    total = sum(peer.rounds() for peer in recorded)
    for peer in recorded:
        assert worst(total - peer.rounds()) > ALPHA
    assert p_uniform(total) < ALPHA  # the sum is what may be known


def test_a_cost_is_masked_in_all_its_words(recorded):
    for peer in recorded:
        costs = [words for asked, words in peer.sent if asked["name"] == "evaluate"]
        assert all((words > np.uint64(2**40)).all() for words in costs)


def test_a_group_that_shows_the_sums_would_be_seen(monkeypatch):
    monkeypatch.setattr(SummedQuestion, "masked", unmasked)
    peers = peers_of(SHARDS)
    masked_fit(peers)
    assert p_uniform(peers[0].rounds()) < ALPHA


def unmasked(self, answer, keys, round_number, asked):
    class NoKeys:
        def mask(self, size, *_):
            return np.zeros(size, np.uint64)

        def wide_mask(self, *_):
            return 0

    return masked(self, answer, NoKeys(), round_number, asked)


masked = SummedQuestion.masked


# ---- what a peer refuses ----


def group_of(peers):
    keys = [peer.ask("keys")["public_key"] for peer in peers]
    for index, peer in enumerate(peers):
        peer.ask("group", index=index, public_keys=keys)


def assign_all(peers, round_number, centers=X[:K], last=0):
    """The total of all peers, as the coordinator computes it."""
    scale = [2.0**5, 2.0**-30, 1.0, 1.0, 53.0]
    arguments = {"centers": centers, "scale": scale}
    words = [
        peer.ask("masked_sum", name="assign", arguments=arguments, round=round_number, last=last)[
            "masked"
        ]
        for peer in peers
    ]
    return SummedQuestion("assign", arguments, X.shape[1]).total(words)


def test_questions_about_sums_are_answered_only_behind_masks():
    (peer, *_) = peers = peers_of(SHARDS)
    for name in SUMMED:
        with pytest.raises(ValueError, match="answered only in secure sums"):
            peer.ask(name)
    with pytest.raises(LogNeeded):  # it is in no group, or has forgotten it
        peer.ask("masked_sum", name="assign", arguments={}, round=1, last=0)
    group_of(peers)
    for name in [*(QUESTIONS.keys() - SUMMED.keys()), "rows"]:
        with pytest.raises(ValueError, match="has no sums"):
            peer.ask("masked_sum", name=name, arguments={}, round=1, last=0)
    log = (Question("assign", {"centers": X[:K], "scale": []}),)
    with pytest.raises(ValueError, match="'assign' is not allowed"):
        peer.answer(Envelope(1, 1, Question("potential", {"centers": X[:1], "known": 0}), log))
    assert peer.ask("describe")["n"] == len(SHARDS[0][0])


def test_a_group_of_two_is_refused():
    with pytest.raises(ValueError, match="a group needs at least 3 peers; got 2"):
        group_of(peers_of(SHARDS[:2]))
    group_of(peers_of(SHARDS[:3]))


def test_a_round_is_answered_once():
    peers = peers_of(SHARDS)
    group_of(peers)
    assign_all(peers, 5)
    for again in (5, 4):
        with pytest.raises(ValueError, match="round 5 was used already"):
            assign_all(peers, again)
    for odd in (2**63, "6", 0, -1):
        with pytest.raises(ValueError, match="does not come after round 0"):
            assign_all(peers, odd)
    assert assign_all(peers, 6, last=5)["counts"].sum() == len(X)


def test_a_state_that_is_older_than_the_last_answer_is_noticed():
    """Flower stores it after the answer was sent."""
    peers = peers_of(SHARDS)
    group_of(peers)
    old = peers[0].keeper["masks"]
    assign_all(peers, 1)
    peers[0].keeper["masks"] = old
    with pytest.raises(LogNeeded):
        assign_all(peers, 2, last=1)


def test_peers_forget_their_keys_when_they_leave():
    peers = peers_of(SHARDS)
    masked_fit(peers)
    for peer in peers:
        assert decode(peer.keeper["masks"])["secret"] == b""
    with pytest.raises(LogNeeded):
        assign_all(peers, 99)


@pytest.mark.parametrize("bit", [255])
def test_a_key_that_is_listed_twice_in_two_forms_does_not_unmask(bit):
    """X25519 ignores the highest bit of a public key, so both forms have the same secret."""

    def twin(key):
        return (int.from_bytes(key, "little") ^ (1 << bit)).to_bytes(32, "little")

    peers = peers_of(SHARDS[:3])
    b, c, a = (peer.ask("keys")["public_key"] for peer in peers)
    listed = [b, c, a, twin(b), twin(c)]
    for index, peer in enumerate(peers):
        peer.ask("group", index=index, public_keys=listed)
    assign_all(peers[2:], 1)
    assert p_uniform(peers[2].sent[-1][1]) > ALPHA
    assert peers[2].sent[-1][1].min() > 0


@pytest.mark.parametrize(
    "bad",
    [
        {"centers": X[:K] * np.nan}, {"centers": X[:0]}, {"centers": X[:K, :3]},
        {"scale": [1.0, 1.0, 1.0, 1.0, 1e9]}, {"scale": [np.nan, 1.0, 1.0, 1.0, 53.0]},
        {"scale": [-1.0, 1.0, 1.0, 1.0, 53.0]},
    ],
)  # fmt: skip
def test_impossible_arguments_are_refused_and_use_no_round(bad):
    peers = peers_of(SHARDS)
    group_of(peers)
    good = {"centers": X[:K], "scale": [2.0**5, 2.0**-30, 1.0, 1.0, 53.0]}
    with pytest.raises(ValueError, match=r"should be finite|scale of sums"):
        peers[0].ask("masked_sum", name="assign", arguments={**good, **bad}, round=1, last=0)
    assert assign_all(peers, 1)["counts"].sum() == len(X)


def test_keys_serve_one_group_and_groups_are_counted():
    peers = peers_of(SHARDS, max_groups=2)
    group_of(peers)
    with pytest.raises(ValueError, match="needs new keys"):
        peers[0].ask("group", index=0, public_keys=[KeyPair().public_key] * 3)
    group_of(peers)
    with pytest.raises(ValueError, match="joins at most 2 groups"):
        group_of(peers)


def test_answers_to_different_questions_do_not_add_up():
    """Also to different questions in the past: `changed` would disclose one peer's rows."""
    peers = peers_of(SHARDS)
    group_of(peers)
    assign_all(peers[:1], 1, X[K : 2 * K])
    assign_all(peers[1:], 1)
    total = assign_all(peers, 2)
    assert not 0 <= total["counts"].astype(object).sum() <= len(X)


def test_a_state_that_was_set_back_gives_no_mask_twice():
    """Its answer to another question has another mask, to the same question the same answer."""
    peers = peers_of(SHARDS)
    group_of(peers)
    saved = peers[0].keeper["masks"]
    first = ask_one(peers[0], X[:K])
    peers[0].keeper["masks"] = saved
    assert np.array_equal(ask_one(peers[0], X[:K]), first)
    peers[0].keeper["masks"] = saved
    other = ask_one(peers[0], X[:K] + 1e-9)
    assert p_uniform(other - first) > ALPHA


def ask_one(peer, centers):
    assign_all([peer], 1, centers)
    return peer.sent[-1][1]


def test_masks_are_new_in_every_round_and_in_every_process():
    """The process ends after each answer; the peer goes on with what was kept."""
    steady, restarted = peers_of(SHARDS), peers_of(SHARDS)
    masks = []
    for peers in (steady, restarted):
        group_of(peers)
    for round_number, centers in enumerate((X[:K], X[:K], X[1 : K + 1], X[1 : K + 1]), start=1):
        for peer, (rows, weight) in zip(restarted, SHARDS, strict=True):
            peer.peer = MaskedPeer(HostData(Rows.of(rows), weight), 0, TRUSTING, 3)
        totals = [
            assign_all(peers, round_number, centers, round_number - 1)
            for peers in (steady, restarted)
        ]
        for name, values in totals[0].items():
            assert np.array_equal(values, totals[1][name])
        masks.append(restarted[0].sent[-1][1])
    assert totals[0]["changed"] == 0
    assert p_uniform(np.array(masks)) > ALPHA
    assert p_uniform(masks[1] - masks[0]) > ALPHA  # of the same centres, so of the same mask or not
    assert p_uniform(masks[3] - masks[2]) > ALPHA


# ---- the same bits ----


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("init", ["given", "dk-means++"])
def test_the_result_has_the_bits_of_a_fit_without_masks(weighted, init):
    rng = np.random.default_rng(2)
    weight = rng.uniform(0, 3, size=len(X)) * (rng.random(len(X)) < 0.9) if weighted else None
    shards = shards_of(X * np.array([1e-30, *[1.0] * 38, 1e20]), [3, 90, 310], weight)
    start = np.concatenate([rows for rows, _ in shards])[:K] if init == "given" else init
    options = {"init": start, "tol": 1e-3, "max_iter": 20}
    secure = masked_fit(peers_of(shards), **options)
    plain = LocalTransport({f"peer {i}": p.plain.answer for i, p in enumerate(peers_of(shards))})
    open_ = fitted(plain, K, start, tol=1e-3, max_iter=20, shows_rows=False)
    assert secure.centers.tobytes() == open_.centers.tobytes()
    assert secure.inertia == open_.inertia
    assert secure.n_iter > 2
    assert (secure.n_iter, secure.converged) == (open_.n_iter, open_.converged)
    assert secure.spread == open_.spread
    assert len(secure.transcript.fingerprints) == 1


def test_floats_become_the_same_integers():
    values = [0.0, 5e-324, 1.5, -3.25, 1.7e308, float(RNG.normal())]
    assert [to_float(from_float(value)) for value in values] == values
