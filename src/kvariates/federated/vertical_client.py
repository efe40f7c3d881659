"""The ClientApp of a party that holds columns (vertical k-means).

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
from numpy.typing import NDArray

from kvariates.data.rows import F64
from kvariates.federated.client import cached
from kvariates.federated.flower_transport import Questions, answering_app, decode_questions
from kvariates.federated.result import write_json
from kvariates.peers.encoding import decode, encode
from kvariates.peers.transport import Failure, Reply
from kvariates.peers.vertical_party import VerticalParty, checked_columns

STATE, SESSION = "kvariates-vertical", "session"
FIRST, LAST = "keys", "finish"  # the questions that start and end a session

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class PartyResult:
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as JSON. The file appears when it is complete."""
        page = {
            "centers": self.centers.tolist(),
            "labels": self.labels.tolist(),
            "fingerprint": self.fingerprint,
        }
        write_json(path, page)


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
    return answering_app(partial(_reply, options))


def _reply(options: PartyOptions, fields: dict[str, Any], context: Context) -> Reply:
    if "envelope" in fields:
        return Failure("it holds columns, not rows: use vertical_server_app")
    try:
        questions = decode_questions(fields.get("questions"))
    except ValueError as error:
        return Failure(str(error))
    # The text of other errors may tell something of the data; it is in the log of the node.
    try:
        loaded = cached(options.key, context, lambda: _loaded(options, context))
    except Exception as error:
        _logger.exception("The columns of this party could not be loaded")
        return Failure(f"its columns could not be loaded ({type(error).__name__})")
    try:
        with loaded.lock:
            return _answer(options, loaded, questions, context)
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
    options: PartyOptions, loaded: LoadedParty, questions: Questions, context: Context
) -> Reply:
    """Answer from the state of the context; the new state is kept if all questions are answered."""
    party = loaded.party
    first = questions.asked[0].question == FIRST
    party.restore(loaded.blank if first else _stored(loaded, questions.number, context))
    for question, arguments in questions.asked:
        answer = party.answer(question, arguments)
    state = party.state()
    if question == LAST:
        _finish(options, party, context)
        state = loaded.blank  # keys of a session that has ended could only open its messages
    kept = {"number": questions.number, "columns": loaded.columns, "party": state}
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


def _stored(loaded: LoadedParty, number: int, context: Context) -> dict[str, Any]:
    """The state of the party after the last message. ValueError unless this is the next one."""
    record = context.state.config_records.get(STATE, ConfigRecord({}))
    stored = record.get(SESSION)
    if not isinstance(stored, bytes):
        raise StateBehind("it has no state of this session")
    kept = decode(stored, max_bytes=len(stored))  # our own: as large as centres are
    if number <= kept["number"]:
        raise ValueError(
            f"message {number} came after message {kept['number']}: each is answered once"
        )
    if number > kept["number"] + 1:
        raise StateBehind(f"it has the state of message {kept['number']} at message {number}")
    if kept["columns"] != loaded.columns:
        raise ValueError(
            "load_columns returned other columns than at the start of the session; load a copy "
            "that does not change during a fit"
        )
    state: dict[str, Any] = kept["party"]
    return state
