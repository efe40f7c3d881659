"""`kvariates anticluster` and `kvariates fit --size-min --size-max`: files and errors."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.test_fit import failure, rows_of, run

from kvariates import AntiClustering


@pytest.fixture
def people(tmp_path):
    """Forty people with a sex, an age and an income."""
    rng = np.random.default_rng(1)
    path = tmp_path / "people.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "sex", "age", "income"])
        for i in range(40):
            income = f"{rng.lognormal(10, 0.5):.0f}"
            writer.writerow([f"p{i}", "fm"[i % 4 == 0], rng.integers(20, 70), income])
    return path


def test_groups_are_those_of_the_estimator_and_files_agree(people, tmp_path):
    out = tmp_path / "out"
    words = ("anticluster", people, "-g", 4, "--balance", "sex", "--seed", 3, "-o", out)
    result = run(*words)
    assert result.exit_code == 0, result.output
    found = sorted(p.name for p in out.iterdir())
    assert found == ["balance.csv", "groups.csv", "picture.png", "summary.json"]
    table = rows_of(people)[1:]
    X = np.array([row[2:] for row in table], dtype=float)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    sexes = np.array([row[1] for row in table])
    model = AntiClustering(4, random_state=3).fit(Z, categories=sexes)
    labels = np.array(rows_of(out / "groups.csv")[1:], dtype=int)[:, 0]
    assert np.array_equal(labels, model.labels_)
    for group in range(4):
        assert np.count_nonzero(labels == group) == 10
        assert np.count_nonzero(sexes[labels == group] == "m") in (2, 3)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["data"]["columns"] == ["age", "income"]
    assert summary["objective"] == model.objective_
    balance = rows_of(out / "balance.csv")
    assert balance[0][:3] == ["group", "rows", "age: difference of means"]
    assert float(balance[1][2]) == pytest.approx(Z[labels == 0, 0].mean(), abs=1e-9)
    assert "means differ by" in result.stdout
    assert "left out, not numeric: name\n" in result.stderr


def test_the_picture_has_the_names_of_the_columns(people, tmp_path, monkeypatch):
    from api import group_balance_module as group_balance

    drawn, draw = [], group_balance.draw_balance
    monkeypatch.setattr(
        group_balance, "draw_balance", lambda *given: drawn.append(draw(*given)) or drawn[0]
    )
    words = ("anticluster", people, "-g", 4, "--balance", "sex", "--seed", 3, "-o", tmp_path / "o")
    assert run(*words).exit_code == 0
    names = [label.get_text() for label in drawn[0].get_yticklabels()]
    assert names == ["age", "income", "share of f", "share of m"]


def test_names_in_any_script_are_drawn_without_a_warning(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 2))
    pq.write_table(pa.table({"名前": x[:, 0], "b": x[:, 1]}), tmp_path / "a.parquet")
    result = run("anticluster", tmp_path / "a.parquet", "-g", 2, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Glyph" not in result.stderr


def test_rows_are_named_as_in_the_file(tmp_path):
    """Times stay times, a row that is left out has no group, and no column is lost."""
    times = np.datetime64("2020-01-01T10:00") + np.arange(9).astype("timedelta64[h]")
    x = np.arange(9.0)
    x[4] = np.nan
    pq.write_table(pa.table({"group": times.astype("M8[ns]"), "x": x}), tmp_path / "a.parquet")
    words = ["-g", 2, "--id", "group", "--missing", "drop", "-o", tmp_path / "out"]
    result = run("anticluster", tmp_path / "a.parquet", *words)
    assert result.exit_code == 0, result.output
    head, *rows = rows_of(tmp_path / "out" / "groups.csv")
    assert head == ["group of the data", "group"]
    assert [row[0][:16] for row in rows] == [str(time).replace("T", " ")[:16] for time in times]
    assert [row[1] for row in rows].count("") == 1
    assert rows[4][1] == ""


def test_errors_of_anticluster_are_one_line(people, tmp_path):
    out = tmp_path / "out"
    assert "-g 99 is above the 40 rows" in failure("anticluster", people, "-g", 99, "-o", out)
    assert "'town'" in failure("anticluster", people, "-g", 2, "--balance", "town", "-o", out)
    words = failure("anticluster", people, "-g", 2, "--objective", "best", "-o", out)
    assert "'best' is not one of" in words
    assert not out.exists()


def test_size_limits_of_fit(people, tmp_path):
    out = tmp_path / "out"
    limits = ("--size-min", 9, "--size-max", 11)
    words = ("fit", people, "-k", 4, "--columns", "age,income", "--seed", 0, "-o", out)
    assert run(*words, *limits).exit_code == 0
    labels = pq.read_table(out / "labels.parquet")["label"].to_numpy()
    assert set(np.bincount(labels, minlength=4)) <= {9, 10, 11}
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["parameters"]["size_max"] == 11
    assert "--size-max 3 and -k 4 leave room for" in failure(
        *words, "--force", "-q", "--size-max", 3
    )
    assert "--size-min 9 does not work on a stream" in failure(
        *words, "--force", *limits, "--stream"
    )


def test_group_sizes_and_links(tmp_path):
    path, out = tmp_path / "a.csv", tmp_path / "out"
    rows = ["1,2,h,a", "2,3,h,b", "3,4,,a", "4,5,,b", "5,6,g,a", "6,7,g,c", "7,8,,", "8,9,,c"]
    path.write_text("\n".join(["x,y,home,team", *rows]))
    words = ["--must-link", "home", "--cannot-link", "team", "--group-sizes", "3,3,2", "-o", out]
    assert run("anticluster", path, "-g", 3, *words).exit_code == 0
    groups = [int(cell) for (cell,) in rows_of(out / "groups.csv")[1:]]
    assert np.bincount(groups).tolist() == [3, 3, 2]
    assert (groups[0], groups[4]) == (groups[1], groups[5])
    assert len({groups[i] for i in (0, 2, 4)}) == 3
    assert groups[1] != groups[3]
    assert groups[5] != groups[7]
    line = failure("anticluster", path, "-g", 2, "--cannot-link", "team", "-o", tmp_path / "b")
    assert line == "--cannot-link team: 3 rows have the same value, and there are 2 groups"
    line = failure("anticluster", path, "-g", 2, "--group-sizes", "3,4", "-o", tmp_path / "b")
    assert "--group-sizes add up to 7" in line


def test_cells_that_are_missing_by_na_link_no_rows(tmp_path):
    path, out = tmp_path / "a.csv", tmp_path / "out"
    path.write_text("x,y,team\n1,2,guest\n2,3,guest\n3,4,a\n4,5,guest\n5,6,a\n6,7,guest\n")
    words = ["-g", 2, "--na", "guest", "-o", out]
    assert run("anticluster", path, *words, "--cannot-link", "team").exit_code == 0
    groups = [cell for (cell,) in rows_of(out / "groups.csv")[1:]]
    assert groups[2] != groups[4]
    assert run("anticluster", path, *words, "--must-link", "team", "--force").exit_code == 0
