"""The mistakes that `make mutants` and `make native-mutants` plant still fit the sources."""

from experiments import mutants, mutants_native
from experiments.mutants import MUTANTS, ROOT


def test_every_mutant_can_be_planted():
    for mutant in MUTANTS:
        compile(mutant.plant(mutant.path.read_text(encoding="utf-8")), mutant.name, "exec")
        assert all((ROOT / "tests" / test).exists() for test in mutant.tests.split()), mutant.name
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_every_mutant_is_found_by_the_name_of_its_module():
    """A file __init__.py is imported by the name of its folder."""
    for mutant in MUTANTS:
        parts = mutant.path.relative_to(ROOT / "src").with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        assert mutants._Finder(mutant).find_spec(name, None) is not None, mutant.name


def test_every_native_mutant_can_be_planted():
    for mutant in mutants_native.MUTANTS:
        source = (ROOT / "native" / mutant.file).read_text(encoding="utf-8")
        assert mutant.plant(source) != source
        native = ROOT / "native" / "tests" / f"{mutant.test}.cpp"
        assert native.exists() or (ROOT / mutant.test).exists(), mutant.name
