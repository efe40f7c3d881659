"""Makes the tables that commands of the documentation read. All of them are made up, but cities.

    python examples/sample_tables.py [FOLDER]

| file | what |
|---|---|
| customers.csv | 300 customers in four groups, some without an age; kept in this folder, too |
| people.csv | 20,000 people: age, income in thousands; for private fits |
| shops.csv | 600 shops: visitors, area, region |
| cities.parquet | the world's cities as points of the unit sphere, with their people (GeoNames) |
| rows.parquet | 20,000 rows in five groups |
| sites.csv, patients.csv | 60 public sites, and the site of each of 3,000 patients |
"""

import csv
import gzip
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
CITIES = HERE.parent / "src" / "kvariates" / "datasets" / "cities.csv.gz"
# age, income in thousands, visits a year, and how often a group has the plans basic, plus, family
GROUPS = [
    ((24, 24, 40), (3, 3, 4), (0.7, 0.3, 0.0)),
    ((43, 44, 12), (4, 4, 3), (0.2, 0.2, 0.6)),
    ((51, 92, 5), (4, 6, 1.5), (0.1, 0.8, 0.1)),
    ((71, 31, 22), (4, 4, 4), (0.6, 0.3, 0.1)),
]


def customers(n=300):
    rng = np.random.default_rng(0)
    rows = []
    for number, group in enumerate(rng.integers(len(GROUPS), size=n)):
        mean, spread, plans = GROUPS[group]
        age, income, visits = np.maximum(rng.normal(mean, spread), 0)
        known = "" if rng.random() < 0.02 else f"{age:.0f}"
        plan = rng.choice(["basic", "plus", "family"], p=plans)
        rows.append([f"C{number:04}", known, f"{income:.1f}", f"{visits:.0f}", plan])
    return ["id", "age", "income", "visits", "plan"], rows


def people(n=20_000):
    rng = np.random.default_rng(1)
    group = rng.integers(3, size=n)
    rows = rng.normal(np.array([[30, 20], [45, 70], [68, 30]])[group], [4, 6]).clip(0)
    return ["age", "income"], [[f"{age:.0f}", f"{income:.1f}"] for age, income in rows]


def shops(n=600):
    rng = np.random.default_rng(2)
    visitors, area = rng.lognormal(6, 1, size=n), rng.lognormal(5, 0.5, size=n)
    region = rng.choice(["north", "south", "east"], size=n)
    rows = zip(visitors, area, region, strict=True)
    return ["visitors", "area", "region"], [[f"{a:.0f}", f"{b:.0f}", c] for a, b, c in rows]


def sites():
    rows = np.random.default_rng(3).uniform(0, 100, (60, 2))
    return ["site", "x", "y"], [[f"S{i}", f"{x:.2f}", f"{y:.2f}"] for i, (x, y) in enumerate(rows)]


def patients(n=3_000):
    """Most of them at the first twenty sites."""
    at = np.minimum(np.random.default_rng(4).geometric(0.1, size=n) - 1, 59)
    return ["patient", "site"], [[f"P{i}", f"S{j}"] for i, j in enumerate(at)]


def cities():
    with gzip.open(CITIES, "rt", encoding="utf-8") as file:
        lines = [(line["lat"], line["lon"], line["population"]) for line in csv.DictReader(file)]
    lat, lon, number = np.array(lines, dtype=float).T
    lat, lon = np.radians(lat), np.radians(lon)
    places = {"x": np.cos(lat) * np.cos(lon), "y": np.cos(lat) * np.sin(lon), "z": np.sin(lat)}
    return places | {"people": number}


def rows(n=20_000):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3)) + 8 * rng.integers(5, size=(n, 1))
    return {f"x{j}": X[:, j] for j in range(3)}


def write(folder):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for table in (customers, people, shops, sites, patients):
        names, lines = table()
        text = "\n".join(",".join(line) for line in [names, *lines]) + "\n"
        (folder / f"{table.__name__}.csv").write_text(text, encoding="utf-8")
    for table in (cities, rows):
        pq.write_table(pa.table(table()), folder / f"{table.__name__}.parquet")


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    if not place.is_dir():
        sys.exit(f"{place}: no such folder; usage: sample_tables.py [FOLDER]")
    write(place)
