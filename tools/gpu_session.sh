#!/usr/bin/env bash
# What is run on a machine with a card, in parts that each end within nine minutes.
#
# usage: tools/gpu_session.sh build | test [PYTEST ARGUMENTS] | bench SECTION | profile [CELLS] | sanitize
#        tools/gpu_session.sh steps "build" "test -k fit" ...   one after the other, until one fails
#
# Results go to $OUT (build/gpu if it is not set). $PYTHON is python3 if it is not set. Nothing is
# installed: wheels of nanobind and scikit-build-core, if these are missing, and of the libraries to
# compare with are taken from the folder $WHEELS (.lease if it is not set).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON=${PYTHON:-python3}
OUT=${OUT:-build/gpu}
WHEELS=${WHEELS:-.lease}
TOOLS=build/gpu-tools # unpacked wheels: CMake reads files of nanobind
LIMIT=${LIMIT:-530}   # seconds of a part
mkdir -p "$OUT"
export PYTHONUNBUFFERED=1 PYTHONPATH="$PWD/src:$PWD:$PWD/$TOOLS"

limited() {
    timeout --kill-after=10 "$LIMIT" "$@" || {
        status=$?
        test $status != 124 || echo "ended after $LIMIT s" >&2
        return $status
    }
}

has() {
    "$PYTHON" -c "import $1" 2>/dev/null
}

unpack() { # MODULE PATTERN
    has "$1" && return
    for wheel in "$WHEELS"/$2; do
        test -e "$wheel" || { echo "python3 has no $1, and $WHEELS has no $2" >&2; return 1; }
        "$PYTHON" -m zipfile -e "$wheel" "$TOOLS"
    done
}

# The native module is put beside its sources: no pip, and no second copy of the Python files. Pins of
# pyproject.toml are not asked for, except that scikit-build-core looks for CMake 3.26 or newer.
build() {
    mkdir -p "$TOOLS" build/gpu-wheel
    unpack nanobind 'nanobind-*.whl'
    unpack scikit_build_core 'scikit_build_core-*.whl'
    unpack pathspec 'pathspec-*.whl' # this and the next one are imported by scikit-build-core
    unpack packaging 'packaging-*.whl'
    rm -f build/gpu-wheel/*.whl
    limited "$PYTHON" -c '
import scikit_build_core.build as build
print(build.build_wheel("build/gpu-wheel"))' >"$OUT/build.log" 2>&1 || { tail -40 "$OUT/build.log"; return 1; }
    "$PYTHON" -c '
import sys, zipfile
from pathlib import Path
(wheel,) = Path("build/gpu-wheel").glob("*.whl")
with zipfile.ZipFile(wheel) as file:
    for name in file.namelist():
        if name.startswith("kvariates/_native") and name.endswith(".so"):
            Path("src", name).write_bytes(file.read(name))
            print("src/" + name)'
    "$PYTHON" -c '
import numpy, kvariates
X = numpy.random.default_rng(0).random((1000, 8), dtype="float32")
one, two = (kvariates.KMeans(5, device=where, random_state=0).fit(X) for where in ("cpu", "cuda"))
print("kvariates", kvariates.__version__, kvariates.__file__, "equal:", (one.labels_ == two.labels_).all())'
}

tests() {
    local where=(tests/gpu)
    case "${1:-}" in tests/*) where=() ;; esac
    limited "$PYTHON" -m pytest -q -p no:cacheprovider --durations=10 "${where[@]}" "$@" 2>&1 |
        tee "$OUT/test.log"
}

bench() {
    limited "$PYTHON" -m benchmarks.gpu --only "$1" --peers "$WHEELS" --save "$OUT" "${@:2}" 2>&1 |
        tee "$OUT/bench-${1//,/-}.log"
}

profile() {
    limited "$PYTHON" -m benchmarks.gpu --profile --only lloyd,seeding --save "$OUT" \
        --cells "${1:-embedding 1000kx128 k=1024}" 2>&1 | tee "$OUT/profile.log"
}

# memcheck: reads and writes outside of arrays; racecheck: of shared memory; synccheck: barriers that
# not all threads reach; initcheck: reads of what nothing wrote.
sanitize() {
    local tool checker failed=0
    checker=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer | head -1)
    "$PYTHON" tests/gpu/small_fits.py >"$OUT/small-fits.log" 2>&1 || { cat "$OUT/small-fits.log"; failed=1; }
    for tool in ${1:-memcheck racecheck synccheck initcheck}; do
        echo "== $tool"
        LIMIT=${TOOL_LIMIT:-120} limited "$checker" --tool "$tool" --error-exitcode 9 --print-limit 20 \
            "$PYTHON" tests/gpu/small_fits.py >"$OUT/$tool.log" 2>&1 || failed=1
        grep -v '^fit ' "$OUT/$tool.log" | head -30
        grep -c '^fit ' "$OUT/$tool.log" | sed 's/$/ fits were checked/'
    done
    return $failed
}

step=${1:?build, test, bench, profile, sanitize or steps}
shift
if test "$step" = steps; then
    for each in "$@"; do
        # shellcheck disable=SC2086
        tools/gpu_session.sh $each
    done
    exit
fi
trap 'echo "-- $step: exit $? after $SECONDS s"' EXIT
case $step in
build) build ;;
test) tests "$@" ;;
bench) bench "$@" ;;
profile) profile "$@" ;;
sanitize) sanitize "$@" ;;
*) echo "no such step: $step" >&2; exit 2 ;;
esac
