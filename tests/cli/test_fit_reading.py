"""The kinds of files that `fit` reads, scales, and what is pointed out."""

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from api import SCALINGS, FitRequest, ReadRequest, scale_for, standardize
from api import opened_table_module as opened_table
from api import options_module as options
from api import scaling_module as scaling
from cli.test_commands import done, table
from cli.test_fit import failure, help_of
from scipy import io as scipy_io
from scipy import sparse

from kvariates import KMeans, KMedian


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

    def test_urls(self, folder, tmp_path, monkeypatch):
        memory = pytest.importorskip("fsspec").filesystem("memory")
        monkeypatch.chdir(tmp_path)
        memory.pipe_file("/bucket/a.csv", (folder / "a.csv").read_bytes())
        rows = pa.table({"x": [0.0, 1, 9], "y": [0.0, 1, 9]})
        with memory.open("/bucket/rows/a.parquet", "wb") as file:
            pq.write_table(rows, file)
        words = ["-k", 3, "--columns", "x,y", "--seed", 0, "--force"]
        done("fit", folder / "a.csv", *words, "-o", "here")
        centers = Path("here/centers.csv").read_text()
        for url in (f"file://{folder}/a.csv", "memory://bucket/a.csv"):
            for how in ("--stream", "--no-stream"):
                done("fit", url, *words, how, "-o", "there")
                data = json.loads(Path("there/summary.json").read_text())["data"]
                assert data["path"] == url.removeprefix("file://")
            assert Path("there/centers.csv").read_text() == centers
            result = done("predict", "here", url, "-o", "labels.parquet", "--force", "--json")
            assert json.loads(result.stdout)["data"] == url.removeprefix("file://")
        assert "rows is a folder" in done("fit", "memory://bucket/rows", *words).stderr
        for command in (["fit", "-k", 3], ["predict", "here"]):
            line = failure(*command, "memory://bucket/no.csv", "-o", "no.csv")
            assert line.endswith("memory://bucket/no.csv: no such file")
        line = failure("fit", "https://example.org/a.csv", *words)
        assert line.endswith("files are not read over https://; download it first")

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

    def test_medoids_of_sparse_rows(self, tmp_path):
        X = np.random.default_rng(0).poisson(0.6, (60, 30)) + np.eye(60, 30)
        X[:, 0] += 1
        sparse.save_npz(tmp_path / "s.npz", sparse.csr_matrix(X))
        words = [tmp_path / "s.npz", "-k", 2, "--objective", "median", "--metric", "cosine"]
        done("fit", *words, "--seed", 5, "-o", tmp_path / "out")
        model = KMedian(2, metric="cosine", random_state=5).fit(sparse.csr_matrix(X))
        centers = np.loadtxt(tmp_path / "out" / "centers.csv", delimiter=",", skiprows=1)[:, 2:]
        np.testing.assert_array_equal(centers[:, 0], model.medoid_indices_ + 1)
        np.testing.assert_array_equal(centers[:, 1:], X[model.medoid_indices_])
        labels = pq.read_table(tmp_path / "out" / "labels.parquet")["label"]
        assert labels.to_pylist() == model.labels_.tolist()
        for first in (["fit", *words], ["compare", *words[:1], "-k", "2:3"]):
            out = [] if first[0] == "compare" else ["-o", tmp_path / "no"]
            line = failure(*first, "--scale", "standard", *out)
            assert line.startswith("--scale standard would turn the zeros of a sparse matrix")

    def test_places_in_degrees(self, tmp_path):
        rng = np.random.default_rng(0)
        paris, york = rng.normal([48, 2], 1, (20, 2)), rng.normal([40, -74], 1, (20, 2))
        X = np.concatenate([paris, york]).round(3)
        path, out = tmp_path / "a.csv", tmp_path / "out"
        path.write_text("\n".join(["lon,lat", *(f"{b},{a}" for a, b in X)]))
        words = ["fit", path, "-k", 2, "--objective", "median", "--metric", "haversine"]
        done(*words, "--columns", "lat,lon", "--seed", 5, "-o", out)
        model = KMedian(2, metric="haversine", random_state=5).fit(np.radians(X))
        summary = json.loads((out / "summary.json").read_text())
        assert summary["inertia"] == pytest.approx(model.inertia_)
        centers = np.loadtxt(out / "centers.csv", delimiter=",", skiprows=1)[:, 3:]
        np.testing.assert_array_equal(centers, X[model.medoid_indices_])
        done("predict", out, path, "-o", tmp_path / "p.parquet")
        fitted = pq.read_table(out / "labels.parquet")["label"]
        assert fitted.to_pylist() == model.labels_.tolist()
        assert pq.read_table(tmp_path / "p.parquet")["label"].equals(fitted)

        assert "give --columns lat,lon" in failure(*words, "-o", tmp_path / "no")
        line = failure(*words, "--columns", "lat", "-o", tmp_path / "no")
        assert "two columns, latitude and longitude in degrees, not 1" in line
        scaled = ["--columns", "lat,lon", "--scale", "robust", "-o", tmp_path / "no"]
        assert "--scale robust does not work with --metric haversine" in failure(*words, *scaled)
        path.write_text("lat,lon\n95,3\n4,5\n")
        expected = "column 'lat' holds 95, and a latitude is from -90 to 90 degrees"
        assert expected in failure(*words, "-o", tmp_path / "no")
        assert expected in failure("predict", out, path, "-o", tmp_path / "q.csv")
        assert "the file has degrees, latitude first" in help_of("fit")

    def test_choices_of_options_are_those_of_the_sources(self):
        """They are typed twice: an import of the sources would make `kvariates --help` slow."""
        assert tuple(options.Scaling) == scaling.SCALINGS
        assert {*options.Missing, "keep"} == set(get_args(opened_table.Missing))

    def test_one_row_without_values_is_one_row(self, tmp_path):
        (tmp_path / "a.csv").write_text("x,y\n1,2\n,\n3,4\n")
        said = failure("fit", tmp_path / "a.csv", "-k", 2, "-o", tmp_path / "out")
        assert "(2 in 2 columns, 1 row);" in said

    def test_two_identifiers_are_pointed_out_in_the_plural(self, tmp_path):
        lines = [f"{1000 + i},{5000 + 3 * i},{i % 7 / 2},{i % 5 / 2}" for i in range(60)]
        (tmp_path / "a.csv").write_text("\n".join(["id,key,x,y", *lines]) + "\n")
        said = done("fit", tmp_path / "a.csv", "-k", 3, "-o", tmp_path / "out").stderr
        assert "id, key: look like identifiers, and are clustered like measurements" in said
        assert "--id id uses one as a name only, --columns x,y leaves them out" in said

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

    @pytest.mark.parametrize("scaling", SCALINGS[1:])
    def test_small_numbers_are_scaled_too(self, scaling):
        X = np.array([[0.0], [2.0], [5.0], [9.0]])
        made = [scale_for(X * unit, None, scaling).apply(X * unit) for unit in (1.0, 2.0**-80)]
        np.testing.assert_array_equal(*made)

    @pytest.mark.filterwarnings("error")
    def test_numbers_too_large_for_a_scale_are_one_line(self, tmp_path):
        with pytest.raises(ValueError, match="numbers are too large to be scaled"):
            standardize(np.array([[1e308], [-1e308]]))
        path = table(tmp_path / "a.csv", np.array([[1e308, 1], [-1e308, 2], [0, 3]]))
        for words in (("--scale", "standard"), ("--scale", "standard", "--stream")):
            line = failure("fit", path, "-k", 2, *words, "-o", tmp_path / "out")
            assert line.startswith("numbers are too large to be scaled")

    def test_weights_are_not_clustered(self, folder, tmp_path):
        words = ("fit", folder / "a.csv", "-k", 2, "--columns", "x,y", "--weights", "x")
        assert "'x' holds the weights; do not cluster it" in failure(*words, "-o", tmp_path / "out")

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
        done(*words)
        assert (tmp_path / "out" / "labels.parquet").read_bytes() == before

    @pytest.mark.parametrize(
        ("given", "repeated"),
        [
            (["fit", "a", "-q"], "fit a --seed 5 --force"),
            (["fit", "a", "--seed=5", "--json"], "fit a --seed=5 --force"),
            (["fit", "--force", "a", "--seed", "5", "--quiet"], "fit a --seed 5 --force"),
            (["fit", "-k", "3", "--", "-a"], "fit -k 3 --seed 5 --force -- -a"),
        ],
    )
    def test_a_repeated_run_has_its_seed_once_and_may_replace_files(self, given, repeated):
        request = FitRequest(None, ReadRequest(Path("a")), {"random_state": 5}, tuple(given))
        assert request.command == f"kvariates {repeated}"
