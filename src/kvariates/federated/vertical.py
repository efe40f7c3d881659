"""The two apps of vertical k-means: parties that hold columns, and the aggregator.

Flower may run a ClientApp in a new process for each message. All that a party must know for the
next message is kept in the state of Flower's context, which stays at the SuperNode: secret keys,
the number of the last round and of the last message, a digest of the questions, its part of the
centres, and a digest of its columns. Only the columns are loaded again. A message that fails
changes nothing. When the fit is finished, the keys are deleted.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from kvariates import guarantees
from kvariates.data.rows import F64
from kvariates.estimators import validation
from kvariates.estimators.vertical_kmeans import VerticalKMeans
from kvariates.federated.client import cached
from kvariates.federated.flower_transport import (
    SIMULATION_TIMEOUT,
    FlowerTransport,
    SavedResult,
    answering_app,
    check_times,
    fitting_app,
    only,
    run_apps,
    wait_for_nodes,
)
from kvariates.fitting import FitOptions
from kvariates.guarantees import Guarantee
from kvariates.numerics.draws import I64
from kvariates.peers.encoding import VERTICAL_DTYPES, decode, encode
from kvariates.peers.questions import QUESTIONS as QUESTIONS_ABOUT_ROWS
from kvariates.peers.questions import Answer, Envelope
from kvariates.peers.transport import Failure, Reply, Transcript
from kvariates.peers.vertical import Aggregator, VerticalSession
from kvariates.peers.vertical_party import QUESTIONS, VerticalParty, checked_columns


@dataclass(frozen=True, eq=False)
class PartyResult(SavedResult):
    """What a party has in the end.

    Attributes
    ----------
    centers : ndarray of shape (n_clusters, n_columns)
        Its part of the centres.
    labels : ndarray of shape (n_rows,)
    fingerprint : str
        Of the public keys; equal at all parties if the aggregator relayed the same keys to all.
    """

    centers: F64
    labels: NDArray[np.int32]
    fingerprint: str


@dataclass(frozen=True, eq=False)
class VerticalFederatedResult(SavedResult):
    """What the aggregator knows in the end. The centres stay at the parties.

    Attributes
    ----------
    parties : tuple of str
        Their names.
    labels : ndarray of shape (n_rows,)
    inertia : float
        The sum of squared distances to the nearest centre.
    n_iter : int
    converged : bool
    seed_rows : ndarray of shape (n_clusters,)
        The rows that the first centres were.
    guarantee : Guarantee
    transcript : Transcript
        Rounds, bytes, what each side learns, and the fingerprint of the public keys.
    """

    parties: tuple[str, ...]
    labels: NDArray[np.int32]
    inertia: float
    n_iter: int
    converged: bool
    seed_rows: I64
    guarantee: Guarantee
    transcript: Transcript


# -- a party ---------------------------------------------------------------------------------------


STATE, SESSION = "kvariates-vertical", "session"
FIRST, LAST = "keys", "finish"  # the questions that start and end a session

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class PartyOptions:
    """See `vertical_client_app`. `key`: tells apps in one process apart."""

    load_columns: Callable[[Context], Any]
    confirm: Callable[[str], bool] | None
    on_result: Callable[[Context, PartyResult], None] | None
    key: str


@dataclass(frozen=True, eq=False)
class LoadedParty:
    """A party; its state before a session; a digest of its columns.

    The state of the party is set by every message, so it answers one at a time.
    """

    party: VerticalParty
    blank: dict[str, Any]
    columns: bytes
    lock: threading.Lock


def vertical_client_app(
    load_columns: Callable[[Context], Any],
    *,
    confirm: Callable[[str], bool] | None = None,
    on_result: Callable[[Context, PartyResult], None] | None = None,
) -> ClientApp:
    """Make the ClientApp of a party that holds some columns of all rows.

    Parameters
    ----------
    load_columns : callable
        From Flower's context to the columns of this party, of shape (n_rows, n_columns), or to
        (columns, ids). Rows are in the same order at all parties; ids check this. It may be called
        for every message, and must return the same columns each time.
    confirm : callable or None
        Is given the fingerprint of the public keys before anything else is sent, and returns
        whether the other parties see the same. If it does not return True, the fit ends.
    on_result : callable or None
        Called in the end with Flower's context and the `PartyResult`: this party's part of the
        centres, and the labels. ``result.save(path)`` writes a file.

    Returns
    -------
    flwr.clientapp.ClientApp
    """
    options = PartyOptions(load_columns, confirm, on_result, secrets.token_hex(8))
    return answering_app(partial(_reply, options), VERTICAL_DTYPES)


def _reply(options: PartyOptions, envelope: Envelope, context: Context) -> Reply:
    if envelope.question.name in QUESTIONS_ABOUT_ROWS.keys() - QUESTIONS.keys():
        return Failure("it holds columns, not rows: use vertical_server_app")
    # The text of other errors may tell something of the data; it is in the log of the node.
    try:
        loaded = cached(options.key, context, lambda: _loaded(options, context))
    except Exception as error:
        _logger.exception("The columns of this party could not be loaded")
        return Failure(f"its columns could not be loaded ({type(error).__name__})")
    try:
        with loaded.lock:
            return _answer(options, loaded, envelope, context)
    except StateBehind as error:
        return Failure(str(error), log_needed=True)
    except ValueError as error:
        return Failure(str(error))
    except Exception as error:
        _logger.exception("A question could not be answered")
        return Failure(f"{type(error).__name__}; see the log of its SuperNode")


def _loaded(options: PartyOptions, context: Context) -> LoadedParty:
    given = options.load_columns(context)
    X, ids = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    columns = checked_columns(X)
    digest = hashlib.sha256(str(columns.shape).encode())
    digest.update(columns.data)
    party = VerticalParty(columns, ids, confirm=options.confirm)
    return LoadedParty(party, party.state(), digest.digest(), threading.Lock())


def _answer(
    options: PartyOptions, loaded: LoadedParty, envelope: Envelope, context: Context
) -> Answer:
    """Answer from the state of the context; the new state is kept if all questions are answered."""
    party = loaded.party
    first, last = (envelope.question.name == name for name in (FIRST, LAST))
    party.restore(loaded.blank if first else _stored(loaded, envelope.position, context))
    answer = party.answer(envelope)
    state = party.state()
    if last:
        _finish(options, party, context)
        state = loaded.blank  # keys of a session that has ended could only open its messages
    kept = {"messages": envelope.position + 1, "columns": loaded.columns, "party": state}
    context.state[STATE] = ConfigRecord({SESSION: encode(kept)})
    return answer


def _finish(options: PartyOptions, party: VerticalParty, context: Context) -> None:
    if options.on_result is None:
        return
    assert party.labels is not None  # noqa: S101
    try:
        options.on_result(context, PartyResult(party.centers, party.labels, party.fingerprint))
    except ValueError as error:  # its text is not for the aggregator
        raise RuntimeError("on_result failed") from error


class StateBehind(ValueError):  # noqa: N818
    """The context is that of an earlier message: Flower stores it after it sends the answer."""


def _stored(loaded: LoadedParty, position: int, context: Context) -> dict[str, Any]:
    """The state of the party after the last message. ValueError unless this is the next one."""
    record = context.state.config_records.get(STATE, ConfigRecord({}))
    stored = record.get(SESSION)
    if not isinstance(stored, bytes):
        raise StateBehind("it has no state of this session")
    kept = decode(stored, max_bytes=len(stored))  # our own: as large as centres are
    number, messages = position + 1, kept["messages"]
    if number <= messages:
        raise ValueError(f"message {number} came after message {messages}: each is answered once")
    if number > messages + 1:
        raise StateBehind(f"it has the state of message {messages} at message {number}")
    if kept["columns"] != loaded.columns:
        raise ValueError(
            "load_columns returned other columns than at the start of the session; load a copy "
            "that does not change during a fit"
        )
    state: dict[str, Any] = kept["party"]
    return state


# -- the aggregator --------------------------------------------------------------------------------


MOST_BLOCK = 2**25  # bytes; a message may have twice as many


def vertical_server_app(
    n_clusters: int,
    *,
    n_parties: int,
    save_to: str | os.PathLike[str] | None = None,
    on_result: Callable[[VerticalFederatedResult], None] | None = None,
    wait_timeout: float = 60.0,
    timeout: float = 60.0,
    block_bytes: int = MOST_BLOCK,
    **model: Any,
) -> ServerApp:
    """Make the ServerApp that clusters rows whose columns are held by several parties.

    It fails if a party fails: none can be left out, since masks would not cancel.

    Parameters
    ----------
    n_clusters : int
    n_parties : int
        How many nodes must be connected: not fewer, and not more.
    save_to : path or None
        The JSON file of the result.
    on_result : callable or None
        Called with the `VerticalFederatedResult`.
    n_init, max_iter, tol, random_state
        As in `VerticalKMeans`; the same seed gives the same labels.
    block_bytes : int, default 2**25
        Masked matrices are sent in blocks of rows with at most so many bytes; at most 2**25.
    wait_timeout : float, default 60
        How long to wait for the parties.
    timeout : float, default 60
        How long to wait for an answer.

    Returns
    -------
    flwr.serverapp.ServerApp
    """
    if n_parties < 2:
        raise ValueError(
            f"n_parties must be at least 2; got {n_parties!r}: the values of a single party would "
            "not be hidden."
        )
    check_times(timeout=timeout, wait_timeout=wait_timeout)
    if block_bytes > MOST_BLOCK:
        raise ValueError(f"block_bytes must be at most {MOST_BLOCK}; got {block_bytes!r}.")
    checked = VerticalKMeans(n_clusters, block_bytes=block_bytes, **model)
    checked._validate_params()

    def fit(grid: Grid) -> VerticalFederatedResult:
        wait_for_nodes(grid, n_parties, wait_timeout, "parties", "n_parties")
        transport = FlowerTransport(grid, timeout, dtypes=VERTICAL_DTYPES)
        return fit_columns(transport, n_parties, checked)

    return fitting_app(fit, save_to, on_result)


def fit_columns(
    transport: FlowerTransport, n_parties: int, model: VerticalKMeans
) -> VerticalFederatedResult:
    """Cluster the rows of the parties. RuntimeError if there are fewer, or more.

    A party has the name that its node says, or else the number of its node. Parties are in the
    order of their names. Their order does not change the result.
    """
    names = transport.peers()
    if len(names) != n_parties:
        raise RuntimeError(
            f"{len(names)} nodes are connected, but n_parties={n_parties}: {', '.join(names)}. "
            "Stop those that hold no columns of these rows."
        )
    session = VerticalSession(transport, model.block_bytes, names)
    asked = FitOptions(
        int(model.n_clusters), "d2", n_init=int(model.n_init), max_iter=int(model.max_iter),
        tol=float(model.tol),
    )  # fmt: skip
    found = Aggregator(session).fit(asked, validation.generator(model.random_state))
    return VerticalFederatedResult(
        session.names, found.labels, found.inertia, found.n_iter, found.converged, found.centers,
        guarantees.plain_seeding(asked.k, certifiable=False), session.transcript,
    )  # fmt: skip


# -- simulation ------------------------------------------------------------------------------------


def simulate_vertical(
    load_columns: Callable[[Context], Any],
    n_parties: int,
    n_clusters: int,
    *,
    client: dict[str, Any] | None = None,
    n_cpus: int = 2,
    **server: Any,
) -> VerticalFederatedResult:
    """Cluster rows whose columns are held by simulated parties.

    Parameters
    ----------
    load_columns : callable
        From Flower's context to the columns of a party, or to (columns, ids); its number is
        ``context.node_config["partition-id"]``.
    n_parties : int
    n_clusters : int
    client : dict or None
        Parameters of `vertical_client_app`.
    n_cpus : int
        How many processes answer.
    **server
        Parameters of `vertical_server_app`.

    Returns
    -------
    VerticalFederatedResult
    """
    results: list[VerticalFederatedResult] = []
    server = {"timeout": SIMULATION_TIMEOUT, **server}
    aggregator = vertical_server_app(
        n_clusters, n_parties=n_parties, on_result=results.append, **server
    )
    parties = vertical_client_app(load_columns, **(client or {}))
    run_apps(aggregator, parties, n_parties, n_cpus)
    return only(results)
