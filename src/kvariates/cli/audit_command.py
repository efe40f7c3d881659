"""The work of `kvariates audit`: attacks a private method and says what was found.

The attacker knows all rows but one, chooses the worst for the method, and looks at what a fit
publishes: the centre nearest to the row in question, all noisy counts, and the ledger.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.app import check_name, tables
from kvariates.cli.screen import phase
from kvariates.estimators.private_kmeans import PrivateKMeans
from kvariates.privacy.auditing import Audit, audit, near
from kvariates.private_methods.methods import PRIVATE_METHODS

FEWEST, MOST = 400, 20_000  # runs on each of the two data sets
ROWS = 12


@dataclass(frozen=True)
class AuditRequest:
    """What to attack. `seconds`: about how long; `runs`: instead, how often."""

    method: str
    epsilon: float
    delta: float
    seconds: float
    runs: int | None


@dataclass(frozen=True, eq=False)
class AttackedMethod:
    """A method on few rows in [-1, 1]: eleven in one corner, and one alone in the other."""

    method: str
    epsilon: float
    delta: float

    @property
    def neighbours(self) -> tuple[Any, Any]:
        """The rows with the lone one, and without it."""
        rows = -np.ones((ROWS, 2))
        rows[-1] = 1.0
        return rows, rows[:-1]

    def __call__(self, X: Any) -> PrivateKMeans:
        import warnings

        method: Any = self.method  # a name of PRIVATE_METHODS
        model = PrivateKMeans(
            2, epsilon=self.epsilon, delta=self.delta, bounds=(-1.0, 1.0), method=method
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X)
        return model

    def view(self, model: PrivateKMeans) -> dict[str, Any]:
        """What is published."""
        return {
            "near": near([[1.0, 1.0]])(model),
            "counts": np.sort(np.asarray(model.cluster_counts_, dtype=np.float64)),
            "charges": {charge.label: charge.cost for charge in model.ledger_.charges},
        }


@dataclass(frozen=True, eq=False)
class Attack:
    """The audit of a method, in words."""

    request: AuditRequest
    audit: Audit
    condition: str | None

    def summary(self) -> dict[str, Any]:
        found = self.audit
        return {
            "method": self.request.method,
            "claim": {"epsilon": self.request.epsilon, "delta": self.request.delta},
            "certified_epsilon": found.lower_bound,
            "without_noise": found.most,
            "runs": found.runs,
            "error": 1 - found.confidence,
            "event": str(found.event),
            "passed": found.passed,
            "finding": found.finding,
            "condition": self.condition,
        }

    def words(self) -> list[str]:
        """What was claimed, done and found."""
        request, found = self.request, self.audit
        factor = math.exp(min(request.epsilon, 700.0))
        delta = f", plus a probability of {request.delta:g}" if request.delta else ""
        claim = f"epsilon = {request.epsilon:g}, delta = {request.delta:g}: one row more or less"
        lines = [
            f"method     {request.method}: {PRIVATE_METHODS[request.method].help}",
            f"claim      {claim} makes no result more than {factor:.3g} times as likely{delta}",
            f"attack     {found.runs:,} fits of {ROWS} rows, and as many without the far row",
            f"power      of a method without noise it would have shown epsilon >= {found.most:.3g}",
            f"error      the finding is wrong with a chance of at most {1 - found.confidence:.1g}",
        ]
        if self.condition is not None:
            lines.append(f"condition  {self.condition}")
        return [*lines, f"found      {found.finding}"]


def attack(request: AuditRequest, progress: Progress) -> Attack:
    """Attack a method for about the given time."""
    check_name("method", request.method, tables("audit")["method"][0])
    method = AttackedMethod(request.method, request.epsilon, request.delta)
    first = method(method.neighbours[0])  # an error of the input appears here
    runs = request.runs
    if runs is None:
        begin = time.perf_counter()
        for _ in range(3):
            method(method.neighbours[0])
        each = (time.perf_counter() - begin) / 3
        runs = int(np.clip(request.seconds / (2 * each), FEWEST, MOST))
    with phase(progress, f"attacking {request.method}, 2 x {runs:,} fits"):
        found = audit(
            method, method.neighbours, epsilon=request.epsilon, delta=request.delta, runs=runs,
            view=method.view,
        )  # fmt: skip
    return Attack(request, found, first.condition_)
