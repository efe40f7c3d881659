// How a native test says what holds and what does not. Built by `make sanitize` with address and
// undefined-behaviour sanitizers.
#pragma once

#include <cstdio>
#include <string>

inline int passed = 0, failed = 0;

inline void check(bool ok, const std::string& what) {
    ok ? ++passed : ++failed;
    if (!ok) std::printf("FAILED %s\n", what.c_str());
}

inline int verdict() {
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
