"""Hundreds of fits give the same bits as when tests/golden/digests.json was written."""

import itertools

import pytest
from golden import fits

from kvariates import _native

RECORD = fits.recorded()
LEVELS = ("v2", "v3", "v4")


def compare(found):
    """Fail if a digest is not the recorded one. On another machine it may be another one: skip."""
    wrong = fits.differences(found, RECORD["digests"])
    now, before = fits.made_with(), RECORD["made_with"]
    if wrong and now != before:
        other = {key: (before[key], now[key]) for key in now if now[key] != before[key]}
        pytest.skip(f"{len(wrong)} digests differ, but they were made elsewhere: {other}")
    assert not wrong, "\n".join([f"{len(wrong)} digests differ:", *wrong])


def test_every_case_is_recorded():
    assert list(RECORD["digests"]) == list(fits.CASES)


def test_cases_cover_all_pairs():
    """Every two choices of a KMeans occur together, be it that they are refused."""
    named = [name.split("/")[1].split() for name in fits.CASES if name.startswith("kmeans/")]
    choices = [[pair.split("=", 1) for pair in words] for words in named]
    values = {key: {words[i][1] for words in choices} for i, (key, _) in enumerate(choices[0])}
    assert [len(v) for v in values.values()] == [9, 7, 6, 2, 2, 2]
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


@pytest.mark.parametrize("kind", fits.KINDS)
def test_fits_have_not_changed(kind):
    compare({name: fits.digest(name) for name in fits.CASES if fits.kind_of(name) == kind})


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_and_instruction_sets(threads, level):
    if level not in _native.instruction_sets():
        pytest.skip(f"this machine cannot run {level}")
    environment = {"OMP_NUM_THREADS": threads, "KVARIATES_ISA": level}
    compare(fits.elsewhere(fits.SUBSET, **environment)["digests"])
