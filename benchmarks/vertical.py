"""`python -m benchmarks.vertical`: time and bytes of vertical k-means, all parties in one process.

100,000 rows in 10 groups, 20 columns, split over 2 and over 5 parties; k = 10. The same rows are
clustered by `KMeans` in one table, from the same first centres.
"""

from __future__ import annotations

import time

import numpy as np

from kvariates import KMeans, VerticalKMeans

ROWS, COLUMNS, K = 100_000, 20, 10


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    centers = 3 * rng.normal(size=(K, COLUMNS))
    return centers[rng.integers(K, size=ROWS)] + 1.5 * rng.normal(size=(ROWS, COLUMNS))


def measure(X: np.ndarray, parties: int) -> str:
    """One row of the table."""
    columns = np.array_split(X, parties, axis=1)
    ids = [np.arange(ROWS)] * parties
    begin = time.perf_counter()
    model = VerticalKMeans(K, random_state=0).fit(columns, ids=ids)
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    pooled = KMeans(K, init=X[model.seed_rows_], n_init=1).fit(X)
    in_memory = time.perf_counter() - begin
    sent = model.transcript_
    other = int(np.count_nonzero(model.labels_ != pooled.labels_))
    cells = [
        parties, model.n_iter_, f"{seconds:.2f} s", f"{seconds / model.n_iter_:.3f} s",
        sent.rounds, f"{sent.bytes / 1e6:.0f} MB",
        f"{sent.bytes / parties / model.n_iter_ / 1e6:.1f} MB", other, f"{in_memory:.2f} s",
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    X = rows()
    print(
        "| parties | iterations | time | time / iteration | rounds | bytes | "
        "bytes / party and iteration | other labels than pooled | pooled Lloyd |"
    )
    print("|" + "---|" * 9)
    for parties in (2, 5):
        print(measure(X, parties), flush=True)


if __name__ == "__main__":
    main()
