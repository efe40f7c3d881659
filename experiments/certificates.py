"""Certificates of k-means on public data: how close to the best, and how long they take.

`python -m experiments.certificates` fits `KMeans(k, init="ls++", random_state=0)` to each set, with
and without `certify=True`, and prints the table of the quickstart. `--sets` chooses sets.

| column | meaning |
|---|---|
| certificate | the text of `certificate_` |
| fit, certificate (s) | processor time of the fit alone, and of the certificate, in seconds |
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.report import table
from benchmarks.workloads import data_folder

from experiments.quality import SETS, Problem
from kvariates import KMeans

CERTIFIED = ("dim032", "cloud", "unbalance", "s1", "mnist", "covertype", "letter", "birch2")


def cloud(path: Path) -> Problem:
    """A set that the experiment on quality does not use: few rows, and no clear clusters."""
    with np.load(path, allow_pickle=False) as kept:
        return Problem("cloud", kept["X"].astype(np.float64), 10)


LOADERS = {**SETS, "cloud": ("uci/cloud.npz", cloud)}


def timed_fit(problem: Problem, *, certify: bool) -> tuple[Any, float]:
    """The fitted model and the processor time of its fit."""
    model = KMeans(problem.k, init="ls++", certify=certify, random_state=0)
    begin = time.process_time()
    model.fit(problem.X)
    return model, time.process_time() - begin


def line(problem: Problem) -> list[str]:
    """A line of the table."""
    _, alone = timed_fit(problem, certify=False)
    model, both = timed_fit(problem, certify=True)
    n, d = problem.X.shape
    seconds = f"{alone:.1f}", f"{max(both - alone, 0.0):.0f}"
    return [problem.name, f"{n:,} x {d}", str(problem.k), str(model.certificate_), *seconds]


def main(words: Sequence[str] | None = None) -> None:
    """Fit, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.certificates")
    parser.add_argument("--sets", nargs="+", choices=CERTIFIED, default=list(CERTIFIED))
    lines, left_out = [], []
    for name in parser.parse_args(words).sets:
        file, load = LOADERS[name]
        path = data_folder() / file
        if path.exists():
            lines.append(line(load(path)))
        else:
            left_out.append(f"Left out: {name} (no {file} in the data folder, KVARIATES_DATA)")
    head = ["", "rows x features", "k", "certificate", "fit (s)", "certificate (s)"]
    print("\n".join([table(head, lines), *left_out]))


if __name__ == "__main__":
    main()
