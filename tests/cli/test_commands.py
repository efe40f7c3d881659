"""`predict`, `compare` and `audit`."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from api import load_model
from api import measuring_module as measuring
from cli.test_fit import failure, run

from kvariates import KMeans, choose_k


def done(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


def table(path, X):
    """Write rows with missing cells as CSV."""
    cells = (",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in X)
    path.write_text("\n".join(["x,y", *cells]) + "\n")
    return path


class TestPredict:
    def test_labels_are_those_of_the_fit(self, folder, tmp_path):
        fitted = pq.read_table(folder / "out" / "labels.parquet")["label"].to_pylist()
        words = [folder / "a.csv", "--id", "id", "--keep", "-o", tmp_path / "p.parquet"]
        for model in (folder / "out", folder / "out" / "model.skops"):
            done("predict", model, *words, "--force")
            table = pq.read_table(tmp_path / "p.parquet")
            assert table.column_names == ["id", "name", "x", "y", "label"]
            assert table["label"].to_pylist() == fitted
        result = done(
            "predict", folder / "out", folder / "a.csv", "-o", tmp_path / "p.csv", "--json"
        )
        assert [c["rows"] for c in json.loads(result.stdout)["clusters"]] == [20, 20, 20]
        assert (tmp_path / "p.csv").read_text().splitlines()[0].strip('"') == "label"

    def test_the_model_is_a_pipeline_in_the_units_of_the_file(self, folder):
        from skops import io

        path = folder / "out" / "model.skops"
        names = io.get_untrusted_types(file=path)
        assert names
        assert all(name.startswith("kvariates.") for name in names)
        model = io.load(path, trusted=names)
        assert list(model.feature_names_in_) == ["x", "y"]
        assert model[-1].verbose == 0

    def test_bad_input_is_one_line(self, folder, tmp_path):
        (tmp_path / "b.csv").write_text("x,z\n1,2\n")
        out = ["-o", tmp_path / "p.parquet"]
        assert "no column 'y'" in failure("predict", folder / "out", tmp_path / "b.csv", *out)
        assert "no such file" in failure("predict", tmp_path / "no.skops", folder / "a.csv", *out)
        (tmp_path / "p.parquet").touch()
        line = failure("predict", folder / "out", folder / "a.csv", *out)
        assert "p.parquet: exists; --force" in line

    def test_dropped_rows_have_no_label(self, folder, tmp_path):
        (tmp_path / "b.csv").write_text("x,y\n0,0\n,5\n9,0\n")
        out = tmp_path / "p.parquet"
        done("predict", folder / "out", tmp_path / "b.csv", "--missing", "drop", "-o", out)
        labels = pq.read_table(out)["label"].to_pylist()
        assert labels[1] is None
        assert None not in (labels[0], labels[2])

    def test_readers_find_every_row_of_a_csv_file(self, folder, tmp_path):
        (tmp_path / "b.csv").write_text("x,y\n0,0\n,5\n9,0\n")
        out = tmp_path / "p.csv"
        done("predict", folder / "out", tmp_path / "b.csv", "--missing", "drop", "-o", out)
        labels = pd.read_csv(out)["label"]
        assert labels.isna().tolist() == [False, True, False]

    def test_labels_can_be_printed(self, folder, tmp_path):
        done("predict", folder / "out", folder / "a.csv", "-o", tmp_path / "p.csv")
        result = done("predict", folder / "out", folder / "a.csv", "-o", "-")
        assert result.stdout_bytes == (tmp_path / "p.csv").read_bytes()

    def test_the_input_is_not_replaced(self, folder):
        before = (folder / "a.csv").read_bytes()
        words = ("-o", folder / "a.csv", "--force")
        line = failure("predict", folder / "out", folder / "a.csv", *words)
        assert "is read by this command; write to another place" in line
        assert (folder / "a.csv").read_bytes() == before

    def test_a_link_is_replaced_and_not_what_it_leads_to(self, folder, tmp_path):
        (tmp_path / "sub").mkdir()
        real, link = tmp_path / "sub" / "real.csv", tmp_path / "link.csv"
        real.write_text("old")
        link.symlink_to(real)
        words = ["predict", folder / "out", folder / "a.csv", "-o", link]
        assert "link.csv: exists; --force" in failure(*words)
        done(*words, "--force")
        assert link.read_text().splitlines()[0] == '"label"'
        assert [path.name for path in (tmp_path / "sub").iterdir()] == ["real.csv"]
        assert real.read_text() == "old"

    @pytest.mark.parametrize("name", ["p.txt", "p.feather", "p"])
    def test_labels_are_written_as_their_file_is_called(self, tmp_path, name):
        """The name is checked first: there is no model."""
        line = failure("predict", "no.skops", "no.csv", "-o", tmp_path / name)
        assert "the labels are written as .parquet or .csv" in line
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("words", [["--objective", "median"], ["--stream"]])
    def test_other_models(self, folder, tmp_path, words):
        first = ["fit", folder / "a.csv", "-k", 3, "--columns", "x,y", "--seed", 1]
        done(*first, *words, "-o", tmp_path / "out")
        done("predict", tmp_path / "out", folder / "a.csv", "-o", tmp_path / "p.parquet")
        fitted = pq.read_table(tmp_path / "out" / "labels.parquet")["label"]
        assert pq.read_table(tmp_path / "p.parquet")["label"].equals(fitted)

    @pytest.mark.parametrize("scale", ["none", "robust"])
    def test_missing_values_get_the_means_of_the_fit(self, tmp_path, scale):
        """Not those of the new file, in which a row would depend on its neighbours."""
        rng, out = np.random.default_rng(2), tmp_path / "out"
        X = rng.normal(size=(60, 2)) + np.repeat([[0, 0], [50, 90]], 30, axis=0)
        X[5, 0] = X[40, 1] = np.nan
        table(tmp_path / "fit.csv", X)
        words = ("--missing", "mean", "--scale", scale, "--seed", 1, "-o", out)
        result = run("fit", tmp_path / "fit.csv", "-k", 2, *words)
        assert "2 missing values were filled in with the mean of the column" in result.stderr
        mean = np.nanmean(X[:, 0])
        full = table(tmp_path / "full.csv", np.array([[mean, 30.0]]))
        few = table(tmp_path / "few.csv", np.array([[np.nan, 30.0]]))
        many = table(tmp_path / "many.csv", np.array([[np.nan, 30.0], [1e6, 30.0]]))
        found = []
        for i, path in enumerate((full, few, many)):
            labels = tmp_path / f"{i}.csv"
            assert run("predict", out, path, "--missing", "mean", "-o", labels).exit_code == 0
            found.append(labels.read_text().split()[1])
        assert found == [found[0]] * 3
        model = load_model(out)
        filled = model.named_steps["fill"].statistics_
        np.testing.assert_allclose(filled, np.nanmean(X, axis=0))

    def test_a_model_without_means_fills_in_nothing(self, folder, tmp_path):
        words = ("predict", folder / "out", folder / "a.csv", "--missing", "mean")
        assert "was fitted without --missing mean" in failure(*words, "-o", tmp_path / "l.csv")

    def test_columns_in_another_order_are_not_swapped(self, tmp_path):
        X = np.column_stack([np.repeat([0.0, 10.0], 20), np.repeat([5.0, 3.0], 20)])
        table(tmp_path / "a.csv", X)
        run("fit", tmp_path / "a.csv", "-k", 2, "-o", tmp_path / "out")
        found = []
        for columns in ("x,y", "y,x"):
            labels = tmp_path / f"{columns}.csv"
            run("predict", tmp_path / "out", tmp_path / "a.csv", "--columns", columns, "-o", labels)
            found.append(labels.read_text())
        assert found[0] == found[1]


class TestCompare:
    @pytest.mark.filterwarnings("ignore:Deviations of columns")
    def test_it_suggests_what_choose_k_suggests(self, folder):
        words = ["compare", folder / "a.csv", "-k", "2:5", "--columns", "x,y", "--seed", 4]
        found = json.loads(done(*words, "--json").stdout)
        X = np.loadtxt(folder / "a.csv", delimiter=",", skiprows=1, usecols=(2, 3))
        choice = choose_k(X, (2, 5), random_state=4)
        assert found["suggestion"] == {
            "k": choice.k, "clear": choice.clear, "guess": choice.guess, "reason": choice.reason,
        }  # fmt: skip
        assert {(run["k"], run["init"]) for run in found["runs"]} == {
            (k, init) for k in range(2, 6) for init in ("k-means++", "d2", "random")
        }
        for line in found["runs"]:
            model = KMeans(line["k"], init=line["init"], n_init=1, random_state=4).fit(X)
            assert line["cost"] == model.inertia_
            assert line["gap"] >= 0
        shown = done(*words).stdout
        line = f"k = {choice.k} ({choice.ks.min()} to {choice.ks.max()} were tried): "
        assert line + choice.reason in shown.replace("\n", " ")

    @pytest.mark.parametrize("n", [1, 12, 30])
    def test_by_default_from_2_to_20_or_to_the_number_of_rows(self, tmp_path, n):
        np.save(tmp_path / "X.npy", np.random.default_rng(0).random((n, 2)))
        words = ["compare", tmp_path / "X.npy", "--init", "d2", "--json"]
        runs = json.loads(done(*words).stdout)["runs"]
        assert [run["k"] for run in runs] == list(range(min(2, n), min(20, n) + 1))

    @pytest.mark.parametrize("words", [["-k", "5"], ["-k", "5:2"], ["-k", "2:99"], ["--init", "x"]])
    def test_bad_input(self, folder, words):
        line = failure("compare", folder / "a.csv", "--columns", "x,y", *words)
        if "2:99" in words:
            assert line.endswith("has 60 rows, so -k can go up to 60, not 99")

    def test_an_identifier_is_not_compared(self, folder):
        """What the remark advises works, and gives the suggestion of the other columns."""
        words = ("compare", folder / "a.csv", "-k", "2:3", "--seed", 0, "--json")
        assert "--id id uses it as a name only" in done(*words).stderr
        named = done(*words, "--id", "id")
        assert "identifier" not in named.stderr
        columns = json.loads(done(*words, "--columns", "x,y").stdout)
        costs = [line["cost"] for line in json.loads(named.stdout)["runs"]]
        assert costs == [line["cost"] for line in columns["runs"]]


def _and_words(attack, summary=measuring.Attack.summary):
    return summary(attack) | {"words": attack.words()[-1]}


class TestAudit:
    def test_words_of_a_claim_that_holds(self):
        result = done("audit", "grid", "--runs", 320)
        assert "claim      epsilon = 1, delta = 0: one row more or less makes" in result.stdout
        assert re.search("The attack (found nothing|showed .*): this does not prove", result.stdout)

    def test_a_broken_method_is_found_and_ends_with_1(self, monkeypatch):
        true = measuring.AttackedMethod.__call__

        def broken(attacked, X):
            model = true(attacked, X)
            model.cluster_counts_ = np.array([0.0, len(X)])  # no noise
            return model

        monkeypatch.setattr(measuring.AttackedMethod, "__call__", broken)
        monkeypatch.setattr(measuring.Attack, "summary", _and_words)
        result = run("audit", "grid", "--runs", 320, "--json")
        assert result.exit_code == 1
        found = json.loads(result.stdout)
        assert not found["passed"]
        assert found["certified_epsilon"] > 1
        assert "THE CLAIM IS BROKEN" in found["words"]

    def test_bad_input(self):
        assert "is not one of" in failure("audit", "magic")
        assert "runs cannot show a violation" in failure("audit", "grid", "--runs", 4)
