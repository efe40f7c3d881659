"""A private peer keeps its budget in a file: a hostile server gets no more than epsilon.

The server asks many questions at once, and the node forgets all but the file: it answers from
copies of one state, restarts, and is killed before its state is kept.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from api import MAX_BYTES, Failure, Releases, encode
from api import client_module as client
from federated.fake_grid import BOX, Node, ask, blobs, ledgers

from kvariates.federated import Private, client_app

CLUSTERS, REQUESTS = 2, 24
X = blobs(300)


def node_of(ledger, partition=0, **options):
    private = Private(1.0, CLUSTERS, ledger=ledger, **options)
    return Node(client_app(lambda _: X, bounds=BOX, private=private), partition)


def rows_drawn(replies):
    """How many rows were sent, and how many requests were refused. Noise may give equal rows."""
    sent = [len(reply["points"]) for reply in replies if not isinstance(reply, Failure)]
    return sum(sent), len(replies) - len(sent)


def spent(ledger):
    """What a node that has just started says that it has spent."""
    client._cached.clear()
    return sum(charge["epsilon"] for charge in ask(node_of(ledger), "ledger")["charges"])


@pytest.mark.parametrize("given", [{}, {"ledger": None}, {"ledger": "ledger"}])
def test_a_private_peer_needs_the_absolute_path_of_a_ledger_file(given):
    with pytest.raises(ValueError, match=r"^Private.* ledger.*\.$"):
        Private(1.0, CLUSTERS, **given)


def test_copies_of_one_state_share_one_budget(tmp_path):
    """24 requests at once, each answered from a copy of the first state that is not kept."""
    ledger = tmp_path / "ledger"
    nodes = [deepcopy(node_of(ledger).context) for _ in range(REQUESTS)]

    def request(number):
        client._cached.clear()
        node = node_of(ledger)
        node.context = nodes[number]
        return ask(node, "draw", fit=number, step=0)

    with ThreadPoolExecutor(REQUESTS) as pool:
        replies = list(pool.map(request, range(REQUESTS)))
    assert rows_drawn(replies) == (CLUSTERS, REQUESTS - CLUSTERS)
    assert spent(ledger) <= 1.0


def test_processes_share_one_budget_and_a_killed_one_does_not_give_it_back(tmp_path):
    """Each process has a new state, and ends without keeping it right after its answer."""
    ledger = tmp_path / "ledger"
    here = Path(__file__)
    code = (
        "import os, sys; from federated.test_ledger_files import *; "
        "from flwr.supercore.task_identity import TaskIdentity as T; "
        "T._task_id = T._run_id = T._node_id = 1; "
        f"node = node_of({str(ledger)!r}); first = int(sys.argv[1]); "
        "got = [ask(node, 'draw', fit=first + i, step=0) for i in range(8)]; "
        "print(*rows_drawn(got), flush=True); os._exit(9)"
    )
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(8 * i)], stdout=subprocess.PIPE,
            cwd=here.parents[1], env={"PYTHONPATH": str(here.parents[1])},
        )
        for i in range(3)
    ]  # fmt: skip
    counts = [list(map(int, process.communicate(timeout=60)[0].split())) for process in begun]
    assert [sum(of) for of in zip(*counts, strict=True)] == [CLUSTERS, REQUESTS - CLUSTERS]
    assert spent(ledger) <= 1.0


def test_nothing_leaves_before_the_ledger_is_on_the_disk(tmp_path, monkeypatch):
    node = node_of(tmp_path / "ledger")
    ask(node, "describe")
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", Mock(side_effect=OSError("the disk is full")))
        assert isinstance(ask(node, "draw", step=0), Failure)
    charges = ask(node, "ledger")["charges"]
    assert [charge["label"] for charge in charges] == ["number of rows"]


def test_two_peers_cannot_use_one_file(tmp_path):
    """They would give each other's answers."""
    ledger = tmp_path / "ledger"
    ask(node_of(ledger), "describe")
    refused = ask(node_of(ledger, partition=1), "describe")
    assert "begun by another node" in refused.reason
    for i in range(2):
        assert ask(node_of(ledgers(tmp_path), partition=i), "describe")["n"] > 0
    assert len(list(tmp_path.glob("ledger-?"))) == 2


def test_a_link_to_the_ledger_stays_a_link(tmp_path):
    """As of a container whose own files are lost: what the link names is what is kept."""
    kept, link = tmp_path / "kept", tmp_path / "link"
    link.symlink_to(kept)
    replies = [ask(node_of(link), "draw", fit=fit, step=0) for fit in range(CLUSTERS)]
    assert rows_drawn(replies) == (CLUSTERS, 0)
    assert link.is_symlink()
    for ledger in (kept, link):
        client._cached.clear()
        assert "and no more" in ask(node_of(ledger), "draw", fit=9, step=0).reason


@pytest.mark.parametrize("written", [b"", b"{}", encode({}), encode({"answers": {}})], ids=repr)
def test_a_damaged_ledger_is_no_new_budget(tmp_path, written):
    ledger = tmp_path / "ledger"
    ask(node_of(ledger), "draw", step=0)
    ledger.write_bytes(written)
    for name, arguments in (("describe", {}), ("draw", {"step": 0}), ("ledger", {})):
        refused = ask(node_of(ledger), name, **arguments).reason
        assert (
            refused == "ValueError: its ledger cannot be read, so it answers nothing; see its log"
        )
    assert ledger.read_bytes() == written


def test_a_ledger_may_be_larger_than_a_message(tmp_path):
    """Sums of many columns and steps add up; a stranger may not send as much."""
    path, large = tmp_path / "ledger", np.zeros(MAX_BYTES // 8 + 1)
    Releases(path, "0").add("fit 1: statistics 0 at 0", {"sums": large}, [])
    assert Releases(path, "0").answers["fit 1: statistics 0 at 0"]["sums"].shape == large.shape


def test_other_runs_and_other_settings_share_one_budget(tmp_path):
    """An operator may change what epsilon is for, and a server the run: what was spent stays."""
    ledger, private = tmp_path / "ledger", [(1.0, 2, 0), (1.0, 5, 3), (0.5, 3, 1), (1.0, 3, 5)]
    centers = np.array([[1.0, 2.0], [3.0, 4.0]])
    for run, (epsilon, clusters, steps) in enumerate(private):
        client._cached.clear()
        options = Private(epsilon, clusters, steps, ledger=ledger)
        node = Node(client_app(lambda _: X, bounds=BOX, private=options), 0)
        node.context.run_id = run
        for step in range(6):
            ask(node, "describe", fit=run)
            ask(node, "draw", fit=run, step=step)
            ask(node, "potential", fit=run, centers=centers + step, known=1)
            ask(node, "noisy_statistics", fit=run, centers=centers, step=step)
        assert spent(ledger) <= 1.0 + 1e-12
