"""The results of federated fits, for peers with rows and parties with columns, and their files."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Floats
from kvariates.estimators.fit_record import FitRecord, HasRecord
from kvariates.file_writing import write_aside
from kvariates.guarantees import Guarantee
from kvariates.numerics.draws import I64
from kvariates.peers.transport import Transcript
from kvariates.privacy.ledger import Ledger
from kvariates.private_methods.noisy_centers import Mask


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


@dataclass(frozen=True, eq=False)
class FederatedResult(SavedResult, HasRecord):
    """The result of a federated fit.

    Attributes
    ----------
    centers : ndarray of shape (k, d)
    inertia : float or None
        The cost of the rows of all peers; None if peers are private.
    n_iter : int
    converged : bool
    guarantee : Guarantee or None
    guarantee_lost : str or None
        Why there is no guarantee.
    transcript : Transcript
    ledgers : dict from str to Ledger
        Of private peers, by name; as they have sent it. With central noise that of "coordinator".
    doubtful : ndarray of bool of shape (k,) or None
        Of a fit with noise: the centres that may be only noise, by their noisy counts.
    notes : tuple of str
        What a fit with noise warned of, such as how many centres may be only noise.
    """

    centers: Floats
    inertia: float | None
    n_iter: int
    converged: bool
    guarantee: Guarantee | None
    guarantee_lost: str | None
    transcript: Transcript
    ledgers: dict[str, Ledger]
    doubtful: Mask | None = None
    notes: tuple[str, ...] = ()

    def _fit_record(self) -> FitRecord:
        return FitRecord(
            "FederatedResult", "federated k-means", len(self.centers), self.centers,
            inertia=self.inertia, n_iter=self.n_iter, guarantee=self.guarantee,
            lost=self.guarantee_lost, transcript=self.transcript, ledgers=self.ledgers,
            doubtful=self.doubtful, notes=self.notes,
        )  # fmt: skip

    def _page(self) -> dict[str, Any]:
        page = super()._page()
        notes, doubtful = page.pop("notes"), page.pop("doubtful")
        return {"notes": notes, **page, "may_be_only_noise": doubtful}


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
