"""What sets the clusters of a report apart: in words and in colours."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from api import PALETTE, ShownRows, contrast, fit_html, in_words, lighter, looks, number
from browser.pages import page_of, plain
from browser.reports import blobs, kmeans_case, rng, run_of
from scipy import sparse

from kvariates import KMedian


def test_very_long_names_are_cut_and_are_whole_in_titles():
    names = ("a" * 5000, "b" * 300)
    run, shown = kmeans_case(blobs(200, 2, 3), 3, names)
    page = fit_html(replace(run, notes=("note " * 1000,)), shown)
    for name in names:
        whole = page.count(name)
        assert whole == page.count(f'title="{name}"') > 1  # of the centres, in the list of columns
        assert f"{name[:59]}…" in plain(page)
    assert max(map(len, plain(page).split())) < 100
    assert "note " * 200 not in plain(page)


def test_fifty_clusters_have_fifty_looks():
    for seed in range(20):
        assert len(set(looks(rng(seed).normal(size=(50, 2))))) == 50
    assert len(set(looks(np.zeros((60, 2))))) == 60
    assert len(PALETTE) == len({lighter(c) for c in PALETTE}) == 12


def test_what_sets_a_cluster_apart():
    X = np.vstack([rng().normal(size=(900, 3)), rng(1).normal((9, 0, -3), size=(100, 3))])
    run, shown = kmeans_case(X * [1000, 1, 0.1], 2, ("income", "age", "debt"))
    found = contrast(run, shown)
    small = int(run.sizes.argmin())
    words = in_words(found, run.centers[small], small, run.table.names)
    assert words.startswith("income far above (")
    assert "age" not in words
    assert f"against {number(float(X[:, 0].mean() * 1000), 3)}" in words
    # the same words from rows in other units
    scaled = replace(shown, X=shown.X / 7 - 3, centers=shown.centers / 7 - 3)
    again = contrast(run, scaled)
    np.testing.assert_allclose(again.difference, found.difference, rtol=1e-9)
    np.testing.assert_allclose(again.average, (X * [1000, 1, 0.1]).mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("units", ["table", "others", "others, with values"])
def test_the_average_is_that_of_all_rows_with_their_weights(units):
    X = rng().lognormal(0, 2, size=(1000, 3))
    weights = rng(1).uniform(0, 1, 1000) * (X[:, 0] > 1)
    model = KMedian(2, random_state=0).fit(X)  # medoids are not means
    run = run_of(model, X, ("a", "b", "c"), weighted=True)
    shown = ShownRows(X, model.labels_, model.cluster_centers_, weights)
    if units != "table":
        given = X if "values" in units else None
        shown = ShownRows(X / 7, model.labels_, model.cluster_centers_ / 7, weights, given)
    exact = np.average(X, axis=0, weights=weights)
    centers = np.average(run.centers, axis=0, weights=run.shares)
    found = contrast(run, shown)
    np.testing.assert_allclose(found.average, centers if units == "others" else exact)
    low, high = np.quantile(X, [0.005, 0.995], axis=0)
    clipped = np.clip(X, low, high)
    mean = np.average(clipped, axis=0, weights=weights)
    spread = np.sqrt(np.average((clipped - mean) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(found.difference, (run.centers - exact) / spread)


def flag_case(share, n=1000):
    """Two columns that tell clusters apart, and a flag that few rows have."""
    centers = np.array([[0.0, 0.0], [5.0, -3.0], [10.0, -6.0]])
    X = centers[np.arange(n) % 3] + rng().normal(size=(n, 2))
    flag = np.zeros(n)
    flag[rng(1).choice(n, max(1, round(share * n)), replace=False)] = 1
    return kmeans_case(np.column_stack([X, flag]), 3, ("spend", "age", "vip"))


@pytest.mark.parametrize("share", [0.001, 0.003, 0.005, 0.0055, 0.02])
def test_a_rare_flag_does_not_set_clusters_apart_by_chance(share):
    run, shown = flag_case(share)
    found = contrast(run, shown)
    exact = (run.centers[:, 2] - shown.X[:, 2].mean()) / shown.X[:, 2].std()
    np.testing.assert_allclose(found.difference[:, 2], exact, rtol=0.2)
    for i in range(3):
        words = in_words(found, run.centers[i], i, run.table.names)
        assert "vip" not in words
    assert np.abs(found.difference[:, 0]).max() > 1


def test_a_far_row_does_not_hide_what_sets_clusters_apart():
    X = blobs(2000, 2, 3)
    X[5] = 1e9, 1e9
    run, shown = kmeans_case(X, 4, ("a", "b"))
    found = contrast(run, shown)
    assert found.measured_by == "the rows (the outermost 1 % clipped)"
    assert (np.abs(found.difference).max(axis=1) > 0.5).all()


def test_clipping_is_said_only_where_it_was_done():
    run, shown = flag_case(0.003)
    words = "the rows (the outermost 1 % clipped, but for columns with rare values)"
    assert contrast(run, shown).measured_by == words
    few = replace(shown, X=shown.X[:150], labels=shown.labels[:150])
    assert contrast(run, few).measured_by == "the rows"
    X = sparse.csr_matrix(shown.X)
    whole = contrast(run, replace(shown, X=X))
    dense = contrast(run, replace(shown, sparse=True))  # as the command draws a sparse matrix
    assert whole.measured_by == dense.measured_by == "the rows"
    np.testing.assert_allclose(whole.difference, dense.difference, rtol=1e-6)
    assert "standard deviations of the synopses" in plain(page_of("stream"))


EYES = {  # linear RGB as such eyes see it (Machado, Oliveira, Fernandes 2009)
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
               [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
               [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def oklab(color, eyes):
    parts = np.array(list(bytes.fromhex(color[1:]))) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    seen = np.clip(EYES[eyes] @ linear, 0, 1)
    to_lms = np.array([
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ])  # fmt: skip
    to_lab = np.array([
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ])  # fmt: skip
    return to_lab @ np.cbrt(to_lms @ seen)


@pytest.mark.parametrize(
    ("dark", "least"),
    [(False, (0.109, 0.107, 0.107, 0.041)), (True, (0.091, 0.081, 0.071, 0.029))],
)
def test_colours_are_as_far_apart_as_the_palette_says(dark, least):
    colors = [lighter(c) for c in PALETTE] if dark else PALETTE
    for eyes, said in zip(EYES, least, strict=True):
        places = [oklab(color, eyes) for color in colors]
        gaps = [np.linalg.norm(a - b) for a, b in itertools.combinations(places, 2)]
        assert min(gaps) == pytest.approx(said, abs=0.0006)
