#!/bin/sh
# Compile and install kvariates in place, and show how far the compiler is; all output if it fails.
# usage: compile.sh PYTHON   (the compiler is $CXX)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
{
    "$1" -m pip --disable-pip-version-check --no-input install -v --no-build-isolation -e . 2>&1
    echo "exit $?"
} | tee "$log" | while IFS= read -r line; do
    case $line in
    *"["[0-9]*/[0-9]*"]"*)
        part=${line#*[}
        part=${part%%]*}
        case ${part%%/*} in *[!0-9]*) continue ;; esac
        test $((${part%%/*} % 8)) != 0 || echo "  compiled ${part%%/*} of ${part#*/}"
        ;;
    esac
done
test "$(tail -n 1 "$log")" = "exit 0" || { cat "$log"; exit 1; }
