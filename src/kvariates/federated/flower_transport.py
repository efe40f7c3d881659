"""Flower as a transport: a peer is a node that is connected to the SuperLink; and what all apps do.

A Flower message is one record of bytes: an envelope or its reply.
"""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from kvariates.file_writing import write_aside
from kvariates.guarantees import Guarantee
from kvariates.peers.encoding import (
    DTYPES,
    MAX_BYTES,
    decode_envelope,
    decode_reply,
    encode_envelope,
    encode_reply,
)
from kvariates.peers.questions import Envelope
from kvariates.peers.transport import Failure, Reply, Transcript
from kvariates.privacy.ledger import Ledger

# -- messages --------------------------------------------------------------------------------------


ACTION = "kvariates"
MESSAGE_TYPE = f"query.{ACTION}"
RECORD = "kvariates"


def record_of(message: Message) -> dict[str, Any]:
    """The fields of a message; empty if it is not one of ours."""
    if not message.has_content() or RECORD not in message.content.config_records:
        return {}
    return dict(message.content.config_records[RECORD])


def content_of(**fields: str | bytes) -> RecordDict:
    """The content of a message."""
    return RecordDict({RECORD: ConfigRecord(dict(fields))})


def answering_app(
    reply: Callable[[Envelope, Context], Reply], dtypes: frozenset[str] = DTYPES
) -> ClientApp:
    """The ClientApp that answers a greeting by its name, and envelopes by `reply`.

    `dtypes`: of the arrays in an envelope.
    """
    app = ClientApp()

    @app.query(ACTION)
    def answer(message: Message, context: Context) -> Message:
        fields = record_of(message)
        if "greeting" in fields:
            return Message(content_of(name=node_name(context)), reply_to=message)
        data = fields.get("envelope")
        try:
            envelope = decode_envelope(data if isinstance(data, bytes) else b"", dtypes=dtypes)
        except ValueError as error:
            found: Reply = Failure(str(error))
        else:
            found = reply(envelope, context)
        return Message(content_of(reply=encode_reply(found)), reply_to=message)

    return app


def node_name(context: Context) -> str:
    """What the operator of the node calls it; "" if nothing."""
    config = context.node_config
    return str(config.get("name", config.get("partition-id", "")))


# -- the transport ---------------------------------------------------------------------------------


FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5  # seconds between two looks for replies
LONGEST_NAME = 60
GREETING = "greeting"


class FlowerTransport:
    """Asks the nodes of a Flower grid.

    `timeout`: how long to wait for an answer; a message that was not answered is not valid any
    more. `max_bytes`, `dtypes`: a longer answer, or one with other arrays, is a failure.

    Nodes say a name when they are met; without one it is the number of the node. Those that are met
    at the same time are in the order of their names, so that a run can be repeated: the numbers of
    Flower's nodes are random.
    """

    def __init__(
        self,
        grid: Grid,
        timeout: float = 60.0,
        max_bytes: int = MAX_BYTES,
        dtypes: frozenset[str] = DTYPES,
    ) -> None:
        self._grid, self._timeout = grid, timeout
        self._max_bytes, self._dtypes = max_bytes, dtypes
        self._nodes: dict[str, int] = {}
        self._silent: dict[str, Failure] = {}  # nodes that did not say their name

    def peers(self) -> list[str]:
        connected = set(self._grid.get_node_ids())
        self._meet(connected - set(self._nodes.values()))
        return [name for name, node in self._nodes.items() if node in connected]

    def send(self, envelopes: Mapping[str, Envelope]) -> dict[str, Reply]:
        answered = self._exchange(
            {
                self._nodes[name]: content_of(envelope=encode_envelope(envelope))
                for name, envelope in envelopes.items()
                if name not in self._silent
            }
        )
        return {
            name: self._reply(self._silent.get(name) or answered[self._nodes[name]])
            for name in envelopes
        }

    def end(self) -> None:
        """Do nothing: a node does nothing between two messages."""

    def _reply(self, fields: dict[str, Any] | Failure) -> Reply:
        if isinstance(fields, Failure):
            return fields
        data = fields.get("reply")
        if not isinstance(data, bytes):
            return Failure("its message has no reply")
        return decode_reply(data, self._max_bytes, self._dtypes)

    def _meet(self, nodes: Iterable[int]) -> None:
        """Ask new nodes for their names."""
        if not (new := sorted(nodes)):
            return
        said = self._exchange({node: content_of(greeting=GREETING) for node in new})
        names = {node: _name(node, said[node]) for node in new}
        for node in sorted(new, key=lambda node: (*_order(names[node]), node)):
            name = names[node]
            if name in self._nodes:
                name = f"{name} ({node})"  # a name belongs to the node that said it first
            self._nodes[name] = node
            if isinstance(failure := said[node], Failure):
                self._silent[name] = failure

    def _exchange(self, contents: Mapping[int, RecordDict]) -> dict[int, dict[str, Any] | Failure]:
        """Send a message to each node, and wait for the replies."""
        if not contents:
            return {}
        messages = [
            Message(content, node, MESSAGE_TYPE, ttl=self._timeout)
            for node, content in contents.items()
        ]
        nodes = [message.metadata.dst_node_id for message in messages]
        self._grid.push_messages(messages)
        waiting = {m.metadata.message_id: node for m, node in zip(messages, nodes, strict=True)}
        late = Failure(f"no answer within {self._timeout:g} s")
        found: dict[int, dict[str, Any] | Failure] = dict.fromkeys(contents, late)
        end, pause = time.monotonic() + self._timeout, FIRST_PAUSE
        while waiting and time.monotonic() < end:
            for reply in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:
                    found[node] = _fields(reply)
            if waiting:
                time.sleep(min(pause, max(0.0, end - time.monotonic())))
                pause = min(2 * pause, LONGEST_PAUSE)
        return found


def wait_for_nodes(grid: Grid, count: int, seconds: float, kind: str, parameter: str) -> None:
    """Wait until so many nodes are connected. RuntimeError if they do not come."""
    end = time.monotonic() + seconds
    while (found := len(list(grid.get_node_ids()))) < count:
        if time.monotonic() > end:
            raise RuntimeError(
                f"{found} of {count} {kind} were connected after {seconds:g} s; start their "
                f"SuperNodes, or lower {parameter}."
            )
        time.sleep(0.1)


def _fields(reply: Message) -> dict[str, Any] | Failure:
    if reply.has_error():
        reason = " ".join((reply.error.reason or "no reason given").split())
        return Failure(f"Flower's error {reply.error.code}: {reason[:200]}")
    return record_of(reply)


def _name(node: int, said: dict[str, Any] | Failure) -> str:
    name = "" if isinstance(said, Failure) else said.get("name", "")
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
        return str(node)
    return name


def _order(name: str) -> tuple[int, str]:
    """Numbers by size, before other names."""
    return (int(name), "") if name.isdecimal() and name.isascii() else (2**64, name)


# -- results, servers and simulations --------------------------------------------------------------


SIMULATION_TIMEOUT = 600.0  # the first answer waits until Ray has started


class SavedResult:
    """Base of the results, which are dataclasses."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as JSON. The file appears when it is complete."""
        text = json.dumps(self._page(), indent=2, allow_nan=False)
        write_aside(Path(path), f"{text}\n".encode())

    def _page(self) -> dict[str, Any]:
        return {name: _plain(value) for name, value in vars(self).items()}


def _plain(value: Any) -> Any:
    """What JSON can hold."""
    match value:
        case np.ndarray():
            return value.tolist()
        case Guarantee():
            return str(value)
        case Transcript():
            return value.as_page()
        case Ledger():
            charges = [asdict(charge) for charge in value.charges]
            claim, total = value.claim._asdict(), value.total()._asdict()
            page = {"adjacency": value.adjacency, "claim": claim, "total": total}
            return {**page, "charges": charges}
        case dict():
            return {name: _plain(one) for name, one in value.items()}
    return value


Result = TypeVar("Result", bound=SavedResult)


def fitting_app(
    fit: Callable[[Grid], Result],
    save_to: str | os.PathLike[str] | None,
    on_result: Callable[[Result], None] | None,
) -> ServerApp:
    """The ServerApp that makes a fit, saves its result and hands it over."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, _: Context) -> None:
        result = fit(grid)
        if save_to is not None:
            result.save(save_to)
        if on_result is not None:
            on_result(result)

    return app


def check_times(**seconds: float) -> None:
    """ValueError unless they are above 0."""
    for name, value in seconds.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be a number > 0; got {value!r}.")


def run_apps(server: ServerApp, clients: ClientApp, count: int, n_cpus: int) -> None:
    """Run both apps by Flower's simulation engine, with so many nodes and processes."""
    from flwr.simulation import run_simulation

    backend = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": n_cpus, "num_gpus": 0, "include_dashboard": False},
    }
    with warnings.catch_warnings():
        # Flower prefers `flwr run`; its engine can be called from Python in no other way.
        warnings.simplefilter("ignore", DeprecationWarning)
        run_simulation(server, clients, count, backend_config=backend)  # type: ignore[arg-type]


def only(results: list[Result]) -> Result:
    """The result of a simulation."""
    if not results:
        raise RuntimeError("The simulation ended without a result; see Flower's log above.")
    return results[0]
