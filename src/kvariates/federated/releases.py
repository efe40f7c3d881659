"""The budget of a private peer, and its releases so far: what must not be forgotten."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from flwr.app import Context

from kvariates.data.lattice_rows import Adjacency
from kvariates.file_writing import write_aside
from kvariates.peers.encoding import decode, encode
from kvariates.peers.questions import Answer
from kvariates.privacy.budget import Cost, check_adjacency, check_loss
from kvariates.privacy.ledger import Charge


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Wait until no other process is inside; the lock ends with the process that has it."""
    beside = Path(path).with_name(f".{Path(path).name}.lock")
    beside.parent.mkdir(parents=True, exist_ok=True)
    with beside.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_logger = logging.getLogger(__name__)

COUNT_SHARE, POTENTIAL_SHARE, DRAW_SHARE, STEPS_SHARE = 0.05, 0.2, 0.25, 0.5
COUNTS_OVER_SUMS = 0.25  # what the counts of a step cost, to what its sums cost


LedgerPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Private:
    """The budget of a private peer, and what it is for.

    Attributes
    ----------
    epsilon : float
        What all answers together spend.
    n_clusters : int
        How many centres the peer takes part in.
    steps : int
        How many noisy iterations of Lloyd it takes part in.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbours. With "replace-one" the number of rows is public.
    ledger : path, or callable from Flower's context to a path
        The file of this peer that keeps all releases, so that all runs of Flower together spend
        `epsilon`. Required. Its path is absolute: a node may start a process in any folder. A
        callable uses `context.node_config` only: the server chooses the rest, such as the run.
    """

    epsilon: float
    n_clusters: int
    steps: int = 0
    adjacency: Adjacency = "add-remove"
    ledger: LedgerPath | Callable[[Context], LedgerPath] | None = None

    def __post_init__(self) -> None:
        check_loss(self.epsilon, 0.0)
        if self.n_clusters < 1 or self.steps < 0:
            raise ValueError("Private: n_clusters must be at least 1, and steps at least 0.")
        check_adjacency(self.adjacency, "Private: adjacency")
        # Flower's context is no place for it: each process has a copy, and spends its own budget.
        if self.ledger is None:
            raise ValueError(
                "Private needs ledger, the file that keeps what was spent: "
                "Private(..., ledger='/var/lib/hospital/ledger')."
            )
        if not callable(self.ledger):
            _absolute(self.ledger)

    def ledger_file(self, context: Context) -> Path:
        """The file of the peer that has this context."""
        assert self.ledger is not None  # noqa: S101
        path = _absolute(self.ledger(context) if callable(self.ledger) else self.ledger)
        # A new file is moved to its place: a link there would be lost, and the file it names stale.
        return path.resolve()

    def costs(self) -> dict[str, list[Cost]]:
        """What each release may cost, by kind. Together they never cost more than epsilon."""
        k, steps = self.n_clusters, self.steps
        counted = COUNT_SHARE if self.adjacency == "add-remove" else 0.0
        shares = {
            "count": [counted] if counted else [],
            "potential": [POTENTIAL_SHARE / (k - 1)] * (k - 1) if k > 1 else [],
            "draw": [DRAW_SHARE / k] * k,
            "counts": [STEPS_SHARE * COUNTS_OVER_SUMS / steps] * steps if steps else [],
            "sums": [STEPS_SHARE / steps] * steps if steps else [],
        }
        parts = iter(Cost(epsilon=self.epsilon).split([s for of in shares.values() for s in of]))
        return {kind: [next(parts) for _ in of] for kind, of in shares.items()}


def _absolute(ledger: LedgerPath) -> Path:
    path = Path(ledger)
    if not path.is_absolute():
        raise ValueError(f"Private: ledger must be an absolute path; got {str(path)!r}.")
    return path


class Releases:
    """The releases of a peer so far, with their charges; `save` is called before one leaves.

    `node`: the name of the node. Two nodes with one file would give each other's answers.
    """

    def __init__(self, data: bytes | None = None, node: str = "") -> None:
        self._node = node
        stored: Answer = {"answers": {}, "charges": [], "claim": None}
        if data is not None:  # its own file, so it may be larger than a stranger's message
            stored = decode(data, max_bytes=len(data))
        self.claim: Answer | None = stored["claim"]  # what the charges belong to
        self.answers: dict[str, Answer] = stored["answers"]
        self.charges = [Charge(**charge) for charge in stored["charges"]]

    def add(self, key: str, answer: Answer, charges: Sequence[Charge]) -> None:
        self.answers[key] = answer
        self.charges += charges
        stored = [asdict(charge) for charge in self.charges]
        self.save(encode({"answers": self.answers, "charges": stored, "claim": self.claim}))

    def belong_to(self, claim: Answer) -> bool:
        """Whether all releases were made for this claim; if there are none, they will be."""
        named = {**claim, "node": self._node}
        self.claim = named if self.claim is None else self.claim
        return self.claim == named

    def save(self, data: bytes) -> None:
        """Keep all releases in memory only."""


class FileReleases(Releases):
    """Releases that are kept in a file. Use it inside `locked`."""

    def __init__(self, path: Path, node: str) -> None:
        self._path = path
        try:
            super().__init__(path.read_bytes() if path.exists() else None, node)
        except Exception as error:
            _logger.exception("The ledger %s cannot be read", path)
            raise ValueError(
                "its ledger cannot be read, so it answers nothing; see its log"
            ) from error

    def save(self, data: bytes) -> None:
        write_aside(self._path, data)
