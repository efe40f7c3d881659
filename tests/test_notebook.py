"""What a notebook shows: short reprs, and HTML that is escaped and has no colours of its own."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from api import Charge, Ledger, Loss
from scipy import sparse
from sklearn import config_context

from kvariates import (
    AntiClustering,
    KMeans,
    KMedian,
    OnlineKMeans,
    PrivateKMeans,
    PrivateKMedian,
    StreamingKMeans,
    VerticalKMeans,
    choose_k,
    hst_tree,
)
from kvariates.privacy import price

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(c, 0.3, size=(40, 2)) for c in (0, 4, 8)])
PRIVATE = PrivateKMeans(3, epsilon=2.0, bounds=(-2.0, 10.0)).fit(X)
LETTERS = str.maketrans("0123456789", "abcdefghij")
NASTY = "<script>alert('x')</script>"


def nasty_ledger():
    charge = Charge(NASTY, "laplace", "add-remove", 1.0, "l1", 1.0, epsilon=1.0)
    return Ledger("add-remove", [charge], Loss(1.0, 0.0))


RECORDS = {
    "choice": choose_k(X, (1, 30), random_state=0),
    "ledger": PRIVATE.ledger_,
    "ledger of 2,000 charges": Ledger(
        "add-remove",
        [
            Charge(str(i).translate(LETTERS), "laplace", "add-remove", 1.0, "l1", 1.0, epsilon=1e-4)
            for i in range(2000)
        ],
        Loss(1.0, 0.0),
    ),
    "ledger without charges": Ledger("add-remove", [], Loss(1.0, 0.0)),
    "price": price(
        lambda e: PrivateKMeans(2, epsilon=e, bounds=(-2.0, 10.0), method="grid"), X,
        np.linspace(1, 5, 40).tolist(), runs=1,
    ),
    "tree": hst_tree(RNG.normal(size=(5000, 2)), random_state=0),
    "certificate": KMedian(3, certify=True, random_state=0).fit(X).certificate_,
    "guarantee": KMeans(3, init="d2", random_state=0).fit(X).guarantee_,
    "balance": AntiClustering(40, random_state=0).fit(X).balance_,
}  # fmt: skip


class Tags(HTMLParser):
    """The open tags, which must be closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(html):
    """The tags of HTML that is well-formed and leaves all colours to the page."""
    tags = Tags()
    tags.feed(html)
    assert not tags.open
    colours = set(re.findall(r"(?:color|background):([^;\"]+)", html))
    assert colours <= {"inherit", "transparent"}
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb\(|https?:", html)
    return tags.seen


@pytest.mark.parametrize("name", RECORDS)
def test_a_repr_is_short_and_the_html_is_a_small_table_or_text(name):
    record = RECORDS[name]
    text, html = repr(record), record._repr_html_()
    assert len(text) < 500
    assert "\n" not in text
    assert text.startswith(type(record).__name__ + "(")
    checked(html)
    assert len(html) < 60_000


def test_a_long_table_says_how_many_rows_are_left_out():
    html = RECORDS["ledger of 2,000 charges"]._repr_html_()
    assert html.count("<tr>") == 52
    assert "and 1,950 more" in html


def test_text_is_escaped():
    assert "script" not in checked(nasty_ledger()._repr_html_())
    assert "&lt;script&gt;" in nasty_ledger()._repr_html_()


def test_the_row_of_the_choice_is_marked():
    html = RECORDS["choice"]._repr_html_()
    marked = re.findall(r'<td style="[^"]*bold">(\d+)</td>', html)
    assert marked[0] == str(RECORDS["choice"].k) == "3"


GRAPH = sparse.csr_array(np.diag(np.ones(9), 1) + np.diag(np.ones(9), -1))
MODELS = {
    "KMeans": KMeans(3, random_state=0).fit(X),
    "KMeans with a guarantee": KMeans(3, init="d2", random_state=0).fit(X),
    "KMedian": KMedian(3, certify=True, random_state=0).fit(X),
    "KMedian on a graph": KMedian(2, metric="graph", random_state=0).fit(GRAPH),
    "StreamingKMeans": StreamingKMeans(3, random_state=0).fit(X),
    "OnlineKMeans": OnlineKMeans(3, random_state=0).fit(X),
    "VerticalKMeans": VerticalKMeans(3, random_state=0).fit([X[:, :1], X[:, 1:]]),
    "AntiClustering": AntiClustering(3, random_state=0).fit(X),
    "PrivateKMeans": PRIVATE,
    "PrivateKMedian": PrivateKMedian(3, epsilon=5.0).fit(X, demand=np.arange(len(X))),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_model_has_a_box_above_the_diagram(name):
    model = MODELS[name]
    html = model._repr_mimebundle_()["text/html"]
    assert len(repr(model)) < 500
    box, diagram = html.split("<style>", 1)
    checked(box)
    assert name.split()[0] in box
    assert "sk-container" in diagram
    unit = "groups" if name == "AntiClustering" else "clusters"
    assert re.search(rf"\b{2 if 'graph' in name else 3} {unit}\b", box)


def test_a_model_that_is_not_fitted_has_the_diagram_only():
    assert KMeans()._repr_html_().startswith("<style>")
    with config_context(display="text"):
        assert "text/html" not in KMeans()._repr_mimebundle_()


def test_a_guarantee_a_certificate_and_a_lost_guarantee_are_shown():
    lost = "\n".join(MODELS["KMeans"]._fitted_lines())
    assert "No guarantee in numbers: " in lost
    assert "certify=True" in lost
    assert "init='d2'" not in lost  # a worse start for the sake of a theorem
    errors = PrivateKMeans(1, epsilon=2.0, bounds=(-2.0, 10.0), method="lloyd").fit(X)
    assert re.search(r"centre 0: x0 \+- [0-9]", "\n".join(errors._fitted_lines()))
    assert "Guarantee: On average" in "\n".join(MODELS["KMeans with a guarantee"]._fitted_lines())
    assert re.search("Certificate: (within|optimal)", "\n".join(MODELS["KMedian"]._fitted_lines()))


@pytest.mark.parametrize("name", ["PrivateKMeans", "PrivateKMedian"])
def test_a_private_model_shows_only_what_was_released(name):
    """Parameters and the number of releases; no labels, no inertia."""
    model = MODELS[name]
    shown = "\n".join(model._fitted_lines())
    assert model.ledger_.claim.words() in shown
    numbers = {float(n) for n in re.findall(r"\d+(?:\.\d+)?", shown)}
    assert numbers <= {3.0, model.epsilon, model.delta, float(len(model.ledger_.charges))}
    assert "labels_" not in model._repr_html_()
    assert "inertia" not in model._repr_html_()
