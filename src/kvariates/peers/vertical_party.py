"""A party of vertical k-means: it holds some columns of all rows, and its part of the centres.

A party answers questions over the transport that peers with rows use.

| question | arguments | answer |
|---|---|---|
| keys | | public_key; rows: how many; starts a new session |
| peers | index, public_keys | sealed: for each other party a message that only it can read |
| agree | sealed: from each other party | exponent of the common unit; digest of the ids |
| tokens | | tokens: 16 bytes for each id; asked only if the digests differ |
| spread | round | masked: the sum of the variances of the columns; the number of columns |
| start | rows | nothing; the centres are these rows |
| distances | first, last, round | masked: squared distances of these rows to all centres |
| update | labels, round | masked: how far each centre moved to its cluster's mean, squared |
| keep | | nothing; the present centres are those of the best run |
| finish | labels | nothing; labels and centres of the best run are the result |
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.data.assigners import squared_moves
from kvariates.data.cluster_sums import ClusterSums, FloatStatistics, mean_centers
from kvariates.data.rows import F64, OVERFLOW, Rows
from kvariates.peers.masks import FixedPoint, KeyPair, PairwiseKeys, bound_exponent
from kvariates.peers.questions import Answer, Envelope, Question

SHARE = 32  # bytes of a party's share of the common secret
TOKEN = 16  # bytes


class VerticalParty:
    """One party: some columns of all rows, in the same order at all parties.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Its columns.
    ids : array-like of shape (n_rows,) or None
        A key of each row, the same at all parties. Compared as text, by a hash with a secret that
        the parties share and the aggregator does not have.
    centers : array of shape (n_clusters, n_columns) or None
        This party's part of fitted centres, to label new rows.
    confirm : callable or None
        Is given the fingerprint of the public keys before anything else is sent, and returns
        whether the other parties see the same. If it does not return True, the session ends.

    Attributes
    ----------
    centers : ndarray of shape (n_clusters, n_columns)
        Its part of the centres.
    labels : ndarray of shape (n_rows,) or None
        The clusters, once a fit is finished.
    fingerprint : str
        Of the public keys of this session; see docs/vertical.md.
    """

    def __init__(
        self,
        X: Any,
        ids: Any = None,
        *,
        centers: Any = None,
        confirm: Callable[[str], bool] | None = None,
    ) -> None:
        self._rows = Rows.of(checked_columns(X))
        self._ids = None if ids is None else checked_ids(ids, self._rows.n)
        self.centers = checked_centers(centers, self._rows.d)
        self.labels: NDArray[np.int32] | None = None
        self._best = self.centers
        self._confirm = confirm
        self._key_pair: KeyPair | None = None
        self._keys: PairwiseKeys | None = None
        self._message = b""  # to each other party: a share of the common secret, and an exponent
        self._secret = b""
        self._unit: FixedPoint | None = None
        self._asked = b""  # a digest of the questions of this session

    @property
    def fingerprint(self) -> str:
        return self._session_keys.fingerprint

    def answer(self, envelope: Envelope) -> Answer:
        """Answer the question of the aggregator, after those of the log, which have no answer."""
        answer: Answer = {}
        for question in (*(envelope.log or ()), envelope.question):
            answer = self._answer(question)
        return answer

    def _answer(self, question: Question) -> Answer:
        name, arguments = question.name, question.arguments
        if name not in QUESTIONS:
            known = ", ".join(QUESTIONS)
            raise ValueError(f"There is no question {name!r}; ask one of {known}.")
        if self._unit is not None:  # from here on all parties are asked the same
            self._asked = _digest(self._asked, name, arguments)
        return QUESTIONS[name](self, **arguments)

    def state(self) -> Answer:
        """All it must know for the next question, but its columns and ids. It holds secret keys."""
        keys, unit = self._keys, self._unit
        own = self._key_pair if keys is None else keys.own
        return {
            "secret_key": None if own is None else own.secret,
            "index": None if keys is None else keys.index,
            "public_keys": [] if keys is None else keys.public_keys,
            "last_round": 0 if keys is None else keys.last_round,
            "message": self._message, "secret": self._secret, "asked": self._asked,
            "exponent": None if unit is None else unit.exponent,
            "centers": self.centers, "best": self._best,
        }  # fmt: skip

    def restore(self, state: Answer) -> None:
        """Go on from what `state` returned, perhaps in another process."""
        secret, public_keys = state["secret_key"], state["public_keys"]
        own = None if secret is None else KeyPair(secret)
        self._key_pair, self._keys, self._unit = own, None, None
        if own is not None and public_keys:
            self._key_pair = None
            self._keys = PairwiseKeys(own, state["index"], public_keys, state["last_round"])
        if state["exponent"] is not None:
            self._unit = FixedPoint(state["exponent"], len(public_keys))
        self._message, self._secret, self._asked = (
            state["message"], state["secret"], state["asked"],
        )  # fmt: skip
        self.centers, self._best, self.labels = state["centers"], state["best"], None

    # -- start of a session ------------------------------------------------------------------------

    def _new_keys(self) -> Answer:
        """New keys: rounds of different sessions never share a mask."""
        self._key_pair, self._keys, self._unit = KeyPair(), None, None
        self._message, self._secret, self._asked = b"", b"", b""
        return {"public_key": self._key_pair.public_key, "rows": self._rows.n}

    def _meet_peers(self, index: int, public_keys: Sequence[bytes]) -> Answer:
        if self._key_pair is None:
            raise ValueError("Ask 'keys' before 'peers'.")
        keys = PairwiseKeys(self._key_pair, index, public_keys)
        self._key_pair = None  # keys that are used twice would repeat masks
        if self._confirm is not None and self._confirm(keys.fingerprint) is not True:
            raise ValueError(
                f"The fingerprint {keys.fingerprint} was not confirmed: perhaps the aggregator "
                "relayed false keys. No data were sent; find out why before another session."
            )
        self._keys = keys
        self._message = os.urandom(SHARE) + self._exponent().to_bytes(2, "little", signed=True)
        everyone = range(keys.parties)
        return {"sealed": [keys.seal(j, self._message) if j != index else b"" for j in everyone]}

    def _agree(self, sealed: Sequence[bytes]) -> Answer:
        keys = self._session_keys
        if self._unit is not None:
            raise ValueError("The parties have agreed already: ask for new 'keys' first.")
        if len(sealed) != keys.parties:
            raise ValueError(f"{len(sealed)} messages of {keys.parties} parties were relayed.")
        own = {keys.index: self._message}
        messages = [own[j] if j in own else keys.unseal(j, m) for j, m in enumerate(sealed)]
        self._secret = hashlib.sha256(b"".join(m[:SHARE] for m in messages)).digest()
        self._unit = FixedPoint.agreed([_integer(m[SHARE:]) for m in messages])
        ids = b"".join(map(_framed, self._ids or []))
        digest = b"" if self._ids is None else _hash(self._secret, ids)
        return {"exponent": self._unit.exponent, "digest": digest}

    def _tokens(self) -> Answer:
        if not self._secret:  # without it, anybody could try names
            raise ValueError("The parties have no common secret: ask 'agree' first.")
        tokens = [_hash(self._secret, b"row" + row)[:TOKEN] for row in self._ids or []]
        return {"tokens": b"".join(tokens)}

    def _exponent(self) -> int:
        """Of the squared distances between rows or centres, in the columns of this party."""
        low, high = map(np.ravel, self._rows.column_ranges())
        for center in self.centers:
            low, high = np.minimum(low, center), np.maximum(high, center)
        try:
            return bound_exponent(low, high)
        except ValueError:
            raise ValueError(OVERFLOW) from None

    # -- rounds ------------------------------------------------------------------------------------

    def _spread(self, round: int) -> Answer:  # noqa: A002
        keys, unit = self._session_keys, self._session_unit
        variances = unit.encode(np.array([self._rows.spread() * self._rows.d]))
        values = np.append(variances, np.uint64(self._rows.d))
        return {"masked": values + keys.mask(2, round, self._asked)}

    def _start(self, rows: NDArray[np.int64]) -> Answer:
        if len(rows) > self._rows.n:
            raise ValueError(f"{len(rows)} first centres were asked of {self._rows.n} rows.")
        self.centers = self._rows.take(rows)
        return {}

    def _distances(self, first: int, last: int, round: int) -> Answer:  # noqa: A002
        rows = Rows.of(self._rows.X[first:last])
        return self._masked(rows.distances(self.centers, squared=True), round)

    def _update(self, labels: NDArray[Any], round: int) -> Answer:  # noqa: A002
        k = len(self.centers)
        sums = ClusterSums(self._rows, None, k).recompute(labels.astype(np.int32))
        weights = sums.weights.values[:, 0]
        statistics = FloatStatistics(sums.sums.values, weights, sums.counts, changed=None)
        updated = mean_centers(self.centers, statistics)
        moves = squared_moves(self.centers, updated)
        self.centers = updated
        return self._masked(moves, round)

    def _keep(self) -> Answer:
        self._best = self.centers
        return {}

    def _finish(self, labels: NDArray[Any]) -> Answer:
        k = len(self._best)
        if labels.shape != (self._rows.n,) or labels.min() < 0 or labels.max() >= k:
            raise ValueError(f"The labels must be {self._rows.n} numbers from 0 to {k - 1}.")
        self.labels, self.centers = labels.astype(np.int32), self._best
        return {}

    def _masked(self, values: F64, round_number: int) -> Answer:
        encoded = self._session_unit.encode(values)
        mask = self._session_keys.mask(values.size, round_number, self._asked)
        encoded += mask.reshape(values.shape)
        return {"masked": encoded}

    @property
    def _session_keys(self) -> PairwiseKeys:
        if self._keys is None:
            raise ValueError("There is no session: ask 'keys' and 'peers' first.")
        return self._keys

    @property
    def _session_unit(self) -> FixedPoint:
        if self._unit is None:
            raise ValueError("The parties have no common unit: ask 'agree' first.")
        return self._unit


def _digest(before: bytes, question: str, arguments: Mapping[str, Any]) -> bytes:
    """A digest of all questions so far, after one more."""
    digest = hashlib.sha256(before + question.encode())
    for name, value in sorted(arguments.items()):
        array = np.asarray(value)
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


QUESTIONS: dict[str, Callable[..., Answer]] = {
    "keys": VerticalParty._new_keys,
    "peers": VerticalParty._meet_peers,
    "agree": VerticalParty._agree,
    "tokens": VerticalParty._tokens,
    "spread": VerticalParty._spread,
    "start": VerticalParty._start,
    "distances": VerticalParty._distances,
    "update": VerticalParty._update,
    "keep": VerticalParty._keep,
    "finish": VerticalParty._finish,
}


def checked_columns(X: Any) -> F64:
    """X as float64 in C order. ValueError unless it is a matrix of finite numbers."""
    columns = np.ascontiguousarray(X, dtype=np.float64)
    if columns.ndim != 2 or columns.size == 0:
        raise ValueError(
            f"A party needs a matrix with rows and columns; got the shape {columns.shape}."
        )
    if not np.isfinite(columns).all():
        raise ValueError("A party's columns hold NaN or infinity; drop or fill such rows first.")
    return columns


def checked_ids(ids: Any, n: int) -> list[bytes]:
    """Ids as text. ValueError unless there is one for each row."""
    values = np.asarray(ids)
    if values.shape != (n,):
        raise ValueError(f"ids have the shape {values.shape} for {n} rows; give one id a row.")
    return [str(value).encode() for value in values.tolist()]


def checked_centers(centers: Any, d: int) -> F64:
    """Centres as float64; none if they are None. ValueError unless they have d columns."""
    if centers is None:
        return np.empty((0, d))
    values = checked_columns(centers)
    if values.shape[1] != d:
        raise ValueError(
            f"centers have {values.shape[1]} columns, and X has {d}; give this party's part."
        )
    return values


def _integer(value: bytes) -> int:
    return int.from_bytes(value, "little", signed=True)


def _framed(value: bytes) -> bytes:
    """With its length, so that different lists of ids are different bytes."""
    return len(value).to_bytes(8, "little") + value


def _hash(secret: bytes, message: bytes) -> bytes:
    return hmac.digest(secret, message, "sha256")
