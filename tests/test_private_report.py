"""Files of private fits hold nothing that was not charged: no rows, labels or exact statistics."""

import base64
import json
import re
from dataclasses import fields, replace

import numpy as np
import pytest
from api import (
    Charge,
    FitRecord,
    FitRun,
    FittedTable,
    Ledger,
    Loss,
    ShownRows,
    fit_html,
    release_costs,
    times_as_likely,
    write_fit,
)
from browser.pages import plain
from browser.reports import blobs, run_of

from kvariates import PrivateKMeans, PrivateKMedian
from kvariates.report import write_report

NUMBERS = re.compile(r"[-\u2212]?\d[\d,]*\.?\d*(?:e[-+\u2212]?\d+)?")
CELLS = ("points", "labels", "values", "rows", "radii", "edges")


def private_model(adjacency="add-remove", delta=0.0):
    X = np.clip(blobs(3137, 3, 3, seed=7), -29, 29)
    model = PrivateKMeans(3, epsilon=2.0, delta=delta, bounds=(-30, 30), adjacency=adjacency)
    model.fit(X)
    model.cluster_centers_ = np.array([[-9.875, 2.25, 7.125], [6.5, -3.75, 0.5], [4.0, 8.5, -6.0]])
    model.cluster_counts_ = np.array([1111.25, 987.5, 1040.75])
    return model


def fitted(adjacency="add-remove", delta=0.0):
    """A private fit, and a run that holds everything that must not be written.

    What was released is replaced by fixed numbers: noise could be equal to a secret by chance.
    """
    model = private_model(adjacency, delta)
    X = np.clip(blobs(3137, 3, 3, seed=7), -29, 29)
    labels = model.predict(X)
    run = run_of(model, X, ("a", "b", "c"), sizes=np.bincount(labels, minlength=3))
    cost = float(((X - model.cluster_centers_[labels]) ** 2).sum())
    run = replace(
        run,
        inertia=cost,
        n_iter=17,
        seconds=12.3456,
        costs=(cost + 2e5, cost + 1e5, cost),
        notes=(f"{len(X)} rows",),
    )
    return X, run, ShownRows(X, labels, model.cluster_centers_)


def files(folder):
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def tokens(words):
    found = set()
    for token in NUMBERS.findall(words):
        try:
            found.add(float(token.replace(",", "").replace("\u2212", "-")))
        except ValueError:
            continue
    return found


def secrets(X, run, shown):
    """Numbers that must not be in any file, by what they are."""
    labels = shown.labels
    means = np.array([X[labels == j].mean(axis=0) for j in range(run.k)])
    public = {float(f"{v:.4g}") for v in [*run.centers.ravel(), *run.record.counts]}
    found = {
        "rows": [len(X)],
        "sizes": np.bincount(labels),
        "cost": [run.inertia, *run.costs],
        "time": [run.seconds],
        "means": [*means.ravel(), *X.mean(axis=0)],
        "spread": [*X.std(axis=0), *X.var(axis=0)],
        "range": [*X.min(axis=0), *X.max(axis=0)],
        "values": X[:200].ravel(),
    }
    kept = {what: {float(v) for v in values} for what, values in found.items()}
    return {
        what: {v for v in values if float(f"{v:.4g}") not in public and abs(abs(v) - 29) > 1e-9}
        for what, values in kept.items()
    }


def leaks(folder, X, run, shown):
    """What is found of the secrets in the files of a folder."""
    found = set()
    for words in files(folder).values():
        written = tokens(re.sub(r"<(style|script)>.*?</\1>", "", words, flags=re.DOTALL))
        for what, values in secrets(X, run, shown).items():
            exact = values & written
            short = {v for v in values if abs(v) >= 100 and float(f"{v:.4g}") in written}
            short |= {v for v in values if abs(v) < 100 and float(f"{v:.5g}") in written}
            found |= {what} if exact or short else set()
        for block in re.findall(r'<script type="application/json">(.*?)</script>', words):
            data = json.loads(block)
            found |= {name for name in CELLS if base64.b64decode(data.get(name, ""))}
    return found


@pytest.mark.parametrize(("adjacency", "delta"), [("add-remove", 0.0), ("replace-one", 1e-6)])
def test_private_files_hold_no_rows_labels_or_exact_numbers(tmp_path, adjacency, delta):
    X, run, shown = fitted(adjacency, delta)
    write_fit(run, shown, tmp_path)
    assert leaks(tmp_path, X, run, shown) == set()


def test_the_search_finds_what_a_public_report_shows(tmp_path):
    X, run, shown = fitted()
    bare = FitRecord(centers=run.centers)  # no ledger: an ordinary report
    write_fit(replace(run, record=bare), shown, tmp_path)
    found = leaks(tmp_path, X, run, shown)
    assert {"rows", "sizes", "cost", "time", "points", "labels", "values"} <= found
    report = tmp_path / "report.html"
    report.write_text(f"mean {X[:, 0].mean():.5g}, least {X.min():.7g}, spread {X.std(axis=0)[1]}")
    assert {"means", "spread"} <= leaks(tmp_path, X, run, shown)


def test_private_files_depend_on_released_values_only(tmp_path):
    """Runs that share a model, but no row, size, cost or time, give the same bytes."""
    _, run, shown = fitted()
    other = replace(
        run, sizes=run.sizes[::-1] + 5, masses=run.masses + 9.5, inertia=1.0, n_iter=3,
        seconds=99.0, costs=(),
        table=replace(run.table, rows=10, weighted=True, kept=np.arange(20) % 2 == 0),
    )  # fmt: skip
    rows = replace(shown, X=shown.X[::-1] * 2, labels=1 - (shown.labels > 0))
    for name, files_of in (("a", (run, shown)), ("b", (other, rows))):
        (tmp_path / name).mkdir()
        write_fit(*files_of, tmp_path / name)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_a_released_run_has_no_field_that_was_not_charged():
    _, run, _ = fitted()
    found = run.released()
    known = ("parameters", "centers", "record", "command", "medoids", "errors")
    assert all(getattr(found, name) is getattr(run, name) for name in known)
    np.testing.assert_array_equal(found.sizes, run.record.counts)
    np.testing.assert_array_equal(found.masses, run.record.counts)
    empty = {f.name: f.default for f in fields(FitRun) if f.name not in (*known, "sizes", "masses")}
    del empty["table"]
    assert {name: getattr(found, name) for name in empty} == empty
    assert vars(found.table) == vars(FittedTable(run.table.path, run.table.names, ()))


def test_the_page_has_the_ledger_the_drawing_and_what_may_be_published(tmp_path):
    _, run, _ = fitted()
    write_fit(run, None, tmp_path)
    page = files(tmp_path)["report.html"]
    ledger = run.record.ledger
    assert "rows are in  -30 to 30 in each of 3 features" in page
    for line in ledger.report().splitlines():
        assert line.replace('"', "&quot;").replace("'", "&#x27;").strip() in page
    shares = [
        float(v) for v in re.findall(r'<rect class="k\d+" x="[\d.]+%" width="([\d.]+)%"', page)
    ]
    assert sum(shares) == pytest.approx(100, abs=0.1)
    assert "May be published" in page
    assert "May not be published" in page
    assert "The exact number of rows" in page
    summary = json.loads(files(tmp_path)["summary.json"])
    assert summary["privacy"]["claim"] == {"epsilon": 2.0, "delta": 0.0}
    assert "rows" not in summary["data"]
    assert not {"inertia", "seconds", "n_iter"} & summary.keys()


def test_a_public_number_of_rows_is_not_called_secret(tmp_path):
    _, run, _ = fitted("replace-one", 1e-6)
    write_fit(run, None, tmp_path)
    assert "The exact number of rows" not in files(tmp_path)["report.html"]


def charge(label, epsilon, group=None):
    return Charge(label, "laplace", "add-remove", 1.0, "l1", 1.0, epsilon=epsilon, parallel=group)


def test_parts_of_the_budget_add_up_to_the_total():
    ledgers = [fitted(delta=delta)[1].record.ledger for delta in (0.0, 1e-6)]
    releases = [
        charge("rows", 0.5), charge("leaf 1: rows", 0.25, "leaves"),
        charge("leaf 2: sums", 0.125, "leaves"), charge("leaf 3: rows", 0.0625, "leaves"),
        charge("step 1", 0.25), charge("step 2", 0.5),
    ]  # fmt: skip
    ledgers.append(Ledger("add-remove", releases, Loss(2.0, 0.0)))
    for ledger in ledgers:
        total = ledger.rho if ledger.concentrated else ledger.total().epsilon
        assert sum(release_costs(ledger).values()) == pytest.approx(total, rel=1e-9)
    assert release_costs(ledgers[-1]) == {
        "rows": 0.5, "leaf …: rows": 0.25, "step …": 0.75,
    }  # fmt: skip


def test_kinds_of_releases_are_in_plain_words():
    labels = ["tree, level 1: rows", "tree, level 2: rows", "tree, leaves: rows", "12 centres",
              "partition 1, level 2: cubes", "row 1", "row 2", "round 1: demand"]  # fmt: skip
    ledger = Ledger("add-remove", [charge(label, 0.125) for label in labels], Loss(2.0, 0.0))
    assert release_costs(ledger) == {
        "tree, level …: rows": 0.25, "tree, leaves: rows": 0.125, "12 centres": 0.125,
        "partition 1, level 2: cubes": 0.125, "row …": 0.25, "round 1: demand": 0.125,
    }  # fmt: skip


@pytest.mark.parametrize("scaled", [False, True])
def test_the_ledger_names_the_columns_of_the_file(scaled):
    X = np.random.default_rng(0).uniform(0, 100, (200, 2))
    model = PrivateKMeans(2, epsilon=1.0, bounds=([0, 0], [120, 200])).fit(X)
    run = run_of(model, X, ("age", "x0 <b>"), sizes=model.cluster_counts_, scaled=scaled)
    words = plain(fit_html(run, None))
    unit = " (in scaled units)" if scaled else ""
    assert f"rows are in age 0 to 120, x0 <b> 0 to 200{unit} condition" in words
    assert "x1" not in words
    assert "(see Budget)" not in model.ledger_.report()
    assert "x0 0 to 120, x1 0 to 200" in model.ledger_.report()


def test_the_ledger_names_the_columns_of_a_data_frame():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(np.full((5000, 2), 50.0), columns=["x1", "age"])
    model = PrivateKMeans(1, epsilon=2.0, bounds={"age": (0, 120), "x1": (0, 200)}, method="lloyd")
    words = " ".join(model.fit(X).ledger_.report().split())
    assert "columns x1, age rows are in x1 0 to 200, age 0 to 120 condition" in words
    assert re.search(r"centre 0: x1 \+- \S+, age \+- \S+ Releases", words)


def noisy_run():
    """A private fit, with one centre that may be only noise, and error bars."""
    _, run, _ = fitted()
    doubtful, notes = np.array([False, True, False]), ("1 of 3 centres may be only noise.",)
    record = replace(run.record, doubtful=doubtful, notes=notes)
    errors = np.array([[0.5, 30.0, 0.25], [np.nan] * 3, [0.125, np.nan, 0.5]])
    return replace(run, errors=errors, record=record)


def test_no_centre_that_may_be_only_noise_is_compared():
    run = noisy_run()
    page = fit_html(run, None)
    words = plain(page)
    assert words.index("1 of 3 centres may be only noise.") < words.index("epsilon")
    rows = re.findall(r'<td class="apart">(.*?)</td>(.*?)</tr>', page)
    assert "above" in rows[2][0]
    assert rows[1][0] == "not known: this centre may be only noise"
    assert "data-tip" not in rows[1][1]
    assert "±" not in rows[1][1]


def test_error_bars_are_shown_and_differences_inside_them_are_not():
    page = fit_html(noisy_run(), None)
    first, _, last = re.findall(r'<td class="apart">(.*?)</td>(.*?)</tr>', page)
    assert "9.875 ± 0.5" in first[1]
    assert "2.25 ± 30" in first[1]
    assert "a " in first[0]
    assert "b " not in first[0]  # 30 is more than the difference
    assert "8.5<" in last[1]  # not known
    assert "b " in last[0]


def test_a_report_of_a_private_model_shows_its_error_bars(tmp_path):
    model, path = private_model(), tmp_path / "report.html"
    model.center_errors_ = np.array([[0.5, 30.0, 0.25], [np.nan] * 3, [0.125, 0.5, 0.5]])
    write_report(model, path)
    words = plain(path.read_text(encoding="utf-8"))
    assert "9.875 ± 0.5" in words
    assert "2.25 ± 30" in words


def test_the_summary_has_notes_and_error_bars(tmp_path):
    run = noisy_run()
    write_fit(run, None, tmp_path)
    summary = json.loads(files(tmp_path)["summary.json"])
    assert summary["notes"] == ["1 of 3 centres may be only noise."]
    assert [c["may_be_only_noise"] for c in summary["clusters"]] == [False, True, False]
    assert summary["clusters"][0]["center_errors"] == [0.5, 30.0, 0.25]
    assert summary["clusters"][1]["center_errors"] == [None, None, None]
    assert summary["privacy"]["center_errors"] == run.record.errors_about


def centres_in_words(run):
    return plain(fit_html(run, None).split('<section id="centres">')[1].split("</section>")[0])


def test_error_bars_are_explained_only_if_there_are_some(tmp_path):
    run, words = noisy_run(), "No centre has an error bar: all of them may be only noise."
    about = run.record.errors_about
    assert about in centres_in_words(run)
    record = replace(run.record, doubtful=np.ones(3, bool))
    run = replace(run, errors=np.full((3, 3), np.nan), record=record)
    centres = centres_in_words(run)
    assert words in centres
    assert about not in centres
    write_fit(run, None, tmp_path)
    assert json.loads(files(tmp_path)["summary.json"])["privacy"]["center_errors"] == words


@pytest.mark.parametrize(
    ("epsilon", "factor"), [(0.01, "1.02"), (0.1, "1.11"), (1.0, "2.72"), (3.0, "20.1")]
)
def test_the_promise_has_a_factor(epsilon, factor):
    X = np.random.default_rng(0).uniform(0, 1, (400, 2))
    model = PrivateKMeans(2, epsilon=epsilon, bounds=(0, 1)).fit(X)
    words = plain(fit_html(run_of(model, X, ("a", "b"), sizes=model.cluster_counts_), None))
    assert f"at most {factor} times as likely as it would be if one row were" in words


def test_factors_are_rounded_up():
    shown = {0.0: "1", 0.001: "1.01", 5.0: "149", 1e4: "exp(10,000)"}
    assert {epsilon: times_as_likely(epsilon) for epsilon in shown} == shown


def test_small_numbers_and_noisy_counts_are_short():
    _, run, _ = fitted(delta=1e-6)
    record = replace(run.record, counts=np.array([1234.75, 900.5, -2.25]))
    run = replace(run, record=record)
    words = plain(fit_html(run, None))
    assert "delta 1e\u221206" in words
    assert ".000e" not in words
    assert "1,235 noisy rows ·" in words
    assert "\u22122 noisy rows ·" in words
    assert "1,234.75" not in words


def test_the_page_of_a_private_demand_speaks_of_the_demand():
    domain = np.array([[x, y] for x in range(-30, 31, 6) for y in range(-30, 31, 6)], dtype=float)
    model = PrivateKMedian(3, epsilon=1.0).fit(domain, demand=np.arange(20_000) % len(domain))
    words = plain(fit_html(run_of(model, domain, ("x", "y"), sizes=model.cluster_counts_), None))
    ledger = words[words.index("PRIVACY REPORT") :]
    for line in (
        "demands that differ by one entry more or less; the number of people is secret",
        "without any one entry of the demand, or with one more",
        "the labels of the public points",
        "demand is at 121 public points",
    ):
        assert line in ledger, line
    assert "the number of rows is secret" not in ledger
    assert "Labels, scores and costs" not in ledger
    assert "row" not in ledger[: ledger.index("Run it again")]


def test_private_medoids_have_a_page(tmp_path):
    domain = np.array([[x, y] for x in range(-30, 31, 6) for y in range(-30, 31, 6)], dtype=float)
    model = PrivateKMedian(3, epsilon=5.0)
    model.fit(domain, demand=np.arange(0, len(domain), 3))
    write_fit(run_of(model, domain, ("x", "y"), sizes=model.cluster_counts_), None, tmp_path)
    page = files(tmp_path)["report.html"]
    assert "May be published" in page
    assert "The demand: the points of single people." in page
    assert "Labels of the rows" not in page
