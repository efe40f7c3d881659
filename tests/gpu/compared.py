"""A fit on the CPU and the same on the card, and the first difference between them."""

import re
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from gpu.libraries import on_host, placed
from sklearn.exceptions import ConvergenceWarning

from kvariates import KMeans


@dataclass(frozen=True)
class Fitted:
    model: KMeans
    next_number: float  # of the generator: as many numbers were drawn


def fit(X, k, *, device, seed=0, weight=None, **options):
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of fewer clusters than k
        model = KMeans(k, random_state=rng, device=device, **options)
        model.fit(X, sample_weight=weight)
    return Fitted(model, rng.random())


def bits(values):
    """The values as integers, so that 0 and -0 differ, and NaN equals itself."""
    values = np.ascontiguousarray(on_host(values))
    return values.view(f"u{values.itemsize}") if values.dtype.kind == "f" else values


def unequal(name, cpu, card):
    """The first difference of two arrays or numbers, in words; None if there is none."""
    cpu, card = np.asarray(on_host(cpu)), np.asarray(on_host(card))
    if (cpu.shape, cpu.dtype) != (card.shape, card.dtype):
        return f"{name}: {cpu.dtype} {cpu.shape} on the CPU, {card.dtype} {card.shape} on the card"
    other = np.argwhere(np.atleast_1d(bits(cpu) != bits(card)))
    if not len(other):
        return None
    at = tuple(int(i) for i in other[0])
    a, b = np.atleast_1d(cpu)[at], np.atleast_1d(card)[at]
    shown = (f"{v.item().hex()} = {v.item()!r}" if v.dtype.kind == "f" else f"{v}" for v in (a, b))
    where = "".join(f"[{i}]" for i in at) if cpu.ndim else ""
    one, two = shown
    count = f"{len(other)} of {cpu.size} differ"
    return f"{name}: {count}, first {name}{where}: CPU {one}, card {two}"


def first_difference(cpu, card, X=None):
    """Between two `Fitted`, in the order in which a mistake would spread; None if all is equal."""
    one, two = cpu.model, card.model
    found = [
        unequal("numbers drawn (the next one)", cpu.next_number, card.next_number),
        unequal("n_iter_", one.n_iter_, two.n_iter_),
        unequal("cluster_centers_", one.cluster_centers_, two.cluster_centers_),
        unequal("labels_", one.labels_, two.labels_),
        unequal("inertia_", float(one.inertia_), float(two.inertia_)),
    ]
    found = [words for words in found if words]
    if X is not None and any(words.startswith("labels_") for words in found):
        found.append(distances(X, one.cluster_centers_, one.labels_, on_host(two.labels_)))
    return "\n".join(found) or None


def distances(X, centers, cpu, card):
    """How far the first row with other labels is from both centres, by plain sums."""
    at = int(np.flatnonzero(cpu != card)[0])
    row, centers = X[at].astype(float), centers.astype(float)
    to_cpu, to_card = (((row - centers[which[at]]) ** 2).sum() for which in (cpu, card))
    return f"row {at} to these centres: CPU {to_cpu!r}, card {to_card!r}, on the CPU's centres"


def compare(X, k, library="numpy", fresh=None, **options):
    """AssertionError with the first difference between the CPU, the card, and the card again.

    What the CPU refuses, the card must refuse with the same words.
    """
    on_card = placed(X, library)
    try:
        cpu = fit(X, k, device="cpu", **options)
    except ValueError as refused:
        with pytest.raises(ValueError, match=re.escape(str(refused))):
            fit(on_card, k, device="cuda", **options)
        return
    card, again = (fit(on_card, k, device="cuda", **options) for _ in range(2))
    assert first_difference(cpu, card, X) is None
    assert first_difference(card, again) is None, "two fits on the card differ"
    if fresh is None:
        return
    for method in ("predict", "transform", "score"):
        told = getattr(cpu.model, method)(fresh)
        assert unequal(method, told, getattr(card.model, method)(placed(fresh, library))) is None
