"""What was sent between a coordinator and its peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

NUMBER_BYTES = 8


@dataclass(frozen=True)
class Dropped:
    """A peer that was asked no more, from which round on, and why."""

    peer: str
    round: int
    reason: str


@dataclass
class Transcript:
    """Counts of all that was sent.

    Attributes
    ----------
    rounds : int
        Questions to one or several peers at the same time.
    messages : int
        Questions and answers, one for each peer.
    bytes_sent, bytes_received : int
        Of the arguments and the answers, without what a transport adds.
    points_revealed : int
        Rows, or noisy rows, that peers have shown.
    dropped : list of Dropped
    joined : list of str
        Peers that came after the beginning.
    fingerprints : list of str
        Of the public keys of each group of secure sums; each peer logs those that it was given.
    """

    rounds: int = 0
    messages: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    points_revealed: int = 0
    dropped: list[Dropped] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    fingerprints: list[str] = field(default_factory=list)


def n_bytes(values: Any) -> int:
    """The size of arguments or of an answer."""
    if isinstance(values, np.ndarray):
        return values.nbytes
    if isinstance(values, Mapping):
        return sum(n_bytes(value) for value in values.values())
    if isinstance(values, list | tuple):
        return sum(n_bytes(value) for value in values)
    if isinstance(values, int) and not isinstance(values, bool):
        return max(NUMBER_BYTES, (values.bit_length() + 7) // 8)
    if isinstance(values, str | bytes):
        return len(values)
    return 0 if values is None else NUMBER_BYTES
