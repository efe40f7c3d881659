"""The figures and tables of reports in headless Chromium: ticks, tips, outlines, print."""

from dataclasses import replace

import numpy as np
import pytest
from api import DARK, LIGHT, PALETTE
from browser.reports import blobs, case, kmeans_case
from browser.visits import A4, DESK, PHONE, Visit

TICKS = {
    "timestamps": lambda X: X * [5, 1] + [1_700_000_000, 0],
    "far from zero": lambda X: X * 0.002 - [998.2, 12_345.6],
    "very large": lambda X: X * 1e24 + 3.87e26,
    "very small": lambda X: X * 1e-9,
    "a town": lambda X: X * 0.0005 + [48.2, 16.4],
    "a continent": lambda X: X * 0.3 + [48.2, 16.4],
    "the world": lambda X: X / np.abs(X).max(axis=0) * [70, 179.9],
}


def value_of(word):
    """The number in a label of a tick."""
    sign = -1 if word[-1] in "SW" else 1
    return sign * float(word.rstrip("NSWE").rstrip("°").replace(",", "").replace("\u2212", "-"))


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", TICKS)
def test_labels_of_ticks_are_whole_different_and_right(browser, write, name, viewport):
    degrees = name in ("a town", "a continent", "the world")
    X = TICKS[name](blobs(400, 2, 3))
    names = ("lat", "lon") if degrees else ("width", "height")
    run, shown = kmeans_case(X, 3, names)
    with Visit(browser, write(run, shown), viewport=viewport) as visit:
        visit.settle()
        width = visit.page.evaluate("() => document.querySelector('canvas').clientWidth")
        for axis, (ticks, place) in enumerate(zip(visit.ticks(), "xy", strict=True)):
            words = [t["words"] for t in ticks]
            assert len(set(words)) == len(words) >= (3 if degrees or axis else 2), words
            for t in ticks:
                left = t["x"] - t["width"] * (1 if t["align"] == "right" else 0.5)
                assert left >= 0, t["words"]
                assert left + t["width"] <= width, t["words"]
            values, places = [value_of(w) for w in words], [t[place] for t in ticks]
            steps = np.diff(values) / np.diff(places)
            np.testing.assert_allclose(steps, steps[0], rtol=1e-3)
            if not axis:
                gaps = np.diff(places) - [a["width"] for a in ticks][1:]
                assert gaps.min() > 0  # no label is over another
    assert visit.wrong == []


def test_ticks_have_the_contrast_of_small_texts(browser, reports):
    for scheme, theme in (("light", LIGHT), ("dark", DARK)):
        with Visit(browser, reports("two_columns"), color_scheme=scheme) as visit:
            across, up = visit.ticks()
            for color in {t["color"] for t in across + up}:
                assert contrast_of(color, theme["card"]) >= 4.5


def test_points_and_bars_of_light_colours_have_an_outline(browser, reports):
    with Visit(browser, reports("two_columns")) as visit:
        light = [c for c in PALETTE[:6] if contrast_of(c, LIGHT["card"]) < 3]
        lines = visit.page.evaluate("() => drawn.strokes")
        assert len(light) == lines.count([LIGHT["ink"], 1.2]) == 2
        bar = visit.page.locator(".bars rect").first
        assert bar.evaluate("e => getComputedStyle(e).stroke") == "rgb(31, 36, 45)"


def contrast_of(one, other):
    """The contrast of WCAG 2."""

    def luminance(color):
        parts = np.array(list(bytes.fromhex(color[1:]))) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722] + 0.05

    low, high = sorted([luminance(one), luminance(other)])
    return high / low


def test_tips_have_digits_enough_for_the_range_of_a_column(browser, write):
    X = np.column_stack([1.7e9 + np.arange(300.0), blobs(300, 1, 1)[:, 0] * 1e-4 + 7])
    with Visit(browser, write(*kmeans_case(X, 2, ("time", "level")))) as visit:
        box = visit.page.locator("canvas").bounding_box()
        seen = set()
        for part in np.linspace(0.2, 0.9, 60):
            visit.page.mouse.move(box["x"] + part * box["width"], box["y"] + 0.5 * box["height"])
            tip = visit.page.locator("#tip")
            words = tip.inner_text().split() if tip.is_visible() else [""]
            if words[0] == "cluster":
                seen.add((words[words.index("time") + 1], words[words.index("level") + 1]))
        assert len({time for time, _ in seen}) == len(seen) > 5
        for time, level in seen:
            row = X[int(value_of(time) - 1.7e9)]
            assert abs(row[1] - value_of(level)) < 1e-5 * np.ptp(X[:, 1]) + 1e-6


def test_a_tap_shows_a_tip_that_stays(browser, reports):
    with Visit(browser, reports("two_columns"), viewport=PHONE, touch=True) as visit:
        page, tip = visit.page, visit.page.locator("#tip")
        page.evaluate("() => document.querySelector('canvas').scrollIntoView({block: 'center'})")
        page.wait_for_timeout(400)
        box = page.locator("canvas").bounding_box()
        x, y = np.meshgrid(np.linspace(0.2, 0.9, 8), np.linspace(0.2, 0.8, 8))
        for a, b in zip(x.ravel(), y.ravel(), strict=True):
            page.touchscreen.tap(box["x"] + a * box["width"], box["y"] + b * box["height"])
            page.wait_for_timeout(30)  # after the finger has left
            if tip.is_visible():
                break
        assert tip.is_visible()
        page.locator("figcaption").first.tap()
        assert not tip.is_visible()
        page.locator("td[data-tip]").first.tap()
        page.wait_for_timeout(30)
        assert "standard deviations" in tip.inner_text()
        page.evaluate("() => scrollBy(0, 200)")
        page.wait_for_timeout(200)
        assert not tip.is_visible()
    assert visit.wrong == []


@pytest.mark.parametrize("name", ["fifty", "nasty", "cities", "two_columns", "many columns"])
def test_a_printed_page_has_all_of_its_tables_and_pictures(browser, write, name):
    if name == "many columns":
        names = [f"a long name of column {j}" for j in range(30)]
        run, shown = kmeans_case(blobs(400, 30, 5) * 100 - 1e4, 5, names)
    else:
        run, shown = case(name)
    with Visit(browser, write(run, shown)) as visit:
        page = visit.page
        page.emulate_media(media="print")
        page.set_viewport_size(A4)
        page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        visit.shot(f"{name.replace(' ', '_')}-print")
        found = page.evaluate("""() => {
            const box = (e) => e.getBoundingClientRect(), canvas = document.querySelector("canvas");
            const apart = document.querySelector("td.apart");
            const shade = document.querySelector("td.n"), shape = (w, h) => w / h;
            return {
                right: Math.max(...[...document.querySelectorAll("table")].map(t => box(t).right)),
                apart: box(apart).width,
                stretch: shape(canvas.clientWidth, canvas.clientHeight)
                    / shape(canvas.width, canvas.height),
                adjust: getComputedStyle(shade).printColorAdjust,
            };
        }""")
        assert found["right"] <= A4["width"] + 1
        assert found["apart"] > 90
        assert abs(found["stretch"] - 1) < 0.01
        assert found["adjust"] == "exact"


def test_centres_outside_the_frame_are_arrows(browser, write):
    X = blobs(600, 2, 3)
    X[:4] = [(900, 0), (0, -900), (-900, 900), (0.0, 0.0)]
    with Visit(browser, write(*kmeans_case(X, 6, ("a", "b")))) as visit:
        caption = visit.page.locator("figcaption").first.inner_text()
        assert "3 points are far outside the frame, shown as arrows" in caption
        assert "3 centres are far outside the frame, shown as arrows" in caption
        marks = visit.page.evaluate("() => drawn.circles.filter(r => r === 10).length")
        assert marks == 3  # of centres inside; the first six looks are circles


def test_areas_of_circles_are_in_proportion_to_noisy_counts(browser, write):
    run, shown = case("private")
    counts = np.array([900.0, 400.0, 100.0])
    path = write(replace(run, record=replace(run.record, counts=counts)), shown)
    with Visit(browser, path) as visit:
        circles = sorted(visit.page.evaluate("() => [...new Set(drawn.circles)]"))[-3:]
        parts = np.square(circles) / np.square(circles[-1])
        np.testing.assert_allclose(parts, [1 / 9, 4 / 9, 1], rtol=1e-6)


def test_a_hover_does_not_compute_the_regions_again(browser, reports):
    with Visit(browser, reports("two_columns")) as visit:
        images = visit.page.evaluate("() => drawn.images")
        box = visit.page.locator("canvas").bounding_box()
        for part in np.linspace(0.2, 0.9, 20):
            visit.page.mouse.move(box["x"] + part * box["width"], box["y"] + 0.5 * box["height"])
            visit.settle()
        assert len(visit.page.evaluate("() => drawn.texts")) > 50  # it was drawn many times
        assert visit.page.evaluate("() => drawn.images") == images == 1
        visit.page.locator("#theme").click()
        visit.settle()
        assert visit.page.evaluate("() => drawn.images") == 2


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("cost", [504_003_294.0, 1.234567e-9, 3.8712345e26, 123.456])
def test_numbers_of_cards_and_curves_are_whole(browser, write, viewport, cost):
    run, shown = case("two_columns")
    costs = tuple(cost * (1 + 1e-4 / i) for i in range(1, 6))
    run = replace(run, inertia=cost, costs=costs)
    with Visit(browser, write(run, shown), viewport=viewport) as visit:
        cards = visit.page.evaluate("""() => [...document.querySelectorAll(".facts dd")].map(e => {
            const range = document.createRange();
            range.selectNodeContents(e);
            return [e.textContent, e.className, range.getClientRects().length,
                e.scrollWidth <= e.clientWidth];
        })""")
        for words, kind, pieces, fits in cards:
            assert fits, words
            assert kind == "words" or pieces == 1, words
        boxes = visit.page.evaluate("""() => {
            const chart = document.querySelector(".chart").getBoundingClientRect();
            return [...document.querySelectorAll(".chart text.end")].map(
                e => [e.textContent, e.getBoundingClientRect().left - chart.left]);
        }""")
        assert len({words for words, _ in boxes}) == len(boxes) >= 3
        assert min(left for _, left in boxes) >= 0


def test_the_keyboard_reaches_tables_and_values_of_the_cost(browser, reports):
    with Visit(browser, reports("two_columns")) as visit:
        page, reached = visit.page, []
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("() => document.activeElement.getAttribute('aria-label')"))
            if page.evaluate("() => document.activeElement.matches('.values:not([open]) summary')"):
                page.keyboard.press("Enter")
        assert "Table of the clusters and their centres" in reached
        assert "Table: iteration, cost" in reached
        assert "74.9" in page.locator("details.values").inner_text()
