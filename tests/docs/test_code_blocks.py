"""Every Python block and every command of README and of the documentation runs, or says why not.

The examples of the gallery run when the documentation is built.
"""

from __future__ import annotations

import importlib
import re
import runpy
import shutil
import subprocess
import sys

import numpy as np
import pytest
from docs.code_blocks import PAGES, ROOT, blocks, python_blocks, shell_commands, text

# Languages of fences: what runs, and what is shown only.
RUN = {"python", "py", "console"}
SHOWN = {"text", "toml", ""}  # layouts, other libraries, configuration files
DIRECTIVE = re.compile(r"\{[\w-]+\}.*")  # of the documentation: {toctree}, {image}, ...

# A command that begins so is not run, for this reason.
NOT_RUN = {
    "pip install": "needs the network; make and the tests of the build install the package",
    "flower-superlink": "needs running nodes: make federated runs these commands",
    "flower-supernode": "needs running nodes: make federated runs these commands",
    "flwr": "needs running nodes: make federated runs these commands",
    "openssl": "makes certificates for several machines; was run by hand",
    "ssh-keygen": "makes keys for several machines; was run by hand",
    "echo": "a line of the certificates above",
    "kvariates fit rows/": "needs a cluster: tests/clusters/test_dask_command.py runs it",
    "kvariates fit --init d2x3": "the name of a seeding that a reader adds",
    "kvariates demo": "takes a minute: tests/cli/test_demo.py runs it",
}
# A script (```py) that has this line is compiled and not run, for this reason.
NOT_RUN_SCRIPTS = {
    "result = simulate(load_moments": "starts Ray; tests/federated calls the same functions",
}


@pytest.mark.parametrize("page", PAGES)
def test_every_fence_has_a_language_that_is_known(page):
    languages = {block.language for block in blocks(page)}
    assert {lang for lang in languages if not DIRECTIVE.fullmatch(lang)} <= RUN | SHOWN


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to write to, with the examples: as a reader would paste code in a checkout."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)])
@pytest.mark.usefixtures("folder")
def test_the_python_blocks_of_a_page_run(page):
    """They share their variables."""
    names = {"__name__": "a_page"}
    for number, block in enumerate(python_blocks(page)):
        exec(compile(block, f"{page}, block {number}", "exec"), names)


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page, "py")])
@pytest.mark.usefixtures("folder")
def test_the_scripts_of_a_page_run(page):
    """Up to `if __name__ == "__main__"`: what follows starts simulations."""
    names = {"__name__": "a_page", "np": np}
    for number, block in enumerate(python_blocks(page, "py")):
        code = compile(block, f"{page}, script {number}", "exec")
        if not any(line in block for line in NOT_RUN_SCRIPTS):
            exec(code, names)


TABLES = "examples/sample_tables.py"  # writes what the commands read
COMMANDS = sorted({(page, *words) for page in PAGES for words in shell_commands(page)})
OURS = sorted({page for page, command, *_ in COMMANDS if command == "kvariates"})


def reason_not_to_run(words):
    line = " ".join(words)
    return next((why for start, why in NOT_RUN.items() if line.startswith(start)), None)


def test_commands_were_found():
    assert len(OURS) >= 6
    assert {command[1] for command in COMMANDS} >= {"kvariates", "make", "python", "pip"}


@pytest.mark.parametrize("page", OURS)
@pytest.mark.usefixtures("folder")
def test_the_commands_of_a_page_run(page, monkeypatch, capsys):
    """One after the other: `predict` reads the model that `fit` wrote."""
    for words in shell_commands(page):
        if words[:2] == ["python", TABLES]:
            subprocess.run([sys.executable, *words[1:]], check=True)
        elif words[0] == "kvariates" and not reason_not_to_run(words):
            for default in ("kvariates-out", "kvariates-groups"):
                shutil.rmtree(default, ignore_errors=True)
            assert not exit_code(words, monkeypatch), (words, capsys.readouterr().err)


def exit_code(words, monkeypatch):
    from api import main_of_command as main

    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


@pytest.mark.parametrize("command", [c for c in COMMANDS if c[1] != "kvariates"], ids=" ".join)
def test_a_command_of_others_exists(command):
    """Make has the target, the module or the file exists; other commands have a reason."""
    words = command[1:]
    if words[0] == "make":
        makefile = text("Makefile")
        targets = [word for word in words[1:] if re.fullmatch(r"[a-z-]+", word)]
        assert {target for target in targets if f"\n{target}:" not in makefile} == set()
    elif words[0] == "python" and words[1] == "-m":
        assert module_file(words[2]).exists()
    elif words[0] == "python":
        assert (ROOT / words[1]).exists()
    else:
        assert reason_not_to_run(words)


def module_file(name):
    path = ROOT.joinpath(*name.split("."))
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def test_the_sample_is_what_its_script_makes():
    names, rows = runpy.run_path(str(ROOT / TABLES))["customers"]()
    lines = [",".join(line) for line in [names, *rows]]
    assert text("examples/customers.csv").splitlines() == lines


def test_the_charts_are_those_of_the_kept_runs(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    pages = importlib.import_module("benchmark_pages")
    for name, chart in pages.charts().items():
        assert chart == (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.fixture
def runs(monkeypatch):
    """The kept runs of the benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("benchmark_runs")


def test_readme_names_every_target_that_the_kept_run_missed(runs):
    missed = [v["found"] for v in runs.speed_run()["verdicts"] if v["met"] is False]
    readme, words = text("README.md"), ["no", "one", "two", "three", "four", "five", "six", "seven"]
    assert f"{words[len(missed)]} of our own goals were missed" in readme.lower()
    figures = [found.split("x")[0] for found in missed if "x" in found.split()[0]]
    assert [figure for figure in figures if figure not in readme] == []
    assert len(figures) == len(missed) - 1  # the other one is about memory


def test_readme_gives_the_speed_of_the_kept_run(runs):
    for library in ("sklearn", "intelex"):
        means = [
            ratio.mean
            for ratio in runs.speed_ratios(runs.speed_run())
            if ratio.library == library and (library, ratio.section) != ("sklearn", "plain")
        ]
        assert f"{min(means):.1f} to {max(means):.1f} times" in text("README.md")


@pytest.mark.parametrize("name", ["benchmarks.svg", "private_costs.svg"])
def test_a_chart_can_be_read_on_a_phone(name):
    chart = text(f"docs/{name}")
    smallest = min(int(size) for size in re.findall(r"font-size:(\d+)px", chart))
    assert smallest * 360 / int(re.search(r'viewBox="0 0 (\d+)', chart)[1]) > 7
