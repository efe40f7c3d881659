"""Plants mistakes in the C++ sources, one at a time, and shows which test catches each.

    python -m experiments.mutants_native                 all of them (minutes)
    python -m experiments.mutants_native LABELS LIMBS    those with one of these words in their name

The sources are copied to build/native-mutants and compiled there, for one instruction set. Tests
then load the native module of that folder. The exit code is 1 if a mutant is not caught.
"""

from __future__ import annotations

import importlib.machinery
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "native-mutants"
MODULE = "KVARIATES_NATIVE"  # the environment variable that names the native module to load
LAWS = "tests/laws/test_reference_laws.py"
GAINS = "tests/laws/test_gain_laws.py"
EMBEDDINGS = "tests/laws/test_embedding_laws.py"
SHARDS = "tests/laws/test_shard_laws.py"


@dataclass(frozen=True)
class NativeMutant:
    name: str
    file: str  # below native/
    before: str  # occurs once in the file
    after: str
    test: str  # a test of native/tests, or a file of Python tests

    def plant(self, source: str) -> str:
        if source.count(self.before) != 1:
            raise ValueError(f"{self.name}: {self.before!r} is not in {self.file} once.")
        return source.replace(self.before, self.after)


MUTANTS = [
    NativeMutant(
        "sixteen partial sums are joined in another order", "reference.hpp",
        "(part[0] + part[1]) + (part[2] + part[3])", "(part[0] + part[2]) + (part[1] + part[3])",
        LAWS,
    ),
    NativeMutant(
        "a near sparse row keeps its lost digits", "reference.hpp",
        "distance * 8 >= norm2 ?", "distance * 8 >= 0 * norm2 ?", LAWS,
    ),
    NativeMutant(
        "the rounding of a sum of squares is left out", "reference.hpp",
        "(norm2.rest - seen.rest)", "0 * (norm2.rest - seen.rest)", LAWS,
    ),
    NativeMutant(
        "of equally near centres the last one wins", "reference.hpp",
        "(c == cost && j < arg)", "(c == cost && j > arg)", LAWS,
    ),
    NativeMutant(
        "the middle limb has the wrong unit", "exact_sums.hpp",
        "UNIT_BITS[LIMBS] = {30, 61, 92}", "UNIT_BITS[LIMBS] = {30, 60, 92}", LAWS,
    ),
    NativeMutant(
        "a draw takes the row before the goal", "kernels.hpp",
        "if (goal < mass) return i;", "if (goal <= mass) return i;", LAWS,
    ),
    NativeMutant(
        "a new centre replaces one that is as near", "potential.hpp",
        "const auto less = fresh_cost < cost;", "const auto less = fresh_cost <= cost;", LAWS,
    ),
    NativeMutant(
        "gains that are negative count", "candidate_gains.hpp",
        "return less > 0 ? p.weight ? p.weight[i] * less : less : 0;",
        "return p.weight ? p.weight[i] * less : less;", LAWS,
    ),
    NativeMutant(
        "upper bounds leave out the slack", "row_bounds.hpp",
        "n2 * wider + 4 * slack : INFINITE", "n2 * wider : INFINITE", "row_bounds_test",
    ),
    NativeMutant(
        "the largest value leaves out the error of the centre", "row_bounds.hpp",
        "eps * (2 * (1 + ROUNDING) * radius2)", "eps * radius2", "row_bounds_test",
    ),
    NativeMutant(
        "a bound is rounded to the nearest float32", "row_bounds.hpp",
        "ONE_ROUNDING = 0x1p-22f;", "ONE_ROUNDING = 0;", "row_bounds_test",
    ),
    NativeMutant(
        "bounds leave out their own roundings", "row_bounds.hpp",
        "ROUNDING = 0x1p-20f;", "ROUNDING = 0;", "row_bounds_test",
    ),
    NativeMutant(
        "the slack of a row leaves out the row's part", "filter_dense.cpp",
        "tile.slack[r] = half * tile.norm2[r];", "tile.slack[r] = 0 * half;", "row_bounds_test",
    ),
    NativeMutant(
        "the slack of a row leaves out the centre's part", "filter_shift.hpp",
        "row_part[r] + tile.eps[r] * packed.radius2[tile.arg[r]]", "row_part[r]", "row_bounds_test",
    ),
    NativeMutant(
        "limits of costs leave out the slack", "row_bounds.hpp",
        "/ 2 + tile.slack[r] * (1 + ROUNDING);", "/ 2;", "row_bounds_test",
    ),
    NativeMutant(
        "the filter trusts a difference within its error", "filter_shift.hpp",
        "> 2 * load(tile.slack + g)", "> 0 * load(tile.slack + g)", LAWS,
    ),
    NativeMutant(
        "of few rows, a span of centres counts from its own first", "exact_distances.hpp",
        "static_cast<label_t>(first + j), s.squares", "static_cast<label_t>(j), s.squares",
        "tests/laws/test_serving_laws.py",
    ),
    NativeMutant(
        "a few changed rows are listed as those of the block's first list", "kernels.hpp",
        "visit((l << bits) + change.row", "visit(block * BLOCK + change.row",
        "tests/test_threads.py",
    ),
    NativeMutant(
        "widths of gains leave out the norm", "row_bounds.hpp",
        "tile.norm2[r] * of_norm +", "0 * of_norm +", "row_bounds_test",
    ),
    NativeMutant(
        "the error of a vector in bytes leaves out the last values", "byte_vectors.hpp",
        "rest += static_cast<double>(gap * gap), out", "out", "byte_rows_test",
    ),
    NativeMutant(
        "the last bytes have no neighbours", "byte_vectors.hpp",
        "(PAIRS && j % 2 ?", "(PAIRS && 0 * j ?", "byte_rows_test",
    ),
    NativeMutant(
        "a group of candidates has the sums of the first one", "byte_products.cpp",
        "of.start[at + j]", "of.start[j]", "byte_rows_test",
    ),
    NativeMutant(
        "the second value leaves out the lane of the best", "byte_products.cpp",
        "lane ? of.second : of.best", "lane ? of.second + 1e30f : of.best", EMBEDDINGS,
    ),
    NativeMutant(
        "a near centre has the place of its register", "byte_products.cpp",
        "first + __builtin_ctz(bits)", "first", EMBEDDINGS,
    ),
    NativeMutant(
        "a row that bytes cannot hold is excluded", "byte_tiles.cpp",
        "out.limit[i] = std::", "out.limit[i] = -std::", "byte_rows_test",
    ),
    NativeMutant(
        "the limit of a row takes the rounding of its norm the wrong way", "byte_tiles.hpp",
        "n2 * (1 - BYTE_ROUNDING)", "n2 * (1 + BYTE_ROUNDING)", "byte_rows_test",
    ),
    NativeMutant(
        "a group moves as far as its last centre", "byte_assign.hpp",
        "std::max(drift[group_[j]], moved[j])", "moved[j]", EMBEDDINGS,
    ),
    NativeMutant(
        "a row stays as near to its centre as before that moved", "byte_assign.hpp",
        "increased(upper_[i], moved[labels_[i]])", "upper_[i]", EMBEDDINGS,
    ),
    NativeMutant(
        "the nearest centre of another group counts as the row's own", "byte_assign.hpp",
        "own ? two.second[r] : two.best[r]", "two.second[r]", EMBEDDINGS,
    ),
    NativeMutant(
        "values of more bits than a word are added up in one word", "dense_sums.hpp",
        "std::ldexp(smallest, -24)", "std::ldexp(smallest, -22)", SHARDS,
    ),
    NativeMutant(
        "a word overflows before it is added", "dense_sums.hpp",
        "MOST = 1 << 12", "MOST = 1 << 14", SHARDS,
    ),
    NativeMutant(
        "a narrow sum does not borrow for a negative term", "dense_sums.hpp",
        "sum < units) - static_cast<std::int32_t>(units >> 63)", "sum < units)", SHARDS,
    ),
]  # fmt: skip


class _Finder:
    """Finds the native module that is named, before anybody else does."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != "kvariates._native":
            return None
        at = os.environ[MODULE]
        loader = importlib.machinery.ExtensionFileLoader(fullname, at)
        return importlib.machinery.ModuleSpec(fullname, loader, origin=at)


def pytest_configure() -> None:
    """Load the named native module: this module is also a plugin of pytest."""
    if os.environ.get(MODULE):
        sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]


def _run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [str(word) for word in command], cwd=ROOT, env={**os.environ, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def _must(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout


def prepare() -> None:
    """Copy the sources, where they changed, and configure a build of the plain kernels."""
    for name in (
        "CMakeLists.txt",
        *(str(p.relative_to(ROOT)) for p in ROOT.glob("native/**/*.?pp")),
    ):
        copy = FOLDER / "source" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or copy.read_bytes() != (ROOT / name).read_bytes():
            shutil.copyfile(ROOT / name, copy)
    nanobind = _must(_run(sys.executable, "-m", "nanobind", "--cmake_dir")).strip()
    _must(_run(
        "cmake", "-S", FOLDER / "source", "-B", FOLDER / "build", "-G", "Ninja", "-DSKBUILD=2",
        "-DKVARIATES_PLAIN=ON", "-DKVARIATES_TESTS=ON", "-DCMAKE_CXX_FLAGS_RELEASE=-O1",
        f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={nanobind}",
    ))  # fmt: skip


def caught_by(test: str) -> str:
    """The test that fails with the present sources; nothing if none does."""
    build = FOLDER / "build"
    native = not test.endswith(".py")
    _must(_run("cmake", "--build", build, "--target", test if native else "_native"))
    if native:
        return test if _run(build / test).returncode else ""
    [module] = build.glob("_native*.so")
    done = _run(
        sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-p",
        "experiments.mutants_native", "-k", "not other_instruction_sets", test,
        **{MODULE: str(module)},
    )  # fmt: skip
    found = re.findall(r"^(?:FAILED|ERROR) tests/(\S+::\S+)", done.stdout, re.MULTILINE)
    if done.returncode and not found:
        raise RuntimeError(done.stdout + done.stderr)
    return found[0] if found else ""


def main() -> int:
    """Run all mutants whose name has one of the given words; return 1 if one is not caught."""
    words = [word.lower() for word in sys.argv[1:]]
    chosen = [m for m in MUTANTS if not words or any(word in m.name.lower() for word in words)]
    prepare()
    for test in sorted({mutant.test for mutant in chosen}):
        if failing := caught_by(test):
            raise RuntimeError(f"{failing} fails without a mutant.")
    missed = 0
    for mutant in chosen:
        begin, path = time.perf_counter(), FOLDER / "source" / "native" / mutant.file
        source = path.read_text(encoding="utf-8")
        path.write_text(mutant.plant(source), encoding="utf-8")
        try:
            caught = caught_by(mutant.test)
        finally:
            path.write_text(source, encoding="utf-8")
        missed += not caught
        took = time.perf_counter() - begin
        print(f"{mutant.name}: {caught or 'NOT CAUGHT'} ({took:.0f} s)", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mutants are caught.")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
