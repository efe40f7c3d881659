"""Chromium, and the pages that it opens."""

import shutil

import pytest
from api import write_fit
from browser.reports import case


@pytest.fixture(scope="module")
def browser():
    sync = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with sync.sync_playwright() as playwright:
        try:
            path = shutil.which("chromium")
            started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except sync.Error as error:
            if path is not None:  # installed, so it has to start
                raise
            pytest.skip(f"Chromium cannot be started: {str(error).splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    made = {}

    def report(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            write_fit(*case(name), folder)
            made[name] = folder / "report.html"
        return made[name]

    return report


@pytest.fixture
def write(tmp_path):
    """Writes the report of a run and returns its path."""

    def written(run, shown):
        write_fit(run, shown, tmp_path)
        return tmp_path / "report.html"

    return written
