"""`predict`, `compare`, `audit`, `experiment`, and the kinds of files that `fit` reads."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from cli.test_fit import failure, run
from scipy import io as scipy_io
from scipy import sparse

from kvariates import KMeans, KMedian, choose_k
from kvariates.cli import audit_command, experiment_command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three groups of twenty rows, with a number and a name, and a model of them."""
    path = tmp_path_factory.mktemp("commands")
    rng = np.random.default_rng(0)
    X = np.repeat([[0, 0], [5, 900], [9, 0]], 20, axis=0) + rng.normal(size=(60, 2))
    lines = [f"{i + 100},n{i},{x:.6f},{y:.6f}" for i, (x, y) in enumerate(X)]
    (path / "a.csv").write_text("\n".join(["id,name,x,y", *lines]) + "\n")
    words = ["--columns", "x,y", "--scale", "standard", "--seed", 1, "-o", path / "out"]
    assert run("fit", path / "a.csv", "-k", 3, *words).exit_code == 0
    return path


def done(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


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

    @pytest.mark.parametrize("words", [["--objective", "median"], ["--stream"]])
    def test_other_models(self, folder, tmp_path, words):
        first = ["fit", folder / "a.csv", "-k", 3, "--columns", "x,y", "--seed", 1]
        done(*first, *words, "-o", tmp_path / "out")
        done("predict", tmp_path / "out", folder / "a.csv", "-o", tmp_path / "p.parquet")
        fitted = pq.read_table(tmp_path / "out" / "labels.parquet")["label"]
        assert pq.read_table(tmp_path / "p.parquet")["label"].equals(fitted)


class TestReading:
    def test_every_kind_of_file_gives_the_same_centres(self, folder, tmp_path):
        X = np.random.default_rng(1).normal(size=(50, 3)).round(6)
        X[np.abs(X) < 0.5] = 0
        table = pa.table({f"x{j}": X[:, j] for j in range(3)})
        pq.write_table(table, tmp_path / "a.parquet")
        pyarrow.feather.write_feather(table, tmp_path / "a.feather")
        with (
            pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file,
            pa.ipc.new_stream(file, table.schema) as writer,
        ):
            writer.write_table(table)
        np.save(tmp_path / "a.npy", X)
        np.savez_compressed(tmp_path / "a.npz", X=X)
        sparse.save_npz(tmp_path / "s.npz", sparse.csr_matrix(X))
        scipy_io.mmwrite(tmp_path / "a.mtx", sparse.coo_matrix(X), precision=16)
        np.savetxt(tmp_path / "a.txt", X, fmt="%.17g")
        np.savetxt(tmp_path / "a.tsv", X, fmt="%.17g", delimiter="\t")
        model = KMeans(4, random_state=3).fit(X)
        for path in sorted(tmp_path.iterdir()):
            out = tmp_path / "out"
            done("fit", path, "-k", 4, "--seed", 3, "-o", out, "--force")
            found = np.loadtxt(out / "centers.csv", delimiter=",", skiprows=1)[:, 2:]
            np.testing.assert_allclose(found, model.cluster_centers_, atol=1e-12, err_msg=path.name)

    def test_graphs(self, tmp_path):
        n = 24
        edges = [(f"n{i}", f"n{(i + 1) % n}", 1 + i % 3) for i in range(n)]
        lines = ["from,to,length", *(f"{a},{b},{w}" for a, b, w in edges)]
        (tmp_path / "a.csv").write_text("\n".join([*lines, "n1,n0,9"]))  # longer: not used
        spaced = ["# a road network", *(f"{a} {b} {w}" for a, b, w in edges)]
        (tmp_path / "a.txt").write_text("\n".join(spaced))
        names = sorted(f"n{i}" for i in range(n))
        at = {name: i for i, name in enumerate(names)}
        lengths = np.zeros((n, n))
        for a, b, w in edges:
            lengths[at[a], at[b]] = lengths[at[b], at[a]] = w
        model = KMedian(3, metric="graph", random_state=5).fit(sparse.csr_matrix(lengths))
        sparse.save_npz(tmp_path / "a.npz", sparse.csr_matrix(lengths))
        scipy_io.mmwrite(tmp_path / "a.mtx", sparse.coo_matrix(np.triu(lengths)))
        words = ["-k", 3, "--objective", "median", "--metric", "graph", "--seed", 5, "--force"]
        for name in ("a.csv", "a.txt", "a.npz", "a.mtx"):
            out = tmp_path / "out"
            result = done("fit", tmp_path / name, *words, "-o", out)
            assert "24 nodes and 24 edges" in result.stderr
            table = pq.read_table(out / "labels.parquet")
            assert table.column_names == ["node", "label"]
            assert table["label"].to_pylist() == model.labels_.tolist()
            if name in ("a.csv", "a.txt"):
                medoids = [names[i] for i in model.medoid_indices_]
                assert table["node"].to_pylist() == names
                rows = (out / "centers.csv").read_text().splitlines()
                assert [row.split(",")[2] for row in rows] == ["node", *medoids]
        line = failure("predict", tmp_path / "out", tmp_path / "a.csv", "-o", tmp_path / "p.csv")
        assert "no labels for new rows" in line

    def test_identifiers_and_scales_are_pointed_out(self, folder, tmp_path):
        words = ["fit", folder / "a.csv", "-k", 3, "--force", "-o", tmp_path / "out"]
        said = done(*words).stderr
        assert "id: looks like an identifier" in said
        assert "--id id uses it as a name only, --columns x,y leaves it out" in said
        assert "columns have very different scales" in said
        assert "--scale standard" in said
        chosen = done("fit", folder / "a.csv", "-k", "auto", "--force", "-o", tmp_path / "out")
        assert chosen.stderr.count("scales") == 1
        assert "Deviations of columns" not in chosen.stderr
        quiet = done(*words, "--id", "id", "--scale", "robust").stderr
        assert quiet == "kvariates: left out, not numeric: name\n"
        summary = json.loads((tmp_path / "out" / "summary.json").read_text())
        assert summary["data"]["columns"] == ["x", "y"]

    @pytest.mark.parametrize("scale", ["standard", "minmax", "robust"])
    def test_scales(self, folder, tmp_path, scale):
        words = ["--columns", "x,y", "--seed", 2, "--scale", scale, "-o", tmp_path / "out"]
        done("fit", folder / "a.csv", "-k", 3, *words)
        centers = np.loadtxt(tmp_path / "out" / "centers.csv", delimiter=",", skiprows=1)[:, 2:]
        near = sorted(centers.round(0).tolist())
        np.testing.assert_allclose(near, [[0, 0], [5, 900], [9, 0]], atol=1)

    def test_k_is_chosen(self, folder, tmp_path):
        words = ["--columns", "x,y", "--scale", "standard", "--seed", 2, "-o", tmp_path / "out"]
        assert "k = 3: " in done("fit", folder / "a.csv", "-k", "auto", *words).stderr
        summary = json.loads((tmp_path / "out" / "summary.json").read_text())
        assert summary["parameters"]["n_clusters"] == 3

    def test_the_command_of_a_summary_repeats_the_run(self, folder, tmp_path, monkeypatch):
        import shlex

        done("fit", folder / "a.csv", "-k", 3, "--columns", "x,y", "-o", tmp_path / "out")
        before = (tmp_path / "out" / "labels.parquet").read_bytes()
        summary = json.loads((tmp_path / "out" / "summary.json").read_text())
        name, *words = shlex.split(summary["command"])
        assert name == "kvariates"
        done(*words, "--force")
        assert (tmp_path / "out" / "labels.parquet").read_bytes() == before


class TestCompare:
    @pytest.mark.filterwarnings("ignore:Deviations of columns")
    def test_it_suggests_what_choose_k_suggests(self, folder):
        words = ["compare", folder / "a.csv", "-k", "2:5", "--columns", "x,y", "--seed", 4]
        found = json.loads(done(*words, "--json").stdout)
        X = np.loadtxt(folder / "a.csv", delimiter=",", skiprows=1, usecols=(2, 3))
        choice = choose_k(X, (2, 5), random_state=4)
        assert found["suggestion"] == {
            "k": choice.k, "clear": choice.clear, "reason": choice.reason,
        }  # fmt: skip
        assert {(run["k"], run["init"]) for run in found["runs"]} == {
            (k, init) for k in range(2, 6) for init in ("k-means++", "d2", "random")
        }
        for line in found["runs"]:
            model = KMeans(line["k"], init=line["init"], n_init=1, random_state=4).fit(X)
            assert line["cost"] == model.inertia_
            assert line["gap"] >= 0
        shown = done(*words).stdout
        assert f"k = {choice.k}: {choice.reason}" in shown.replace("\n", " ")

    @pytest.mark.parametrize("words", [["-k", "5"], ["-k", "5:2"], ["-k", "2:99"], ["--init", "x"]])
    def test_bad_input(self, folder, words):
        failure("compare", folder / "a.csv", "--columns", "x,y", *words)


def _and_words(attack, summary=audit_command.Attack.summary):
    return summary(attack) | {"words": attack.words()[-1]}


class TestAudit:
    def test_words_of_a_claim_that_holds(self):
        result = done("audit", "grid", "--runs", 320)
        assert "claim      epsilon = 1, delta = 0: one row more or less makes" in result.stdout
        assert "no violation found; that is no proof" in result.stdout

    def test_a_broken_method_is_found_and_ends_with_1(self, monkeypatch):
        true = audit_command.AttackedMethod.__call__

        def broken(attacked, X):
            model = true(attacked, X)
            model.cluster_counts_ = np.array([0.0, len(X)])  # no noise
            return model

        monkeypatch.setattr(audit_command.AttackedMethod, "__call__", broken)
        monkeypatch.setattr(audit_command.Attack, "summary", _and_words)
        result = run("audit", "grid", "--runs", 320, "--json")
        assert result.exit_code == 1
        found = json.loads(result.stdout)
        assert not found["passed"]
        assert found["certified_epsilon"] > 1
        assert "THE CLAIM IS BROKEN" in found["words"]

    def test_bad_input(self):
        assert "is not one of" in failure("audit", "magic")
        assert "runs cannot show a violation" in failure("audit", "grid", "--runs", 4)


class TestExperiment:
    def test_names_are_listed(self):
        listed = done("experiment").stdout
        assert "quality" in listed
        assert "__init__" not in listed
        assert "there is no experiment 'nope'; there are audit," in failure("experiment", "nope")

    def test_without_the_repository(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(experiment_command, "__file__", str(tmp_path / "a/b/c/d/e.py"))
        assert "the experiments are in the repository" in failure("experiment", "quality")

    def test_it_runs_with_its_own_arguments(self, tmp_path, monkeypatch, capfd):
        for name in ("experiments/__init__.py", "src/kvariates/__init__.py", "pyproject.toml"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        text = 'import sys\nif __name__ == "__main__":\n    print(sys.argv[1:]); sys.exit(7)\n'
        (tmp_path / "experiments" / "small.py").write_text(text)
        monkeypatch.chdir(tmp_path)
        monkeypatch.delitem(os.environ, "PYTHONPATH", raising=False)
        result = run("experiment", "small", "--factor", 3)
        assert result.exit_code == 7
        assert capfd.readouterr().out == "['--factor', '3']\n"
