"""PDk-means++: every release is charged, and the ledger can be replayed."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from api import (
    UNIT,
    Cost,
    Domain,
    Envelope,
    FlowerTransport,
    PrivatePeer,
    Question,
    Refused,
    Releases,
    Share,
    checked_bounds,
    fit,
    ledger_of,
    loss,
    measurement,
    server_options,
)
from api import client_module as client
from federated.fake_grid import BOX, UNUSED, blobs, grid_of, ledgers

from kvariates.federated import Private
from kvariates.privacy import BudgetError

ADJACENCIES = ("add-remove", "replace-one")
X = blobs(300)
DIAMETER = 2 * 20.0**2  # squared


def fitted(shards, private, k=3, steps=2, fresh=False, **options):
    grid = grid_of(shards, {"fresh": fresh}, bounds=BOX, private=private)
    checked = server_options(
        k, bounds=BOX, init="pdk-means++", max_iter=steps, random_state=1, **options
    )
    return fit(FlowerTransport(grid, 5.0), checked)


def replayed(charge, adjacency, n):
    """The epsilon of a charge, computed again from its scale and what one row can move."""
    twice = 1 if adjacency == "add-remove" else 2
    domain = Domain.box(*map(np.array, BOX))
    if charge.label.startswith("centre"):
        step = domain.lattice.step
        diameter = sum(2 * math.floor(Fraction(side) / Fraction(step)) for side in (10.0, 10.0))
        ratio = measurement("laplace", charge.scale / step).map(diameter)
        return loss(ratio, [Share(Fraction(1, n), 1)])
    if charge.label.startswith("potential"):
        return UNIT / (charge.scale / DIAMETER * UNIT)
    if "sums" in charge.label:
        return twice * 20.0 / charge.scale  # l1: the half sides of the box
    return (1 if charge.label == "number of rows" else twice) / charge.scale


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_every_release_of_every_peer_is_in_its_ledger(adjacency, fresh, tmp_path):
    private = Private(2.0, n_clusters=3, steps=2, adjacency=adjacency, ledger=ledgers(tmp_path))
    found = fitted(np.array_split(X, 3), private, fresh=fresh)
    assert not found.transcript.dropped
    assert found.ledgers.keys() == {"0", "1", "2"}
    labels = [charge.label for ledger in found.ledgers.values() for charge in ledger.charges]
    assert sum(label.startswith("centre") for label in labels) == 3  # k noisy rows in all
    for ledger in found.ledgers.values():
        kinds = [charge.label for charge in ledger.charges]
        assert sum(kind.startswith("potential") for kind in kinds) == 2
        assert sum(kind.startswith("step") for kind in kinds) == 4
        assert ("number of rows" in kinds) == (adjacency == "add-remove")
        assert ledger.total().epsilon <= 2.0
    assert found.inertia is None
    assert "noise" in found.guarantee_lost
    assert (np.abs(found.centers) <= 10).all()


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_ledger_can_be_replayed(adjacency):
    peer, releases = peer_of(X, adjacency=adjacency), Releases()
    ask_everything(peer, releases)
    n = int(ask(peer, releases, "describe")["n"])
    charges = peer.ledger(releases).charges
    assert len(charges) == (adjacency == "add-remove") + 2 + 3 + 2 * 2
    for charge in charges:
        assert charge.epsilon == pytest.approx(replayed(charge, adjacency, n), rel=1e-6)
    # All that the budget is for was asked, so all of it is spent.
    total = peer.ledger(releases).total().epsilon
    assert 2.0 * (1 - 1e-9) <= total <= 2.0


def peer_of(rows, epsilon=2.0, **options):
    private = Private(epsilon, **{"n_clusters": 3, "steps": 2, "ledger": UNUSED, **options})
    return PrivatePeer(rows, checked_bounds(BOX), private)


def ask(peer, releases, name, fit=1, **arguments):
    return peer.answer(Envelope(fit, 0, Question(name, arguments)), releases)


def ask_everything(peer, releases):
    centers = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    ask(peer, releases, "describe")
    for known in (1, 2):
        ask(peer, releases, "potential", centers=centers[:known], known=known - 1)
    for step in range(3):
        ask(peer, releases, "draw", step=step)
    for moved in range(2):
        ask(peer, releases, "noisy_statistics", centers=centers, step=moved)
    return centers


def test_a_question_that_is_asked_again_costs_nothing_and_others_are_refused():
    peer, releases = peer_of(X), Releases()
    centers = ask_everything(peer, releases)
    before = len(releases.charges)
    first = ask(peer, releases, "draw", step=0)["points"]
    assert np.array_equal(first, ask(peer, releases, "draw", step=0)["points"])
    ask_everything(peer, releases)
    assert len(releases.charges) == before
    for name, arguments in (
        ("draw", {"step": 3}),
        ("potential", {"centers": centers, "known": 0}),
        ("noisy_statistics", {"centers": centers, "step": 2}),
    ):
        with pytest.raises(Refused, match="and no more"):
            ask(peer, releases, name, **arguments)
    with pytest.raises(Refused, match="and no more"):
        ask(peer, releases, "draw", fit=2, step=0)  # another fit has no other budget
    for name in ("evaluate", "assign", "spread", "take", "column_sums", "far_rows"):
        with pytest.raises(Refused, match="not answered by a private peer"):
            ask(peer, releases, name)
    assert len(releases.charges) == before


def test_errors_tell_nothing():
    peer, releases = peer_of(X), Releases()
    with pytest.raises(Refused, match=r"^the question could not be answered$"):
        ask(peer, releases, "draw", other=3)
    with pytest.raises(Refused, match="centres should be finite"):
        ask(peer, releases, "noisy_statistics", centers=np.array([[np.nan, 0.0]]), step=0)


def test_the_ledger_in_a_file_is_for_all_runs(tmp_path):
    path = tmp_path / "ledger"
    private = Private(epsilon=1.0, n_clusters=3, steps=2, ledger=path)
    shards = [X]
    first = fitted(shards, private)
    assert first.ledgers["0"].total().epsilon <= 1.0
    client._cached.clear()
    again = fitted(shards, private)  # the same seed asks the same questions: nothing is spent
    assert again.ledgers == first.ledgers
    with pytest.raises(Exception, match="and no more"):
        fitted(shards, private, min_peers=1, k=4)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_rows_are_an_answer_too(adjacency):
    peer, releases = peer_of(np.empty((0, 2)), adjacency=adjacency), Releases()
    ask_everything(peer, releases)
    assert peer.ledger(releases).total().epsilon <= 2.0


def test_describe_and_the_first_potential_tell_only_the_noisy_number():
    answers = []
    for rows in (X, X[:200] / 3):
        peer, releases = peer_of(rows), Releases()
        answer = ask(peer, releases, "describe")
        n = answer["n"]
        assert ask(peer, releases, "potential", centers=np.empty((0, 2)), known=0) == {
            "potential": float(n)
        }
        assert [charge.label for charge in releases.charges] == ["number of rows"]
        answers.append({**answer, "n": 0, "weight": 0.0})
    assert answers[0] == answers[1]  # nothing else depends on the rows


# -- planted mistakes ------------------------------------------------------------------------------


def test_a_release_that_is_not_charged_is_caught(monkeypatch):
    """Three releases of k = 3 draws, but only two charges: the replay counts calls, not charges."""
    calls = []
    make = PrivatePeer._noisy_row

    def counting(self, n, number):
        calls.append(number)
        return make(self, n, number)

    monkeypatch.setattr(PrivatePeer, "_noisy_row", counting)
    peer, releases = peer_of(X), Releases()
    ask_everything(peer, releases)
    drawn = [charge for charge in releases.charges if charge.label.startswith("centre")]
    assert len(drawn) == len(calls) == 3


def test_a_budget_that_is_exceeded_is_refused():
    peer, releases = peer_of(X), Releases()
    peer._costs["draw"] = [Cost(epsilon=1.9)] * 3  # a wrong split
    ask(peer, releases, "draw", step=0)
    with pytest.raises((BudgetError, Refused)):
        ask(peer, releases, "draw", step=1)
    assert sum(charge.epsilon for charge in releases.charges) <= 2.0


def test_a_ledger_belongs_to_one_adjacency_and_one_box():
    """Charges of one adjacency mean less under the other one."""
    releases = Releases()
    ask(peer_of(X, adjacency="add-remove"), releases, "describe")
    with pytest.raises(ValueError, match="another adjacency"):
        ask(peer_of(X, adjacency="replace-one"), releases, "describe")


def test_too_many_centres_are_refused():
    with pytest.raises(ValueError, match="3 centres at most"):
        ask(peer_of(X), Releases(), "potential", centers=np.zeros((4, 2)), known=3)


def test_a_ledger_that_could_not_be_saved_is_refused():
    peer, releases = peer_of(X), Releases()
    ask(peer, releases, "describe")
    sent = ask(peer, releases, "ledger")
    ledger_of(sent)
    sent["charges"][0]["scale"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        ledger_of(sent)
