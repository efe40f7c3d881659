"""What `benchmarks.embeddings` measures, and the process that measures one library.

| section | task |
|---|---|
| lloyd-10, lloyd-25 | so many iterations from the same random rows, and the labels |
| fit | a fit by the defaults, with its seeding, to convergence |
| seeding | greedy k-means++ alone (two versions: `side_by_side --suite embeddings`) |
| predict-1, predict-1000 | labels of one row and of 1,000 rows |
| transform-1000 | distances of 1,000 rows to all centres |

The process answers lines as `benchmarks.processes` describes: `{"calls": number}` calls the
task and answers with the times, `{"cost": true}` answers with the cost of the last centres.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contestants import MAKERS, Contestant, help_faiss
from benchmarks.embedding_data import Rows
from benchmarks.processes import answer_lines, follow_pythonpath, run
from benchmarks.workloads import ROOT, Array, inertia

Task = Callable[[], Any]  # returns centres, or what nobody looks at
EVERYONE = tuple(MAKERS)
DEFAULTS = "superkmeans-defaults"  # superkmeans on a sample of the rows, ten iterations


@dataclass(frozen=True)
class Cell:
    """One task on one data set, of several libraries."""

    section: str
    rows: Rows
    k: int
    libraries: tuple[str, ...] = EVERYONE

    @property
    def name(self) -> str:
        return f"{self.section}: {self.rows.name} k={self.k}"

    @property
    def has_cost(self) -> bool:
        return self.section.startswith(("lloyd", "fit", "seeding"))


# --- tasks ----------------------------------------------------------------------------------------


def lloyd(cell: Cell, library: str, X: Array) -> Task:
    who, start = MAKERS[library](), cell.rows.start(X, cell.k)
    steps = int(cell.section.split("-")[1])
    return lambda: who.refine(X, start.copy(), steps, 0.0).centres


def default_fit(cell: Cell, library: str, X: Array) -> Task:
    k = cell.k
    if library == DEFAULTS:
        return lambda: _superkmeans_defaults(X, k)
    if library == "superkmeans":  # all rows, until it finds that it has converged
        who = MAKERS[library]()
        return lambda: who.refine(X, X[:k], 300, 1e-4).centres
    KMeans = _estimator(library)
    return lambda: KMeans(k, random_state=0).fit(X).cluster_centers_


def _superkmeans_defaults(X: Array, k: int) -> Array:
    model = importlib.import_module("superkmeans").SuperKMeans(k, X.shape[1])
    centres = np.asarray(model.train(X))
    model.assign(X, centres)
    return centres


def _estimator(library: str) -> Any:
    places = {
        "kvariates": "kvariates",
        "sklearn": "sklearn.cluster",
        "intelex": "sklearnex.cluster",
    }
    return importlib.import_module(places[library]).KMeans


def seeding(cell: Cell, library: str, X: Array) -> Task:
    who: Contestant = MAKERS[library]()
    return lambda: who.seed(X, cell.k, None, 0)


def serving(cell: Cell, library: str, X: Array) -> Task:
    """The centres are rows; each call takes other rows."""
    centres, size = cell.rows.start(X, cell.k), int(cell.section.split("-")[1])
    asked = cycle([X[i : i + size].copy() for i in range(0, len(X) - size + 1, max(size, 97))])
    if library == "faiss":
        index = importlib.import_module("faiss").IndexFlatL2(X.shape[1])
        index.add(centres)
        return lambda: index.search(next(asked), 1)
    if library == "superkmeans":
        model = importlib.import_module("superkmeans").SuperKMeans(cell.k, X.shape[1])
        return lambda: model.assign(next(asked), centres)
    fitted = _estimator(library)(cell.k, init=centres, n_init=1, max_iter=1).fit(X)
    answer = getattr(fitted, cell.section.split("-")[0])
    return lambda: answer(next(asked))


TASKS: dict[str, Callable[[Cell, str, Array], Task]] = {
    "lloyd": lloyd,
    "fit": default_fit,
    "seeding": seeding,
    "predict": serving,
    "transform": serving,
}


# --- cells ----------------------------------------------------------------------------------------

REAL, MNIST = Rows("real", 20_000, 384), Rows("mnist", 70_000, 784)
FEW, MIDDLE, WIDE = (Rows("made", n, d) for n, d in ((60_000, 384), (40_000, 768), (20_000, 1536)))
UNIFORM, LARGE, SERVED = (
    Rows("uniform", 60_000, 384), Rows("made", 200_000, 384), Rows("made", 8_000, 768)
)  # fmt: skip
FITTING = "kvariates", "sklearn", "intelex"
CONVERGING = "kvariates", "superkmeans", DEFAULTS
PREDICTING = "kvariates", "sklearn", "intelex", "faiss", "superkmeans"
KEEPING = "kvariates", "sklearn", "faiss", "faiss-super", "superkmeans"  # of which memory is told


def cells(quick: bool = False) -> list[Cell]:
    if quick:
        small, served = Rows("made", 2_000, 384), Rows("made", 1_500, 256)
        return [
            Cell("lloyd-25", small, 50),
            Cell("lloyd-25", Rows("real", 2_000, 384), 50),
            Cell("fit", small, 50, tuple(dict.fromkeys(FITTING + CONVERGING))),
            Cell("seeding", small, 50, FITTING),
            Cell("predict-1", served, 100, PREDICTING),
            Cell("predict-1000", served, 100, PREDICTING),
            Cell("transform-1000", served, 100, FITTING),
            Cell("memory", small, 50, KEEPING),
        ]
    return [
        *(Cell("lloyd-25", rows, k) for rows in (REAL, FEW, MIDDLE, WIDE) for k in (1_000, 4_000)),
        *(Cell("lloyd-25", rows, 1_000) for rows in (MNIST, UNIFORM)),
        *(Cell("lloyd-10", rows, 1_000) for rows in (REAL, MIDDLE)),
        Cell("lloyd-10", REAL, 4_000),
        *(Cell("fit", rows, 1_000, (*FITTING, "superkmeans")) for rows in (REAL, FEW)),
        *(Cell("fit", rows, 4_000, CONVERGING) for rows in (REAL, FEW)),
        Cell("seeding", LARGE, 2_000, ("kvariates",)),
        Cell("predict-1", SERVED, 4_000, PREDICTING),
        Cell("predict-1000", SERVED, 4_000, PREDICTING),
        Cell("transform-1000", SERVED, 4_000, FITTING),
        *(Cell("memory", rows, 1_000, KEEPING) for rows in (FEW, MIDDLE)),
    ]


# --- the process ----------------------------------------------------------------------------------


class Server:
    """One library and one task."""

    def __init__(self, cell: Cell, library: str, file: str) -> None:
        self.cell, self.library, self.file = cell, library, file
        self.task: Task = lambda: None
        self.last: Any = None

    def begin(self) -> dict[str, Any]:
        try:
            self.prepare()
        except ImportError as error:
            return {"error": f"no module {error.name}"}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {}

    def prepare(self) -> None:
        """Read the rows, load the library and start its threads."""
        self.X, cell = np.load(self.file), self.cell
        make = TASKS[cell.section.split("-")[0]]
        self.task = make(cell, self.library, self.X)
        if cell.has_cost:
            few = self.X[:1_000].copy()
            make(replace(cell, rows=Rows("few", *few.shape), k=8), self.library, few)()
        else:
            self.task()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "cost" in asked:
            return {"cost": inertia(self.X, np.asarray(self.last))}

        def call() -> None:
            self.last = self.task()

        return asdict(run(call, asked["calls"]))


def serve(section: str, shape: str, library: str, file: str) -> None:
    follow_pythonpath()
    kind, n, d, k = json.loads(shape)
    server = Server(Cell(section, Rows(kind, n, d), k), library, file)
    answer_lines(server.answer, server.begin)


def command(cell: Cell, library: str, file: Path) -> list[str]:
    shape = json.dumps([cell.rows.kind, cell.rows.n, cell.rows.d, cell.k])
    module = "benchmarks.embedding_tasks"
    return [sys.executable, "-m", module, cell.section, shape, library, str(file)]


if __name__ == "__main__":
    help_faiss()
    sys.path.insert(0, str(ROOT))
    serve(*sys.argv[1:])
