"""Figure 3 of Nock et al. 2016 (slides 23 and 24): Dk-means++, k-means++ and k-means||.

`python -m experiments.nock_fig3` measures all of it and saves the figure, the tables and the JSON.

    rho(H) = 100 (phi(Dk-means++) - phi(H)) / phi(H),    phi: the mean cost of k seeded centres

Each of about 40 peers has 250 to 750 rows, uniform in a random box of 50 dimensions; then each row
moves with chance p % to a uniformly drawn peer. No centres are refined. The paper does not say how
its boxes are drawn, so there are two kinds: see `experiments.peer_data`.

    Dk-means++   the first peer by its number of rows, as in Algorithm 0, the others by potential;
                 a uniform row of the drawn peer
    k-means++    plain: one draw a centre
    k-means||    l = 2k, 5 rounds (Bahmani et al. 2012); plain weighted k-means++ keeps k candidates
    uniform      k uniform rows: Dk-means++ with a single peer

k-means++, k-means|| and uniform rows do not depend on p. Costs for all k come from the same draws,
but for k-means||. rho is computed for each data set; its standard error is over the data sets.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks.report import table
from benchmarks.workloads import Array

from experiments.peer_data import BOXES, box_peers, moved, peer_sizes
from experiments.peer_seeding import UniformInPeer, kmeans_parallel_run, seeded_costs
from experiments.rho_picture import draw_planes
from kvariates.data.rows import Rows
from kvariates.seeding.densities import Dirac

DIMENSIONS, MEAN_SIZE = 50, 500
OTHERS = ("k-means++", "k-means||")
ERRORS = 3  # standard errors that a mean must be away from zero to be called a difference


@dataclass(frozen=True)
class Settings:
    """What is measured; `rows`: of a data set, `seeds`: runs on each data set."""

    boxes: str
    ks: tuple[int, ...] = tuple(range(4, 11))
    ps: tuple[int, ...] = tuple(range(0, 51, 5))
    sets: int = 40
    seeds: int = 40
    rows: int = 20_000


@dataclass(frozen=True, eq=False)
class SetCosts:
    """Costs of shape (seeds, ks) on one data set, and the spread for each p."""

    others: dict[str, Array]
    ours: dict[int, Array]
    spread: dict[int, float]
    peers: int
    candidates: float  # of k-means||, for each centre


@dataclass(frozen=True)
class Plane:
    """rho for each p (rows) and k (columns), its standard error, and how often one run is lower."""

    other: str
    rho: list[list[float]]
    error: list[list[float]]
    lower: list[list[float]]

    def counts(self) -> tuple[int, int, int]:
        """Cells where Dk-means++ costs less, where neither does, and where it costs more."""
        z = np.array(self.rho) / np.array(self.error)
        less, more = int((z < -ERRORS).sum()), int((z > ERRORS).sum())
        return less, z.size - less - more, more


@dataclass(frozen=True)
class Result:
    """All figures of one kind of boxes."""

    settings: Settings
    peers: float
    growth: list[float]  # spread(p) / spread(0), for each p
    growth_error: list[float]
    planes: list[Plane]
    uniform: Plane  # with one row: uniform rows against k-means++
    candidates: float


# ---- measuring ----


def set_costs(settings: Settings, number: int) -> SetCosts:
    """Draw one data set and seed it by every algorithm."""
    rng = np.random.default_rng([number, 3])
    sizes = peer_sizes(settings.rows, MEAN_SIZE, rng)
    data = box_peers(BOXES[settings.boxes], sizes, DIMENSIONS, rng)
    rows, seeds, ks = Rows.of(data.X), range(settings.seeds), settings.ks
    parallel = [[kmeans_parallel_run(rows, k, rng) for k in ks] for _ in seeds]
    single = UniformInPeer(np.zeros(rows.n, dtype=np.int64))
    others = {
        "k-means++": np.array([seeded_costs(rows, Dirac(), ks, rng) for _ in seeds]),
        "k-means||": np.array([[run.cost for run in runs] for runs in parallel]),
        "uniform": np.array([seeded_costs(rows, single, ks, rng) for _ in seeds]),
    }
    ours, spread = {}, {}
    for p in settings.ps:
        mixed = moved(data, p, rng)
        density = UniformInPeer(mixed.peer)
        ours[p] = np.array([seeded_costs(rows, density, ks, rng) for _ in seeds])
        spread[p] = mixed.spread()
    each = [run.candidates / k for runs in parallel for run, k in zip(runs, ks, strict=True)]
    return SetCosts(others, ours, spread, data.n, float(np.mean(each)))


def summarized(settings: Settings, found: Sequence[SetCosts]) -> Result:
    """Means over the data sets."""
    ours = [[one.ours[p] for p in settings.ps] for one in found]
    growth = np.array([[one.spread[p] / one.spread[0] for p in settings.ps] for one in found])
    return Result(
        settings,
        float(np.mean([one.peers for one in found])),
        growth.mean(axis=0).tolist(),
        _errors(growth).tolist(),
        [_plane(other, ours, found) for other in OTHERS],
        _plane("k-means++", [[c.others["uniform"]] for c in found], found),
        float(np.mean([one.candidates for one in found])),
    )


def _plane(other: str, ours: Sequence[Sequence[Array]], found: Sequence[SetCosts]) -> Plane:
    rho, lower = [], []
    for mine, one in zip(ours, found, strict=True):
        theirs = one.others[other]
        mean = theirs.mean(axis=0)
        rho.append([100 * (costs.mean(axis=0) / mean - 1) for costs in mine])
        lower.append([100 * (costs[:, None] < theirs).mean(axis=(0, 1)) for costs in mine])
    values = np.array(rho)
    shares = np.array(lower).mean(axis=0)
    return Plane(other, values.mean(axis=0).tolist(), _errors(values).tolist(), shares.tolist())


def _errors(values: Array) -> Array:
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))


# ---- tables ----


def growth_table(results: Sequence[Result]) -> str:
    """The spread for each p, in multiples of that for p = 0."""
    ps = results[0].settings.ps
    lines = [
        [r.settings.boxes, *(f"{g:.1f}" for g in r.growth),
         "holds" if r.growth[-1] > 20 else "does not hold"]
        for r in results
    ]  # fmt: skip
    head = ["boxes", *(f"p={p}" for p in ps), f"more than 20 times at p={ps[-1]}"]
    return f"Spread of the peers, spread(p) / spread(0)\n{table(head, lines)}"


def plane_table(r: Result, plane: Plane) -> str:
    """The mean rho with its standard error; a star marks a difference."""
    ks, ps = r.settings.ks, r.settings.ps
    lines = []
    for p, rho, error in zip(ps, plane.rho, plane.error, strict=True):
        cells = zip(rho, error, strict=True)
        lines.append([f"p={p}", *(_cell(value, e) for value, e in cells)])
    less, alike, more = plane.counts()
    shares = np.array(plane.lower)
    said = (
        f"Dk-means++ costs less in {less} of {shares.size} cells, more in {more}, and in {alike} "
        f"there is no difference of {ERRORS} standard errors.\n"
        f"In {shares.min():.0f} to {shares.max():.0f} % of all pairs of single runs it costs less."
    )
    head = ["", *(f"k={k}" for k in ks)]
    return f"rho({plane.other}) in %, {r.settings.boxes}\n{table(head, lines)}\n{said}"


def uniform_table(results: Sequence[Result]) -> str:
    """Uniform rows against k-means++."""
    lines = []
    for r in results:
        cells = zip(r.uniform.rho[0], r.uniform.error[0], strict=True)
        lines.append([r.settings.boxes, *(_cell(value, e) for value, e in cells)])
    head = ["", *(f"k={k}" for k in results[0].settings.ks)]
    title = "Uniform rows (Forgy) against k-means++, in %: the limit of Dk-means++ for mixed peers"
    return f"{title}\n{table(head, lines)}"


def _cell(value: float, error: float) -> str:
    star = "*" if abs(value) > ERRORS * error else " "
    return f"{value:+.2f}±{error:.2f}{star}"


VERDICTS = ""


def text(results: Sequence[Result], wide: Result) -> str:
    """All tables and verdicts."""
    s = results[0].settings
    title = (
        f"python -m experiments.nock_fig3: {s.sets} data sets of about {s.rows} rows and "
        f"{results[0].peers:.0f} peers, {s.seeds} runs on each\n"
        "± is a standard error over the data sets; a star marks a mean that is more than "
        f"{ERRORS} of them away from zero"
    )
    planes = [plane_table(r, plane) for r in results for plane in r.planes]
    more = f"Beyond the figure: more centres ({wide.settings.sets} data sets)"
    planes += [f"{more}\n{plane_table(wide, wide.planes[0])}"]
    share = (
        f"k-means|| takes {results[0].candidates:.1f} candidates a centre, Dk-means++ takes 1, "
        f"for {results[0].peers:.0f} peers."
    )
    parts = [title, growth_table(results), *planes, uniform_table([*results]), share, VERDICTS]
    return "\n\n".join(parts)


def measured(settings: Settings) -> Result:
    """All data sets of one kind of boxes."""
    begin, found = time.monotonic(), []
    for number in range(settings.sets):
        found.append(set_costs(settings, number))
        if number % 10 == 9:
            spent = time.monotonic() - begin
            print(f"{settings.boxes}: {number + 1} ({spent:.0f} s)", file=sys.stderr, flush=True)
    return summarized(settings, found)


def save(results: Sequence[Result], wide: Result, folder: Path) -> None:
    """Write the figure, the tables and the figures as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / "nock_fig3"
    stem.with_suffix(".txt").write_text(f"{text(results, wide)}\n", encoding="utf-8")
    figures = json.dumps([asdict(r) for r in (*results, wide)], indent=1)
    stem.with_suffix(".json").write_text(f"{figures}\n", encoding="utf-8")
    s = results[0].settings
    planes = {p.other: (p.rho, p.error) for p in results[0].planes}
    draw_planes(stem.with_suffix(".png"), s.ks, s.ps, results[0].growth, planes)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m experiments.nock_fig3")
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=40)
    folder = Path(__file__).resolve().parent / "results"
    parser.add_argument("--save", type=Path, default=folder, help="folder of the results")
    chosen = parser.parse_args()
    base = Settings("", sets=chosen.sets, seeds=chosen.seeds)
    results = [measured(replace(base, boxes=boxes)) for boxes in BOXES]
    few = max(2, chosen.sets // 4)
    wide = measured(replace(base, boxes="small boxes", ks=(10, 20, 40), ps=(0, 10, 50), sets=few))
    print(text(results, wide))
    save(results, wide, chosen.save)


if __name__ == "__main__":
    main()
