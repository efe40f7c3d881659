"""The ClientApp: it holds a peer and answers the questions of the coordinator.

Flower may run a ClientApp in a new process for each message. Data and the state of a fit are kept
if the process lives on; else data are loaded and the state is computed again (`LogNeeded`). What
must not be forgotten is kept in the state of Flower's context: the number of rows shown, and the
keys of secure sums. The releases of a private peer are in a file: a node that answers several
messages at once gives each process a copy of the state.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from flwr.app import ConfigRecord, Context
from flwr.clientapp import ClientApp
from numpy.typing import ArrayLike, NDArray

from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Rows
from kvariates.estimators.private_input import missing_as_nan, without_missing
from kvariates.federated.flower_transport import answering_app, node_name
from kvariates.federated.private_fit import SummingPeer
from kvariates.federated.private_peer import Private, PrivatePeer, Releases, locked
from kvariates.peers.bounds import PublicBounds
from kvariates.peers.masked_peer import GROUP_QUESTIONS, MaskedPeer
from kvariates.peers.questions import QUESTIONS, Answer, Envelope, Peer, Policy
from kvariates.peers.transport import Failure, Reply, reply_of

CACHED = 32  # peers whose data a process keeps; a simulation has many peers in a process
STATE = "kvariates"
CENTRAL = "central"
FEDERATED = Policy(
    frozenset({"describe", "potential", "draw", "spread", "assign", "evaluate", "column_sums"})
)

AnyPeer = Peer | MaskedPeer | PrivatePeer | SummingPeer

_cached: OrderedDict[tuple[str, int, int], Any] = OrderedDict()
_cache_lock = threading.Lock()
_one_at_a_time = threading.Lock()  # what is kept is read, checked and written in one step
_logger = logging.getLogger(__name__)
_flower_logger = logging.getLogger("flwr")  # a SuperNode prints it


@dataclass(frozen=True, eq=False)
class ClientOptions:
    """See `client_app`. `key`: tells apps in one process apart."""

    load_data: Callable[[Context], Any]
    bounds: PublicBounds | None
    policy: Policy
    private: Private | Literal["central"] | None
    max_points: int
    clip: bool
    seed: int
    key: str
    max_groups: int | None  # None: without secure sums
    confirm: Callable[[str], bool] | None


def client_app(
    load_data: Callable[[Context], Any],
    *,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    policy: Policy | None = None,
    private: Private | Literal["central"] | None = None,
    max_points: int = 20,
    clip: bool = False,
    random_state: int | None = None,
    secure_sums: bool = False,
    max_groups: int = 3,
    confirm: Callable[[str], bool] | None = None,
) -> ClientApp:
    """Make the ClientApp of a peer that keeps its rows, but for those that it draws as centres.

    Dk-means++, the seeding of `server_app` by default, asks all peers together for k rows. Greedy
    k-means++, with which `KMeans` begins, would need 2 + ln k for each centre, and peers refuse it.

    Parameters
    ----------
    load_data : callable
        From Flower's context to X, or to (X, sample_weight). It may be called for every message.
    bounds : (low, high) or None
        The public bounds of each feature. Rows outside them are an error, unless `clip`.
    policy : Policy or None
        Which questions are answered in the open. None: those of Dk-means++, Lloyd and the cost
        (`FEDERATED`); with `secure_sums` only the description (numbers of rows and features,
        weight, magnitudes).
    private : Private, "central" or None
        A budget: answers get noise. "central": only exact sums are sent, and the coordinator, which
        must be trusted, adds noise to their total. With any of these `policy` is not used, and
        rows are always clipped to `bounds`.
    max_points : int
        The most rows that this peer shows in a run of Flower. If it is asked for more it refuses,
        and is dropped; so give at least the number of clusters.
    clip : bool
        Whether rows are moved into the bounds.
    random_state : int or None
        Seed of the rows that are drawn. None: it cannot be repeated. Noise has no seed.
    secure_sums : bool
        Whether sums and costs are sent only behind masks, which cancel in the total of a group of
        at least 3 peers. The coordinator needs ``server_app(secure_sums=True)``.
    max_groups : int
        How many groups this peer joins in a run of Flower. A group is needed at the start of a fit,
        and whenever a peer is dropped.
    confirm : callable or None
        With `secure_sums`: is given the fingerprint of a group's public keys before a sum is sent,
        and returns whether the other peers see the same. If it does not return True, this peer
        refuses the group, and is dropped.

    Returns
    -------
    flwr.clientapp.ClientApp
    """
    limits = None if bounds is None else checked_bounds(bounds)
    if limits is None and (clip or private is not None):
        raise ValueError("clip and private need public bounds: bounds=(low, high).")
    if not (private is None or private == CENTRAL or isinstance(private, Private)):
        raise ValueError(f"private must be a Private, 'central' or None; got {private!r}.")
    if secure_sums and private is not None:
        raise ValueError("secure_sums does not work with private: choose one.")
    if confirm is not None and not secure_sums:
        raise ValueError("confirm needs secure_sums=True: without it there are no keys to compare.")
    for name, value, least in (("max_points", max_points, 0), ("max_groups", max_groups, 1)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}; got {value!r}.")
    usual = Policy(frozenset({"describe"})) if secure_sums else FEDERATED
    allowed = usual if policy is None else policy
    seed = secrets.randbits(63) if random_state is None else int(random_state)
    options = ClientOptions(
        load_data, limits, allowed, private, max_points, clip, seed, secrets.token_hex(8),
        max_groups if secure_sums else None, confirm,
    )  # fmt: skip
    return answering_app(partial(_reply, options))


def _reply(options: ClientOptions, envelope: Envelope, context: Context) -> Reply:
    with _one_at_a_time:  # here, as a simulation pickles the app with all that it names
        try:
            peer = cached(options.key, context, lambda: _loaded(options, context))
        except Exception as error:
            _logger.exception("The data of this peer could not be loaded")
            # The text of the error may tell something of the data.
            return Failure(f"its data could not be loaded ({type(error).__name__})")
        return reply_of(lambda asked: _answer(peer, asked, options.max_points, context), envelope)


def _answer(peer: AnyPeer, envelope: Envelope, max_points: int, context: Context) -> Answer:
    """ValueError if the question is refused, or if too many rows were shown in this run."""
    name = envelope.question.name
    if isinstance(peer, MaskedPeer):
        answer = peer.answer(envelope, _state(context))
        if name == "group":
            _flower_logger.info("Secure sums: the fingerprint is %s", answer["fingerprint"])
    elif name in GROUP_QUESTIONS:
        raise ValueError("this peer has no secure sums; use client_app(secure_sums=True)")
    elif isinstance(peer, PrivatePeer):
        path = peer.private.ledger_file(context)
        with locked(path):  # another process must not spend the same budget
            return peer.answer(envelope, Releases(path, node_name(context)))
    else:
        answer = peer.answer(envelope)
    rule = QUESTIONS.get(name)
    if rule is not None and rule.points:
        shown = int(_state(context).get("shown", 0)) + len(answer[rule.points])  # type: ignore[arg-type]
        if shown > max_points:
            raise ValueError(f"{max_points} rows may be shown in a run, and no more")
        _state(context)["shown"] = shown
    return answer


def cached(key: str, context: Context, load: Callable[[], Any]) -> Any:
    """What this process has loaded for an app, a run and a node; if it has not, it is loaded."""
    place = (key, context.run_id, context.node_id)
    with _cache_lock:
        if place not in _cached:
            _cached[place] = load()
            while len(_cached) > CACHED:
                _cached.popitem(last=False)
        _cached.move_to_end(place)
        return _cached[place]


def _loaded(options: ClientOptions, context: Context) -> AnyPeer:
    bounds, private = options.bounds, options.private
    data = checked_data(options.load_data(context), finite=private is None)
    if private is not None:
        assert bounds is not None  # noqa: S101
        if data.weight is not None:
            raise ValueError("a private peer cannot use sample_weight")
        # Rows with NaN or infinity are left out one by one: an error would disclose a row.
        center, rows = (bounds.low + bounds.high) / 2, data.X.astype(np.float64, copy=False)
        if isinstance(private, Private):
            return PrivatePeer(without_missing(rows, private.adjacency, center), bounds, private)
        return SummingPeer(without_missing(rows, "add-remove", center), bounds)
    X = data.X if bounds is None else clipped(data.X, bounds, clip=options.clip)
    held = HostData(Rows.of(X), data.weight)
    if options.max_groups is not None:
        return MaskedPeer(held, options.seed, options.policy, options.max_groups, options.confirm)
    return Peer(held, options.seed, options.policy)


def _state(context: Context) -> ConfigRecord:
    if STATE not in context.state.config_records:
        context.state[STATE] = ConfigRecord({})
    return context.state.config_records[STATE]


# -- checks of what a user gives -------------------------------------------------------------------


def checked_bounds(
    bounds: tuple[ArrayLike, ArrayLike], max_rows: float | None = None
) -> PublicBounds:
    """Bounds of every feature. ValueError if they are not finite numbers with low < high."""
    try:
        low, high = (np.array(side, dtype=np.float64) for side in bounds)
    except (TypeError, ValueError):
        raise ValueError("bounds must be (low, high), one number for each feature.") from None
    if low.ndim != 1 or low.shape != high.shape or not len(low):
        raise ValueError(
            f"bounds must be (low, high), one number for each feature; their shapes are "
            f"{low.shape} and {high.shape}."
        )
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError("bounds must be finite, and low below high for each feature.")
    most = math.inf if max_rows is None else float(max_rows)
    if not most >= 1:
        raise ValueError(f"max_rows must be at least 1; got {max_rows!r}.")
    return PublicBounds(low, high, most)


class PeerData(NamedTuple):
    X: NDArray[np.floating[Any]]
    weight: F64 | None


def checked_data(loaded: Any, *, finite: bool) -> PeerData:
    """X and its weights, or None. ValueError if it is another thing.

    `finite`: whether NaN and infinity are errors, and no rows at all.
    """
    X, weight = loaded if isinstance(loaded, tuple) and len(loaded) == 2 else (loaded, None)
    rows = np.asarray(X if finite else missing_as_nan(X))
    if rows.dtype != np.float32:
        rows = rows.astype(np.float64)
    if rows.ndim != 2 or len(rows) < finite or not rows.shape[1]:
        raise ValueError(f"load_data must return rows of shape (n, d); got {rows.shape}.")
    if finite and not np.isfinite(rows).all():
        raise ValueError("load_data returned NaN or infinity; remove or replace these values.")
    rows = np.ascontiguousarray(rows)
    if weight is None:
        return PeerData(rows, None)
    by = np.ascontiguousarray(weight, dtype=np.float64)
    if by.shape != (len(rows),) or not np.isfinite(by).all() or by.min() < 0 or not by.any():
        raise ValueError("sample_weight must be one finite number >= 0 for each row, not all 0.")
    return PeerData(rows, by)


def clipped(X: NDArray[Any], bounds: PublicBounds, *, clip: bool) -> NDArray[Any]:
    """Rows inside the bounds. ValueError if some are outside and `clip` is False."""
    if X.shape[1] != len(bounds.low):
        raise ValueError(f"Rows have {X.shape[1]} features, the bounds have {len(bounds.low)}.")
    # Rounding to float32 may move a bound outwards.
    inside = np.clip(X.astype(np.float64, copy=False), bounds.low, bounds.high)
    outside = int((inside != X).any(axis=1).sum())
    if outside and not clip:
        raise ValueError(
            f"{outside} rows are outside the public bounds; remove them, or use clip=True."
        )
    return inside if outside else X
