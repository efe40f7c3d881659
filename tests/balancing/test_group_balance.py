"""The balance of groups is that of its definition, as a table and as a picture."""

import matplotlib as mpl
import numpy as np
import pytest

from kvariates import AntiClustering

mpl.use("agg")
X = np.random.default_rng(0).normal(size=(30, 2)) * [1.0, 5.0] + [3.0, 0.0]
CATEGORY = np.array(list("aab") * 10)
MODEL = AntiClustering(3, random_state=0).fit(X, categories=CATEGORY)


def test_values():
    balance = MODEL.balance_
    for g in range(3):
        here = X[MODEL.labels_ == g]
        mean = (here.mean(axis=0) - X.mean(axis=0)) / X.std(axis=0)
        assert balance.mean_difference[g] == pytest.approx(mean, abs=1e-12)
        assert balance.spread_ratio[g] == pytest.approx(here.std(axis=0) / X.std(axis=0))
        share = np.mean(CATEGORY[MODEL.labels_ == g] == "a")
        assert balance.category_share[g, 0] == pytest.approx(share)
        assert balance.share_difference[g, 0] == pytest.approx(share - 2 / 3)
    assert balance.categories == ("a", "b")


def test_table():
    lines = str(MODEL.balance_).splitlines()
    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1
    assert "mean, largest difference" in lines[0]
    assert "category share" in lines[0]
    html = MODEL.balance_._repr_html_()
    assert html.count("<tr>") == 4
    plain = AntiClustering(3, random_state=0).fit(X)
    assert "category share" not in str(plain.balance_)


def test_frame():
    balance, frame = MODEL.balance_, MODEL.balance_.frame()
    assert list(frame.index) == [0, 1, 2]
    assert list(frame["rows"]) == list(balance.sizes)
    for name in ("mean_difference", "spread_ratio"):
        assert list(frame[name].columns) == list(balance.features)
        assert np.array_equal(frame[name], getattr(balance, name))
    for name in ("category_share", "share_difference"):
        assert list(frame[name].columns) == ["a", "b"]
        assert np.array_equal(frame[name], getattr(balance, name))
    plain = AntiClustering(3, random_state=0).fit(X).balance_.frame()
    assert "category_share" not in plain


def test_names_are_escaped():
    balance = AntiClustering(2, random_state=0).fit(X, categories=["<b>"] * 30).balance_
    assert "&lt;b&gt;" in balance._repr_html_()


def test_picture():
    from matplotlib import pyplot as plt

    ax = MODEL.balance_.plot()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[1:] == ["group 0", "group 1", "group 2"]
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == ["x0", "x1", "share of a", "share of b"]
    assert MODEL.balance_.plot(ax=ax) is ax
    plt.close("all")
