"""The numbers, bars and curves of a report."""

import re
from dataclasses import replace

import numpy as np
import pytest
from api import (
    AxisScale,
    Bar,
    Line,
    bars,
    cost_change,
    fit_html,
    lines,
    number,
    number_within,
    share_bar,
    tick_words,
)
from browser.pages import Elements, plain
from browser.reports import case


def test_numbers_are_short_and_complete():
    given = [0, 12, 1234567, 1234.5678, 0.000123456, 1e-9, -3.14159, 2.50, 1e20, np.inf, np.nan]
    shown = ["0", "12", "1,234,567", "1,235", "0.0001235", "1e\u221209", "\u22123.142", "2.5",
             "1e+20", "∞", "unknown"]  # fmt: skip
    assert [number(v) for v in given] == shown


@pytest.mark.parametrize(
    ("low", "high"),
    [(998.04, 998.97), (37.7611, 37.7612), (143_230_000, 143_310_000), (3.87e26, 3.881e26),
     (-0.5, 0.02), (0, 12), (1.2e-9, 1.3e-9), (1e9, 1e9 + 3)],
)  # fmt: skip
def test_labels_of_curves_differ_and_are_right(low, high):
    ticks = AxisScale(low, high, 0, 1).ticks(5)
    words = tick_words(ticks)
    assert len(set(words)) == len(words) >= 3
    step = ticks[1] - ticks[0]
    for word, tick in zip(words, ticks, strict=True):
        assert abs(float(word.replace(",", "").replace("\u2212", "-")) - tick) < 1e-3 * step
    html = lines([Line("cost", [1, 2], [low, high])], "step", "cost")
    longest = max(map(len, re.findall(r'class="end"[^>]*>([^<]*)<', html)))
    assert f'class="chart l{longest}"' in html  # the room at the left


def test_curves_that_hardly_change_have_a_scale():
    for values in ([5.0, 5.0], [1e300, 1e300], [0.0, 0.0], [7.0, 7.0 + 1e-15]):
        assert "nan" not in lines([Line("cost", [1, 2], values)], "step", "cost")


def test_a_number_within_a_range_has_digits_enough():
    assert number_within(12345.678, 0.5) == "12,345.678"
    assert number_within(12345.678, 1e5) == "12,346"
    assert number_within(0.0, 1.0) == "0"


def test_how_the_cost_changed():
    assert cost_change(200.0, 100.0).endswith("100 after the last: 50.0% less.")
    assert "did not change" in cost_change(37.5, 37.5)
    little = cost_change(37.761234, 37.761233)
    assert little.endswith("less than 0.1% less.")
    assert "37.761234 after the first" in little
    assert cost_change(1.0, 2.0).endswith("100.0% more.")
    run, shown = case("two_columns")
    assert "0.0%" not in plain(fit_html(replace(run, costs=(5.0, 5.0)), shown))


def test_bars_shares_and_curves_have_the_right_lengths():
    html = bars([Bar("a", 10.0, "10"), Bar("b", 5.0, "5"), Bar("c", -1.0, "-1")], [20.0])
    assert [r["width"] for r in Elements(html).tags("rect")] == ["50.000%", "25.000%", "0.000%"]
    html = share_bar([Bar("a", 3.0, "3"), Bar("b", 1.0, "1")])
    assert [r.get("x") for r in Elements(html).tags("rect")][:2] == ["0.000%", "75.000%"]
    html = lines([Line("cost", [1, 2, 3], [9.0, 4.0, 1.0])], "step", "cost")
    heights = [float(c["cy"][:-1]) for c in Elements(html).tags("circle")]
    np.testing.assert_allclose(np.diff(heights)[0] / np.diff(heights)[1], 5 / 3, rtol=1e-3)
    assert heights == sorted(heights)
