"""Refuses to draw noise in a copy of a process that would repeat the noise of the original.

OpenDP draws from the generator of OpenSSL, whose state is in the memory of the process. The
generator takes new bytes from the operating system when it sees another process id, so it notices
a usual fork. It does not notice a copy with the same id: a child in a PID namespace of its own, or
a grandchild that was given an id for the second time.

A page of memory that the kernel clears in every child (Linux, MADV_WIPEONFORK) notices all copies.
On other systems Python's own fork does. A process that is restored from a snapshot is not noticed
by either: see `docs/threat_model.md`.
"""

from __future__ import annotations

import mmap
import os
import threading

from kvariates.privacy.secret import PublicError

WIPE_ON_FORK = 18  # MADV_WIPEONFORK of Linux
REPEATS = (
    "This process is a copy of another one with the same process id, and its noise would repeat "
    "the other's: start a new process instead of a fork in a PID namespace."
)


class ForkGuard:
    """Notices copies of this process. `check` before every draw."""

    def __init__(self) -> None:
        self._page, self._drawn = _cleared_in_children(), set[int]()
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def check(self) -> None:
        """PublicError if the noise of this process would repeat that of another."""
        if self._page[0]:
            return
        with self._lock:
            self._mark()

    def _mark(self) -> None:
        if self._page[0]:  # by another thread, while this one waited
            return
        # The ids with which noise was drawn in this process or in one that it is a copy of.
        if os.getpid() in self._drawn:
            raise PublicError(REPEATS)
        self._drawn.add(os.getpid())
        self._page[0] = 1

    def _in_child(self) -> None:
        self._page[0], self._lock = 0, threading.Lock()


def _cleared_in_children() -> mmap.mmap | bytearray:
    """Memory with a mark that is 0 at first; cleared by the kernel in children, if it can."""
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=flags)
        page.madvise(WIPE_ON_FORK)
    except (AttributeError, OSError):  # not Linux, or an old kernel
        return bytearray(1)
    return page


GUARD = ForkGuard()
