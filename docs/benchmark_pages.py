"""Writes charts and tables from the runs that are kept in `benchmarks/results`.

| file | what | made from |
|---|---|---|
| `benchmarks.svg` | speed beside other libraries, also in README | the newest run of `make bench` |
| `private_costs.svg` | cost of private centres | the newest runs of `make bench-private` |
| `benchmark_tables.txt` | the same in numbers, for `benchmarks.md` | all of them |

`python docs/benchmark_pages.py` writes them again, and so does `make docs`. The charts are kept in
the repository, so that GitHub shows them; a test compares them with the runs.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from benchmark_charts import private_chart, speed_chart
from benchmark_runs import (
    LIBRARIES,
    RESULTS,
    SECTIONS,
    embeddings_run,
    median,
    private_costs,
    speed_ratios,
    speed_run,
)


def tables() -> str:
    """Markdown: geometric means, all workloads, targets, private costs, large private fits."""
    run = speed_run()
    return "\n\n".join(
        [
            _head(run), _means(run), _cells(run), _memory(run), _targets(run), _embeddings(),
            _private(), _large(),
        ]
    )  # fmt: skip


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _head(run: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    machine, cells = run["machine"], run["cells"]
    busy = sum(any(t["others"] > 0.1 for t in cell["timings"].values()) for cell in cells)
    return (
        "## k-means in memory\n\n"
        f"The run of {run['date']}: {versions}. {machine['cores']} cores of an "
        f"{machine['processor']}, {machine['flops']['float32'] / 1e9:.0f} GFLOP/s in float32, "
        f"{machine['flops']['float64'] / 1e9:.0f} in float64, {machine['bytes'] / 1e9:.0f} GB/s, "
        f"all measured. Other work on the machine disturbed {busy} of {len(cells)} cells. "
        "Seconds are medians of interleaved runs."
    )


def _means(run: dict[str, Any]) -> str:
    rows = [
        [
            SECTIONS[r.section], LIBRARIES[r.library], str(r.workloads),
            f"{r.mean:.2f}", f"{r.least:.2f}", f"{r.most:.1f}",
        ]
        for r in speed_ratios(run)
    ]  # fmt: skip
    head = ["task", "library", "workloads", "their time / ours", "lowest", "highest"]
    return _table(head, rows)


def _cells(run: dict[str, Any]) -> str:
    names = [n for n in LIBRARIES if any(n in c["timings"] for c in run["cells"])]
    rows = []
    for cell in run["cells"]:
        if cell["section"] in SECTIONS:
            timings, row = cell["timings"], [SECTIONS[cell["section"]], cell["workload"]]
            row.append(f"{median(timings['kvariates']):.4f}")
            row += [f"{median(timings[n]):.4f}" if n in timings else "" for n in names]
            rows.append(row)
    head = ["task", "data", "kvariates (s)", *(f"{LIBRARIES[n]} (s)" for n in names)]
    others = len(run["cells"]) - len(rows)
    return (
        f":::{{dropdown}} {len(rows)} of the {len(run['cells'])} cells, in seconds\n\n"
        f"The other {others} are single steps on raw tables, for a target below.\n\n"
        + _table(head, rows) + "\n:::"
    )  # fmt: skip


def _memory(run: dict[str, Any]) -> str:
    names = [n for n in ("kvariates", *LIBRARIES) if any(n in m["extra"] for m in run["memory"])]
    rows = [
        [m["workload"], f"{m['data'] / 1e6:.1f}"]
        + [f"{m['extra'][n] / 1e6:.1f}" if n in m["extra"] else "" for n in names]
        for m in run["memory"]
    ]
    head = ["data", "X (MB)", *(f"{n} (MB)" for n in names)]
    return (
        ":::{dropdown} Memory of a fit beyond X (k-means++ and at most 20 iterations)\n\n"
        + _table(head, rows) + "\n:::"
    )  # fmt: skip


def _embeddings() -> str:
    run = embeddings_run()
    if run is None:
        return "## Embeddings\n\nNo run of `make bench-embeddings` is kept yet."
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    cells = [cell for cell in run["cells"] if "kvariates" in cell["libraries"]]
    names = dict.fromkeys(n for c in cells for n in c["libraries"] if n != "kvariates")
    rows = [[c["name"], *(_embedding(c, name) for name in ("kvariates", *names))] for c in cells]
    return (
        f"## Embeddings\n\n{versions}; {run['machine']['cores']} cores of an "
        f"{run['machine']['processor']}. Each library in a process of its own, in turns. Our "
        "seconds; for the others their time divided by ours, and how much more their centres cost. "
        "Of the sections `memory`: memory beside X, as a share of X. faiss-super, superkmeans and "
        "clostera begin with random rows of their own, and the first two have approximate labels; "
        "superkmeans-defaults clusters a sample of the rows.\n\n"
        + _table(["task, data", "kvariates", *names], rows)
        + "\n\n"
        + _targets(run, "Targets for embeddings")
    )


def _embedding(cell: dict[str, Any], name: str) -> str:
    """A library's figures: seconds of ours, of others their time over ours and their cost."""
    ours, of = cell["libraries"]["kvariates"], cell["libraries"].get(name)
    if of is None:
        return ""
    if of["extra"] is not None:
        return f"{of['extra'] / cell['data']:.0%}"
    own, theirs = (statistics.median(run["wall"] for run in f["runs"]) for f in (ours, of))
    if name == "kvariates":
        return f"{own:.2g} s"
    cost = f", {of['cost'] / ours['cost'] - 1:+.1%}" if of["cost"] else ""
    return f"{theirs / own:.2f}{cost}"


def _targets(run: dict[str, Any], title: str = "Targets") -> str:
    words = {True: "met", False: "**not met**", None: "not run"}
    rows = [[v["target"], v["found"], words[v["met"]]] for v in run["verdicts"]]
    safe = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return f"### {title}\n\nOur own; those that are not met are open work.\n\n" + _table(
        ["target", "found", ""], safe
    )


def _private() -> str:
    costs = private_costs()
    rows = []
    for name, k in dict.fromkeys((c.name, c.k) for c in costs):
        row = [name, str(k)]
        for delta in (1e-6, 0.0):
            for epsilon in (0.5, 1.0, 2.0):
                wanted = (name, k, delta, epsilon)
                found = [c for c in costs if (c.name, c.k, c.delta, c.epsilon) == wanted]
                row.append(f"{statistics.fmean(found[0].ratios):.3f}" if found else "")
        rows.append(row)
    dates = ", ".join(sorted({c.date for c in costs}))
    head = ["set", "k", "ε = 0.5", "1", "2", "pure: ε = 0.5", "1", "2"]
    return (
        "## Private k-means\n\n"
        'Cost of `PrivateKMeans(method="auto")` divided by that of scikit-learn\'s `KMeans`, means '
        f"of the runs, δ = 1e-6 and pure ε, add-remove. Runs of {dates}; of a setting that was "
        "measured twice, the newer one. [All methods, and the figures of other "
        "implementations](private.md#figures).\n\n![Costs by budget](private_costs.svg)\n\n"
        + _table(head, rows)
    )


def _large() -> str:
    rows, dates = [], []
    for path in sorted(RESULTS.glob("private-*.json")):
        run = json.loads(path.read_text())
        for one in run["large"]:
            dates.append(f"{run['date']}, {run['machine']['processor']}")
            rows.append(
                [one["what"], f"{one['delta']:g}", f"{one['seconds']:.1f}", f"{one['peak_gb']:.2f}"]
            )
    head = ["data", "δ", "seconds", "peak memory, data included (GB)"]
    return f"Large fits, ε = 1, two cores ({'; '.join(dict.fromkeys(dates))}):\n\n" + _table(
        head, rows
    )


def charts() -> dict[str, str]:
    return {
        "benchmarks.svg": speed_chart(speed_run()),
        "private_costs.svg": private_chart(private_costs()),
    }


def write(folder: Path) -> None:
    """Write the charts and the tables; a file that would not change is not written."""
    for name, text in {**charts(), "benchmark_tables.txt": tables() + "\n"}.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).resolve().parent)
