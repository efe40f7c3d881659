#!/bin/sh
# Print one line about what is missing to build kvariates, and the package that has it.
# usage: needs.sh PYTHON COMPILER   (COMPILER is empty if none was found)

lacks() {
    echo "kvariates: missing $1; install it, for example: apt install $2" >&2
    exit 1
}

can() {
    "$python" -c "$1" 2>/dev/null
}

python=$1
can 'import sys; assert sys.version_info >= (3, 11)' || lacks "Python 3.11 or newer" python3
can 'import venv, ensurepip' || lacks "the venv module of $python" python3-venv
can 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' ||
    lacks "the C headers of $python" python3-dev
test -n "$2" || lacks "a C++ compiler" g++
