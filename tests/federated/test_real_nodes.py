"""Flower's simulation, and real SuperLink and SuperNode processes: the same bits as local peers.

A SuperNode starts a process for each message, so that a fit takes minutes on a busy machine: `make
federated` runs it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from api import (
    FEDERATED,
    HostData,
    Peer,
    Rows,
    fit,
    run_apps,
    server_options,
    simulate,
    simulate_vertical,
)
from federated import hostile_server
from flwr.serverapp import ServerApp
from peers.local_transport import LocalTransport

from kvariates import VerticalKMeans
from kvariates.federated import Private, client_app

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "federated_example"
VERTICAL_EXAMPLE = ROOT / "docs" / "vertical_example"
BIN = Path(sys.executable).parent
START = [[30.0, 110.0], [70.0, 150.0]]
BOX = ([0.0, 80.0], [100.0, 200.0])


def patients(number):
    """As the example's `load_data`."""
    rng = np.random.default_rng(number)
    groups = np.array([[25.0, 110.0], [50.0, 130.0], [75.0, 160.0]])
    chosen = rng.choice(3, size=200, p=rng.dirichlet([2.0, 2.0, 2.0]))
    return groups[chosen] + rng.normal(scale=5.0, size=(200, 2))


def here(n_peers, k, **options):
    rows = [np.clip(patients(i), *BOX) for i in range(n_peers)]
    peers = {str(i): Peer(HostData(Rows.of(part), None), 0).answer for i, part in enumerate(rows)}
    return fit(LocalTransport(peers), server_options(k, bounds=BOX, random_state=0, **options))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's
def test_the_simulation_with_secure_sums_gives_the_bits_of_local_peers(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, sys.path)))
    found = simulate(
        lambda context: patients(int(context.node_config["partition-id"])),
        3, 2, bounds=BOX, max_iter=2, random_state=0, n_cpus=1, secure_sums=True,
        init="dk-means++", client={"clip": True, "policy": FEDERATED},
    )  # fmt: skip
    expected = here(3, 2, max_iter=2)
    assert found.centers.tobytes() == expected.centers.tobytes()
    assert found.inertia == expected.inertia
    assert not found.transcript.dropped
    assert len(found.transcript.fingerprints) == 1


@contextmanager
def running(name, *arguments, env, log):
    with log.open("w") as file:
        process = subprocess.Popen([BIN / name, *arguments], env=env, stdout=file, stderr=file)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def free_ports(count):
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_until(done, seconds, words):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, words()
        time.sleep(0.5)


@contextmanager
def started(tmp_path, project, node_configs):
    """A SuperLink and SuperNodes: the process of the link, and a function that starts the app."""
    app, home = tmp_path / "app", tmp_path / "home"
    shutil.copytree(project, app)
    home.mkdir()
    link_port, *node_ports = free_ports(1 + len(node_configs))
    link = f"127.0.0.1:{link_port}"
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{link}"\ninsecure = true\n'
    )
    env = {
        **os.environ, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0",
        # `tests`: a server of these tests imports `api`.
        "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests")),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    with ExitStack() as stack:
        start = lambda *command, log: stack.enter_context(  # noqa: E731
            running(*command, env=env, log=tmp_path / log)
        )
        superlink = start(
            "flower-superlink", "--insecure", "--disable-runtime-dependency-installation",
            "--port", str(link_port), log="link.log",
        )  # fmt: skip
        for i, (port, config) in enumerate(zip(node_ports, node_configs, strict=True)):
            start(
                "flower-supernode", "--insecure", "--superlink", link, "--port", str(port),
                "--max-wait-time", "20", "--node-config", config, log=f"node{i}.log",
            )  # fmt: skip
        nodes = [tmp_path / f"node{i}.log" for i in range(len(node_configs))]
        wait_until(
            lambda: all("SuperNode ID" in node.read_text() for node in nodes),
            120, lambda: words(tmp_path),
        )  # fmt: skip

        def run(options):
            command = [BIN / "flwr", "run", str(app), "here", "-c", options]
            subprocess.run(command, env=env, check=True, timeout=120)

        yield superlink, run


def logs_of(tmp_path):
    return sorted(tmp_path.glob("node*.log"))


def words(tmp_path):
    return "\n".join(p.read_text()[-2000:] for p in tmp_path.glob("*.log"))


@pytest.mark.hostile
def test_real_nodes_give_the_same_bits_and_stop_without_a_superlink(tmp_path):
    result, says = tmp_path / "result.json", lambda: words(tmp_path)
    with started(tmp_path, EXAMPLE, ["partition-id=0", "partition-id=1"]) as (superlink, run):
        run(f'save-to="{result}" n-clusters=2 steps=1 timeout=300.0')
        wait_until(result.exists, 900, says)
        page, expected = json.loads(result.read_text()), here(2, 2, max_iter=1)
        assert page["transcript"]["dropped"] == []
        assert page["centers"] == expected.centers.tolist()
        assert page["inertia"] == expected.inertia
        superlink.kill()
        killed = time.monotonic()
        # The process of a SuperNode of Flower 1.41 stays, but starts no ClientApp any more.
        logs = [tmp_path / f"node{i}.log" for i in range(2)]
        gave_up = lambda: all("Giving up" in log.read_text() for log in logs)  # noqa: E731
        wait_until(gave_up, 120, says)
        print(f"SuperNodes gave up {time.monotonic() - killed:.0f} s after the SuperLink")


def with_secure_sums(folder):
    """A copy of the example whose nodes and server add up masked sums."""
    shutil.copytree(EXAMPLE, folder)
    for file, before, after in (
        ("client.py", "clip=True,", "clip=True, secure_sums=True,"),
        ("server.py", "bounds=BOUNDS,", f"bounds=BOUNDS, init={START}, secure_sums=True,"),
    ):
        path = folder / "hospitals" / file
        text = path.read_text()
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))
    return folder


@pytest.mark.hostile
def test_real_nodes_with_secure_sums_give_the_same_bits(tmp_path):
    result, project = tmp_path / "result.json", with_secure_sums(tmp_path / "example")
    with started(tmp_path, project, [f"partition-id={i}" for i in range(3)]) as (_, run):
        run(f'save-to="{result}" n-clusters=2 steps=2 peers=3 timeout=300.0')
        wait_until(result.exists, 900, lambda: words(tmp_path))
    page, expected = json.loads(result.read_text()), here(3, 2, max_iter=2, init=START)
    assert page["transcript"]["dropped"] == []
    assert page["centers"] == expected.centers.tolist()
    assert page["inertia"] == expected.inertia
    said = [re.findall(r"the fingerprint is (.*)", log.read_text()) for log in logs_of(tmp_path)]
    assert len(said) == 3
    assert all(one == page["transcript"]["fingerprints"] for one in said)


# ---- a private peer and a server that asks for too much ----


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's
def test_a_simulated_private_node_that_is_asked_at_once_keeps_to_its_budget(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, sys.path)))
    private = Private(1.0, 2, ledger=tmp_path / "ledger")
    node = client_app(lambda _: patients(0), bounds=BOX, private=private)
    server, counts = ServerApp(), Counter()
    server.main()(lambda grid, _: counts.update(hostile_server.ask_at_once(grid)))
    run_apps(server, node, 1, 2)
    assert counts.pop("row") == 2
    assert sum(counts.values()) == hostile_server.REQUESTS - 2
    assert all("and no more" in refusal for refusal in counts)


def with_hostile_server(folder, ledger):
    """A copy of the example with a private node, and a server that asks for many rows at once."""
    shutil.copytree(EXAMPLE, folder)
    shutil.copy(hostile_server.__file__, folder / "hospitals" / "server.py")
    path = folder / "hospitals" / "client.py"
    budget = f"Private(1.0, 2, ledger={str(ledger)!r})"
    path.write_text(
        f"{path.read_text()}\n\nfrom kvariates.federated import Private\n\n"
        f"app = client_app(load_data, bounds=BOUNDS, private={budget})\n"
    )
    return folder


@pytest.mark.hostile
def test_a_real_private_node_keeps_to_its_budget_over_runs_and_restarts(tmp_path):
    project = with_hostile_server(tmp_path / "example", tmp_path / "ledger")
    counts = Counter()
    for start in range(2):
        here = tmp_path / str(start)
        here.mkdir()
        with started(here, project, ["partition-id=0"]) as (_, run):
            for number in range(2):
                result = here / f"{number}.json"
                run(f'save-to="{result}" peers=6 seed={100 * start + 10 * number}')
                wait_until(result.exists, 900, lambda: words(here))  # noqa: B023
                counts.update(json.loads(result.read_text()))
    assert counts.pop("row") == 2
    assert sum(counts.values()) == 4 * 6 - 2
    assert all("and no more" in refusal for refusal in counts)


# ---- parties that hold columns ----


def columns(number):
    """As the `load_columns` of the example."""
    group = np.random.default_rng(0).integers(3, size=(600, 1))
    if number == 0:
        return np.random.default_rng(1).normal(size=(600, 2)) + 4 * group
    return np.random.default_rng(2).normal(size=(600, 3)) - 5 * group


def together(k, **options):
    return VerticalKMeans(k, random_state=0, **options).fit([columns(0), columns(1)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's
def test_the_simulation_of_parties_with_columns_gives_the_same_bits(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, sys.path)))
    found = simulate_vertical(
        lambda context: columns(int(context.node_config["partition-id"])),
        2, 2, max_iter=2, random_state=0, n_cpus=1,
    )  # fmt: skip
    expected = together(2, max_iter=2)
    assert np.array_equal(found.labels, expected.labels_)
    assert (found.inertia, found.n_iter) == (expected.inertia_, expected.n_iter_)
    assert found.parties == ("0", "1")


@pytest.mark.hostile
def test_real_parties_with_columns_give_the_same_bits(tmp_path):
    result, files = tmp_path / "result.json", [tmp_path / f"{i}.json" for i in range(2)]
    names = ["hospital", "insurer"]
    configs = [f'name="{n}" save-to="{f}"' for n, f in zip(names, files, strict=True)]
    with started(tmp_path, VERTICAL_EXAMPLE, configs) as (_, run):
        begin = time.monotonic()
        run(f'save-to="{result}" n-clusters=2 max-iter=2 timeout=300.0')
        wait_until(result.exists, 900, lambda: words(tmp_path))
    page, expected = json.loads(result.read_text()), together(2, max_iter=2)
    print(f"{page['transcript']['rounds']} rounds in {time.monotonic() - begin:.0f} s")
    assert page["labels"] == expected.labels_.tolist()
    assert (page["inertia"], page["n_iter"]) == (expected.inertia_, expected.n_iter_)
    assert page["parties"] == names
    for file, centers in zip(files, expected.cluster_centers_, strict=True):
        assert json.loads(file.read_text())["centers"] == centers.tolist()
