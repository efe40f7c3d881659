"""Signals that end the command, but not in the middle of an import.

An exception that a signal raises while a module is imported can be lost, or come out as another
one: Python ignores it in some callbacks, and wraps it in others. So it waits for the import.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

WAIT = 0.02  # seconds until the stack is looked at again
MOST = 500  # looks; an import that hangs is interrupted after that
IMPORTING = "<frozen importlib._bootstrap>"
Handler = Callable[[int, FrameType | None], None]


def raise_after_imports(error: type[BaseException]) -> Handler:
    """A handler of a signal that raises `error`, after the import that is going on, if any."""
    looks = 0

    def handle(_: int, frame: FrameType | None) -> None:
        nonlocal looks
        if not is_importing(frame) or looks == MOST or not hasattr(signal, "setitimer"):
            raise error
        looks += 1
        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, WAIT)

    return handle


def is_importing(frame: FrameType | None) -> bool:
    """Whether a module is imported in this frame, or in one that called it."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False
