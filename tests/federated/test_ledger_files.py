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

import pytest
from federated.fake_grid import BOX, Node, ask, blobs, ledgers

from kvariates.federated import Private, client, client_app
from kvariates.peers.transport import Failure

CLUSTERS, REQUESTS = 2, 24
X = blobs(300)


def node_of(ledger, partition=0, **options):
    private = Private(1.0, CLUSTERS, ledger=ledger, **options)
    return Node(client_app(lambda _: X, bounds=BOX, private=private), partition)


def rows_drawn(replies):
    """How many different rows were sent, and how many requests were refused."""
    sent = [reply for reply in replies if not isinstance(reply, Failure)]
    return len({reply["points"].tobytes() for reply in sent}), len(replies) - len(sent)


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
