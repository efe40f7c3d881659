"""`python -m benchmarks.gpu` where there is no card: its verdicts, and its files."""

import pytest
from benchmarks import gpu, gpu_data
from benchmarks.gpu_sections import Ceilings, Figures, Measured

CEILINGS = Ceilings(4e12, 5e10, 1e10, 5e10, 8e14, 8e14, 5e13)


def measured(section, name="uniform", shape=(1_000_000, 128, 1_024), same=None, **seconds):
    """`seconds` of libraries; a pair has the share of wrong labels, too."""
    libraries = {}
    for who, given in seconds.items():
        wall, wrong = given if isinstance(given, tuple) else (given, None)
        libraries[who] = Figures([wall], 25, 1.0, wrong)
    return Measured(f"{section}: {name}", section, *shape, libraries, same_bits=same)


def met(found):
    return {v.target: v.met for v in gpu.verdicts(found, CEILINGS)}


def verdict(found, words):
    (value,) = (value for target, value in met(found).items() if words in target)
    return value


def test_nothing_is_met_by_what_was_not_run():
    assert set(met([]).values()) == {None}


def test_verdicts_beside_flash():
    fast = measured("lloyd", "a", kvariates=(1, 0.0), flash=4)
    slow = measured("lloyd", "b", kvariates=(1, 0.0), flash=1.1)
    assert verdict([fast], "on average") is verdict([fast], "1.2 times") is True
    assert verdict([fast, slow], "on average") is True
    assert verdict([fast, slow], "1.2 times") is False
    assert verdict([slow], "on average") is False


def test_one_wrong_label_is_told():
    right, wrong = (measured("lloyd", kvariates=(1, share)) for share in (0.0, 1e-9))
    assert verdict([right], "labels is wrong") is True
    assert verdict([right, wrong], "labels is wrong") is False
    assert "1e-09" in gpu.text([wrong], CEILINGS)


def test_the_cpu_counts_where_there_is_much_to_do():
    small = measured("fit", "small", kvariates=1, cpu=2)
    large = measured("fit", "large", (1_000_000, 128, 8_192), True, kvariates=1, cpu=30)
    assert verdict([small], "the CPU takes") is None
    assert verdict([small, large], "the CPU takes") is True
    assert verdict([large], "every bit") is True
    assert verdict([large, measured("fit", same=False)], "every bit") is False


def test_seeding_and_streams():
    for seconds, expected in ((0.9, True), (1.1, False)):
        one = measured("seeding", "uniform 1000kx128 k=1024 k-means++", kvariates=seconds)
        assert verdict([one], "below 1 s") is expected
    size = 4 * 100_000_000 * 16
    for speed, expected in ((4e10, True), (3e10, False)):
        one = measured("streamed", "rows", (100_000_000, 16, 256), kvariates=size / speed)
        assert verdict([one], "the bus") is expected


def test_a_file_is_read_as_it_was_written(tmp_path):
    cut = measured("fit", "a", same=True, kvariates=1, cpu=130)
    cut.libraries["cpu"].stopped = True
    kept = gpu.Kept({"card": "none"}, CEILINGS, [cut])
    kept.save(tmp_path / "one.json")
    later = gpu.Kept({"card": "none"}, CEILINGS, [measured("fit", "b", kvariates=2)])
    later.save(tmp_path / "two.json")
    joined = gpu.merged([tmp_path / "one.json", tmp_path / "two.json"])
    assert joined.found == [*kept.found, *later.found]
    assert joined.ceilings == CEILINGS
    assert "> 130.00" in gpu.text(joined.found, CEILINGS)
    gpu.main([f"--save={tmp_path / 'joined'}", "--merge", str(tmp_path / "one.json")])
    assert len(list((tmp_path / "joined").glob("gpu-*.json"))) == 1


def test_names_of_cells_differ():
    names = [cell.name for cell in gpu_data.cells()]
    assert len(names) == len(set(names))
    assert {cell.section for cell in gpu_data.cells()} == set(gpu.SECTIONS) - {"ceilings"}


def test_an_unknown_section_is_refused(capsys):
    with pytest.raises(SystemExit):
        gpu.main(["--only=lloid"])
    assert "there are ceilings, lloyd" in capsys.readouterr().err
