"""Reports, notebook views and the docs in headless Chromium: they work, without the network.

Skipped, with the reason, if Playwright or Chromium is not installed (`pip install playwright`, then
`playwright install chromium`, or `make browser` on Debian). Screenshots: build/screenshots/.
"""

import numpy as np
import pytest
from api import DARK, LIGHT
from browser.reports import CASES, rng
from browser.visits import DESK, PHONE, ROOT, SHOTS, Visit

from kvariates import KMeans, KMedian, PrivateKMeans, choose_k, hst_tree


@pytest.mark.parametrize("name", CASES)
def test_reports_open_without_errors_and_requests(browser, reports, name):
    with Visit(browser, reports(name)) as visit:
        visit.shot(f"{name}-light")
        assert visit.page.locator("canvas").count() == 1
        assert visit.pixels(visit.css("k0")) > 0
    assert visit.wrong == []


@pytest.mark.parametrize("name", ["two_columns", "fifty", "private", "cities"])
def test_both_themes_and_a_phone_render(browser, reports, name):
    with Visit(browser, reports(name), viewport=PHONE, color_scheme="dark") as visit:
        page = visit.page
        assert visit.css("paper") == DARK["paper"]
        visit.shot(f"{name}-phone-dark")
        width = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1]
        dark = visit.pixels(DARK["card"])
        page.locator("#theme").click()
        assert visit.css("paper") == LIGHT["paper"]
        assert visit.pixels(DARK["card"]) < dark  # the canvas was drawn again
        visit.page.set_viewport_size(DESK)
        page.locator("#theme").click()
        visit.settle()
        visit.shot(f"{name}-dark")
    assert visit.wrong == []


def test_a_tip_appears_over_points_and_centres(browser, reports):
    with Visit(browser, reports("two_columns")) as visit:
        page, tip = visit.page, visit.page.locator("#tip")
        page.locator(".stage").scroll_into_view_if_needed()
        box = page.locator("canvas").bounding_box()
        seen = set()
        for part in np.linspace(0.1, 0.9, 33):
            for height in (0.3, 0.5, 0.7):
                page.mouse.move(box["x"] + part * box["width"], box["y"] + height * box["height"])
                if tip.is_visible():
                    seen.add(tip.inner_text().split()[0])
        assert "cluster" in seen
        page.mouse.move(1, 1)
        assert not tip.is_visible()
        words = page.locator("td[data-tip]").first
        words.hover()
        assert "standard deviations" in tip.inner_text()
    assert visit.wrong == []


def test_a_cluster_can_be_hidden_and_shown(browser, reports):
    with Visit(browser, reports("two_columns")) as visit:
        button = visit.page.locator("button[data-cluster='1']")
        before = visit.pixels(visit.css("k1"))
        assert before > 0
        button.click()
        visit.settle()
        assert button.get_attribute("aria-pressed") == "false"
        assert visit.pixels(visit.css("k1")) == 0
        assert visit.pixels(visit.css("k0")) > 0
        button.click()
        visit.page.mouse.move(1, 1)
        visit.settle()
        assert visit.pixels(visit.css("k1")) == before
        visit.page.locator("button[data-cluster='2']").click(modifiers=["Shift"])
        visit.page.mouse.move(1, 1)
        visit.settle()
        assert visit.pixels(visit.css("k0")) == 0 < visit.pixels(visit.css("k2"))
    assert visit.wrong == []


def test_the_policy_stops_other_code_and_requests(browser, reports):
    with Visit(browser, reports("nasty")) as visit:
        done = visit.page.evaluate(
            """async () => {
                const script = document.createElement("script");
                script.textContent = "window.leaked = true";
                document.body.append(script);
                const styled = document.createElement("div");
                styled.innerHTML = '<p style="color: rgb(255, 0, 0)">x</p>';
                document.body.append(styled);
                const color = getComputedStyle(styled.firstChild).color;
                const sent = await fetch("https://example.org/").then(() => true, () => false);
                return [window.leaked === true, color === "rgb(255, 0, 0)", sent];
            }"""
        )
        assert done == [False, False, False]
        assert visit.page.locator("section script:not([type='application/json'])").count() == 0
        assert not any("dialog" in wrong for wrong in visit.wrong)


def test_a_report_is_printed_in_light_colours(browser, reports):
    with Visit(browser, reports("private"), color_scheme="dark") as visit:
        content = visit.page.pdf(format="A4", print_background=True)
        assert content.startswith(b"%PDF")
        SHOTS.mkdir(parents=True, exist_ok=True)
        (SHOTS / "private.pdf").write_bytes(content)
        visit.page.emulate_media(media="print")
        assert visit.css("paper") == LIGHT["paper"]
        assert not visit.page.locator("nav").is_visible()
    assert visit.wrong == []


def notebook_html():
    """The HTML that a notebook would show, of every object that has some."""
    X = rng().normal(size=(60, 2))
    model = KMeans(3, random_state=0, certify=True).fit(X)
    private = PrivateKMeans(3, epsilon=2.0, bounds=(-3, 3)).fit(X)
    things = [
        model,
        KMedian(3, random_state=0).fit(X),
        private,
        private.ledger_,
        model.certificate_,
        choose_k(X, (1, 3), random_state=0),
        hst_tree(X, random_state=0),
    ]
    return [thing._repr_html_() for thing in things]


def test_notebook_views_open_without_errors_and_requests(browser, tmp_path):
    path = tmp_path / "notebook.html"
    body = "<hr>".join(notebook_html())
    path.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{body}", encoding="utf-8")
    with Visit(browser, path) as visit:
        visit.shot("notebook")
    assert visit.wrong == []


def test_the_front_page_of_the_docs_opens(browser):
    path = ROOT / "docs" / "_build" / "html" / "index.html"
    if not path.exists():
        pytest.skip("the docs were not built; `make docs` builds them")
    for name, viewport, scheme in (("docs", DESK, "light"), ("docs-phone-dark", PHONE, "dark")):
        with Visit(browser, path, viewport=viewport, color_scheme=scheme) as visit:
            page = visit.page
            visit.shot(name)
            assert page.locator("h1").count() == 1
            assert page.locator(".sd-card").count() == 6
            for picture in page.locator("article img").all():
                assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
            assert page.evaluate("() => document.documentElement.dataset.theme") == scheme
            width = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
            assert width[0] <= width[1]
        assert visit.wrong == []


@pytest.mark.parametrize("viewport", [PHONE, {"width": 1200, "height": 820}])
def test_a_cut_table_says_that_it_scrolls(browser, reports, viewport):
    with Visit(browser, reports("fifty"), viewport=viewport) as visit:
        box, cue = (visit.page.locator(f"#centres .{kind}").first for kind in ("scroll", "cue"))
        visit.settle()
        assert box.evaluate("b => b.scrollWidth > b.clientWidth") == cue.is_visible()
        assert cue.is_visible() or viewport is not PHONE
        box.evaluate("b => { b.scrollLeft = b.scrollWidth; }")
        visit.settle()
        assert not cue.is_visible()
    assert visit.wrong == []


def test_the_ledger_fits_on_a_phone(browser, reports):
    with Visit(browser, reports("private"), viewport=PHONE) as visit:
        ledger = visit.page.locator("#ledger pre").first
        assert ledger.evaluate("p => p.scrollWidth <= p.clientWidth")


def test_the_legend_of_many_clusters_is_closed(browser, reports):
    for name, shown in (("fifty", False), ("two_columns", True)):
        with Visit(browser, reports(name)) as visit:
            assert visit.page.locator(".legend").first.is_visible() == shown


def test_no_link_of_the_navigation_is_cut_on_a_phone(browser, reports):
    with Visit(browser, reports("private"), viewport=PHONE) as visit:
        for link in visit.page.locator("nav a").all():
            box = link.bounding_box()
            assert box["x"] + box["width"] <= PHONE["width"]
    assert visit.wrong == []
