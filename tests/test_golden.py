"""Hundreds of fits give the same bits as when tests/golden/digests.json was written."""

import itertools

import pytest
from golden import fits
from slow_cases import mark_slow

from kvariates import _native

RECORD = fits.recorded()
LEVELS = _native.instruction_sets()
RUNS = [
    (fits.THREADS[i % len(fits.THREADS)], LEVELS[min(i, len(LEVELS) - 1)])
    for i in range(max(len(fits.THREADS), len(LEVELS)))
]


# Cases whose bits depend on numpy's vector code or on the BLAS: logarithms, matrix products and
# eigenvectors. All others are computed by the native code, by `numerics.elementary` and by numpy's
# generators.
NUMPY = (
    "kl", "itakura-saito", "mahalanobis", "total-jensen", "choose_k", "certify", "tree",
    "method=auto", "more/auto",
)  # fmt: skip
VERSIONS = ("numpy", "scipy", "scikit-learn")


def compare(found):
    """Fail if a digest is not the recorded one.

    Cases of NUMPY may differ on another machine, all cases with other versions: these are skipped.
    """
    wrong = fits.differences(found, RECORD["digests"])
    now, before = fits.made_with(), RECORD["made_with"]
    other = {key: (before[key], now[key]) for key in now if now[key] != before[key]}
    firm = [line for line in wrong if not any(word in line.split(": ")[0] for word in NUMPY)]
    if wrong and other and (not firm or other.keys() & set(VERSIONS)):
        pytest.skip(f"{len(wrong)} digests differ, but they were made elsewhere: {other}")
    assert not wrong, "\n".join([f"{len(wrong)} digests differ:", *wrong])


def test_every_case_is_recorded():
    assert list(RECORD["digests"]) == list(fits.CASES)


def test_cases_cover_all_pairs():
    """Every two choices of a KMeans occur together in some case; it may be refused."""
    named = [name.split("/")[1].split() for name in fits.CASES if name.startswith("kmeans/")]
    choices = [[pair.split("=", 1) for pair in words] for words in named]
    values = {key: {words[i][1] for words in choices} for i, (key, _) in enumerate(choices[0])}
    assert [len(v) for v in values.values()] == [9, 8, 6, 2, 2, 2]
    seen = {both for words in named for both in itertools.combinations(words, 2)}
    for first, second in itertools.combinations(values, 2):
        for a, b in itertools.product(values[first], values[second]):
            assert (f"{first}={a}", f"{second}={b}") in seen


def test_digests_tell_fits_apart():
    """Changes of one bit, of the type and of the shape are seen."""
    values = [1.0, 1, "1", [1.0], [[1.0]], (1.0, 1.0 + 2**-52), (1.0, 1.0)]
    assert len({fits.digest_of(value) for value in values}) == len(values)
    fitted = [value for value in RECORD["digests"].values() if not value.startswith("ValueError")]
    assert len(set(fitted)) > 0.8 * len(fitted)


SLOW = ("kmeans", "kmedian large", "private", "private more", "choose_k")


@pytest.mark.parametrize("kind", mark_slow(fits.KINDS, SLOW))
def test_fits_have_not_changed(kind):
    names = [name for name in fits.CASES if fits.kind_of(name) == kind]
    compare({name: fits.digest(name) for name in names if name not in fits.THREADED})


@pytest.fixture(scope="module")
def runs():
    """Large fits in fresh processes: on one thread and on more, with each instruction set."""
    return {
        (threads, level): fits.elsewhere(
            fits.THREADED, OMP_NUM_THREADS=threads, OPENBLAS_NUM_THREADS="1", KVARIATES_ISA=level
        )
        for threads, level in RUNS
    }


@pytest.mark.slow
def test_large_fits_do_not_depend_on_threads_or_instruction_sets(runs):
    """All pairs of both, for all cases: `python -m golden.fits --check --everywhere`."""
    first = runs[RUNS[0]]["digests"]
    for (_, level), run in runs.items():
        assert run["instruction set"] == level
        assert fits.differences(run["digests"], first) == []
    compare(first)


@pytest.mark.slow
def test_large_fits_use_other_threads_if_allowed(runs):
    for (threads, _), run in runs.items():
        for name, tasks in run["tasks of other threads"].items():
            assert (tasks > 0) == (threads != "1"), name
