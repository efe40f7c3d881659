#!/bin/sh
# Install Debian's Chromium, in which tests/browser opens pages, if that is possible here.
# If not, print one line: those tests are skipped.

skipped() {
    echo "no Chromium: $1; the tests in tests/browser will be skipped"
    exit 0
}

command -v chromium >/dev/null && exit 0
command -v apt-get >/dev/null || skipped "this system has no apt-get"
test "$(id -u)" = 0 || skipped "apt-get needs root"
echo "installing chromium"
{ apt-get -q update && apt-get -q -y install --no-install-recommends chromium; } >/dev/null 2>&1 ||
    skipped "apt-get cannot install the package chromium"
