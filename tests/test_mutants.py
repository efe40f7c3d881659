"""The mistakes that `make mutants` plants still fit the source."""

from experiments.mutants import MUTANTS, ROOT


def test_every_mutant_can_be_planted():
    for mutant in MUTANTS:
        compile(mutant.plant(mutant.path.read_text(encoding="utf-8")), mutant.name, "exec")
        assert all((ROOT / "tests" / test).exists() for test in mutant.tests.split()), mutant.name
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
