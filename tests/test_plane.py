"""Rows in two dimensions: which rows a report shows, and where; frames, directions and maps."""

from dataclasses import replace

import numpy as np
import pytest
from api import Scatter, city_near, coordinates, fit_html, plane, robust_limits, scatter, shown_rows
from api import clusters_module as clusters
from browser.pages import data_of, decoded, page_of, plain
from browser.reports import blobs, case, kmeans_case, rng


def test_shown_rows_come_from_every_cluster_in_proportion():
    labels = rng().permutation(np.repeat(np.arange(4), [60_000, 30_000, 9_990, 10]))
    rows = shown_rows(labels, 4, 1000)
    assert len(rows) <= 1000
    assert (np.diff(rows) > 0).all()
    sizes = np.bincount(labels[rows])
    assert sizes[3] == 10
    np.testing.assert_allclose(sizes[:3] / sizes[:3].sum(), [0.6, 0.3, 0.1], atol=0.02)
    assert shown_rows(labels[:50], 4, 1000).tolist() == list(range(50))


@pytest.mark.parametrize("k", [1000, 30_000])
def test_shown_rows_of_very_many_clusters(k):
    labels = np.arange(30_000) % k
    rows = shown_rows(labels, k, 1000)
    assert len(rows) == len(np.unique(rows)) == 1000


def test_labels_of_very_many_clusters_do_not_wrap():
    k = 70_000
    plot = Scatter(np.zeros((2, 2)), np.array([3, k - 1]), np.zeros((k, 2)), ("a", "b"),
                   ((-1.0, 1.0), (-1.0, 1.0)))  # fmt: skip
    data = data_of(scatter(plot))
    assert decoded(data["labels"], "<u4" if data["many"] else "<u2").tolist() == [3, k - 1]
    assert not data_of(page_of("two_columns"))["many"]


def test_values_far_from_zero_keep_their_digits():
    X = np.column_stack([1.7e9 + np.arange(50.0), np.arange(50.0)])
    data = data_of(fit_html(*kmeans_case(X, 2, ("time", "x"))))
    values = decoded(data["values"], "<f4").reshape(-1, 2) + np.array(data["offsets"])
    np.testing.assert_array_equal(values, X)
    assert data["offsets"][1] == 0


def test_cities_near_centres_are_looked_up_once_and_only_for_clusters_in_the_table(monkeypatch):
    seen = []
    monkeypatch.setattr(
        clusters, "city_near", lambda at, **_: seen.append(len(at)) or ("",) * len(at)
    )
    fit_html(*case("cities"))
    assert seen == [9]
    places = np.column_stack([rng().uniform(-60, 60, 400), rng(1).uniform(-170, 170, 400)])
    run, shown = kmeans_case(places, 350, ("lat", "lon"))
    fit_html(run, shown)
    assert seen == [9, 300]


def test_one_far_row_does_not_move_the_frame():
    X, centers = rng().normal(size=(500, 2)), np.zeros((1, 2))
    before = np.array(robust_limits(X, centers))
    X[3] = 1e9, -1e9
    flat = plane(X, centers, ("a", "b"))
    after = np.array(flat.limits)
    width = before[:, 1] - before[:, 0]
    assert (after[:, 1] - after[:, 0] < 3 * width).all()
    assert flat.outside(flat.points).sum() == 1
    inside = ((after[:, 0] < X) & (after[:, 1] > X)).all(axis=1)
    assert inside.sum() == 499


@pytest.mark.parametrize(
    ("spread", "words"),
    [
        ((1, 1, 0.01), "more than 99% of"),
        ((1, 1, 0), "100% of"),
        ((1, 1, 1), "67% of"),
    ],
)
def test_all_or_nothing_of_the_variance_is_said_only_if_it_is(spread, words):
    X = np.vstack([np.diag(spread), -np.diag(spread)]).astype(float)
    names = tuple(f"x{j}" for j in range(len(spread)))
    assert f"with {words} the variance" in plane(X, X[:3], names).how


def test_two_of_very_many_equal_directions_have_less_than_a_hundredth_of_the_variance():
    X = rng(0).normal(size=(4000, 1000))
    names = tuple(f"x{j}" for j in range(1000))
    assert "with less than 1% of the variance" in plane(X, X[:3], names).how


def test_one_far_row_does_not_turn_the_principal_directions():
    X = rng().normal(size=(1000, 6)) * [9, 6, 1, 1, 1, 1]
    X[5, 4] = 1e7
    flat = plane(X, X[:3], tuple("abcdef"))
    found = np.abs(np.corrcoef(np.delete(flat.points, 5, 0).T, np.delete(X, 5, 0)[:, :2].T))
    assert found[0, 2] > 0.95
    assert found[1, 3] > 0.95


@pytest.mark.parametrize(
    ("order", "shape"),
    [
        ("sorted", (10_000, 5)),
        ("in turns", (10_000, 5)),
        ("shuffled", (10_000, 5)),
        ("sorted", (1500, 1510)),
    ],
)
def test_the_order_of_the_rows_does_not_turn_the_principal_directions(order, shape):
    X = rng().normal(size=shape)
    labels = np.arange(len(X)) % 3  # one of three rows is far away
    if order == "sorted":
        labels = np.sort(labels)
    elif order == "shuffled":
        labels = rng(1).permutation(labels)
    X[labels == 2, 4] += 100
    centers = np.array([X[labels == j].mean(axis=0) for j in range(3)])
    flat = plane(X, centers, tuple(f"x{j}" for j in range(shape[1])))
    gaps = np.linalg.norm(flat.centers - flat.centers[2], axis=1)
    np.testing.assert_allclose(gaps[:2], 100, atol=1)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_centres_without_rows_are_all_inside_the_frame(d):
    centers = rng().normal(size=(4, d))
    centers[3] = 1000.0
    flat = plane(None, centers, tuple("abcde"[:d]))
    low, high = np.array(flat.limits).T
    far = 0.1 * np.ptp(flat.centers[:, 0])  # marks are large
    assert (flat.centers[:, 0] > low[0] + far).all()
    assert (flat.centers[:, 0] < high[0] - far).all()
    assert ((flat.centers > low) & (flat.centers < high)).all()


@pytest.mark.parametrize("n", [1, 5, 300])
def test_equal_rows_have_a_frame(n):
    for d in (1, 2, 5):
        flat = plane(np.full((n, d), 3.0), np.full((1, d), 3.0), tuple("abcde"[:d]))
        assert flat.outside(flat.points).sum() == 0
        assert all(low < high for low, high in flat.limits)


def test_points_of_the_page_are_the_points_of_the_data():
    run, shown = case("two_columns")
    data = data_of(fit_html(run, shown))
    points = decoded(data["points"], "<u2").reshape(-1, 2).astype(float)
    low, high = np.array(data["limits"]).T
    outside = ((points == 0) | (points == 65535)).any(axis=1)
    assert outside.sum() >= 1
    assert outside[7]
    found = low + (points - 1) / 65533 * (high - low)
    np.testing.assert_allclose(found[~outside], shown.X[~outside], atol=(high - low).max() / 65533)
    np.testing.assert_array_equal(decoded(data["labels"], "<u2"), shown.labels)
    np.testing.assert_allclose(
        decoded(data["values"], "<f4").reshape(-1, 2), shown.X.astype("f4"), rtol=1e-6
    )
    assert "an arrow at its border" in page_of("two_columns")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("lat", "lon"), (0, 1)),
        (("Longitude", "city", "LATITUDE"), (2, 0)),
        (("stop_lat", "stop_lon"), (0, 1)),
        (("latency", "longest"), None),
        (("lat", "lat2", "lon"), (0, 2)),
        (("plate", "lon"), None),
    ],
)
def test_columns_that_look_like_degrees(names, found):
    X = rng().uniform(-80, 80, size=(20, len(names)))
    assert coordinates(X, X, names) == found
    assert coordinates(X * 10, X * 10, names) is None  # too large for degrees


def test_a_map_has_degrees_land_and_regions():
    data = data_of(page_of("cities"))
    assert data["degrees"]
    assert data["regions"]
    assert len(decoded(data["land"], "<u2")) > 5000
    assert not data_of(page_of("fifty"))["regions"]


def test_a_place_is_named_after_a_large_city_near_it():
    places = [(2.2, 48.7), (139.5, 35.5), (-30.0, 30.0), (-140.0, -50.0)]
    assert city_near(np.array(places))[:2] == ("Paris", "Tokyo")
    assert city_near(np.array(places))[3] == ""
    assert "Grey dots" in plain(page_of("cities"))


@pytest.mark.parametrize(
    ("places", "names", "dots"),
    [
        ([(2.35, 48.85), (2.4, 48.9), (2.3, 48.8)], False, False),  # all near Paris
        ([(2.35, 48.85), (13.4, 52.5), (-3.7, 40.4)], True, True),
        ([(2.35, 48.85), (4.35, 50.85), (4.9, 52.4)], True, False),  # a small map has no land
    ],
)
def test_names_of_cities_tell_centres_apart_and_have_their_source(places, names, dots):
    X = np.repeat(np.array(places), 20, axis=0) + 0.001 * rng().normal(size=(60, 2))
    run, shown = kmeans_case(X, 3, ("lon", "lat"))
    page = fit_html(run, shown)
    words = [cluster["word"] for cluster in data_of(page)["clusters"]]
    assert all(words) == any(words) == names
    assert ("Paris" in page) == names
    assert ("GeoNames, CC BY 4.0" in page) == (names or dots)
    assert ("Grey dots" in page) == dots
    assert ("ames near the centres" in page) == names


@pytest.mark.parametrize("most", [170, 350])
def test_a_map_ends_where_the_world_does(most):
    X = np.column_stack([rng().uniform(-60, 80, 300), rng(1).uniform(0, most, 300)])
    flat = plane(X, X[:4], ("lat", "lon"))
    assert flat.degrees
    assert flat.outside(flat.points).sum() == 0
    assert (flat.limits[0][1] <= 190) == (most < 180)
    alone = plane(None, X[:4], ("lat", "lon"))
    assert len(alone.points) == 0
    assert alone.degrees


def test_a_network_has_its_edges():
    run, shown = case("network")
    data = data_of(fit_html(run, shown))
    assert len(decoded(data["edges"], "<u2")) == 4 * len(shown.edges)
    words = plain(page_of("network"))
    assert "6 clusters of 600 points" in words
    assert f"point {run.record.medoids[0] + 1:,}" in words
    named = replace(run, medoids=tuple(f"crossing <{i}>" for i in range(6)))
    assert "crossing <5>" in plain(fit_html(named, None))


@pytest.mark.parametrize("scale", [2.0**-900, 2.0**530, 2.0**990])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_very_large_and_very_small_numbers_are_shown(scale, d):
    run, shown = kmeans_case(blobs(300, d, 3), 3, "abcde"[:d])
    large = replace(shown, X=shown.X * scale, centers=shown.centers * scale)
    data = data_of(fit_html(replace(run, centers=run.centers * scale), large))
    assert data["points"] == data_of(fit_html(run, shown))["points"]
    assert np.isfinite(data["limits"]).all()
