#!/bin/sh
# Compile and install kvariates in place, and show how far the compiler is; all output if it fails.
# usage: compile.sh PYTHON   (the compiler is $CXX)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
{
    "$1" -m pip --disable-pip-version-check --no-input install -v --no-build-isolation -e . 2>&1
    echo "exit $?"
} | tee "$log" | awk '
    match($0, /\[[0-9]+\/[0-9]+\]/) {
        split(substr($0, RSTART + 1, RLENGTH - 2), part, "/")
        if (part[1] % 8 == 0 || part[1] == part[2]) { print "  compiled " part[1] " of " part[2]; fflush() }
    }'
test "$(tail -n 1 "$log")" = "exit 0" || { cat "$log"; exit 1; }
