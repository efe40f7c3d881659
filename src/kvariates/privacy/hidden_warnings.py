"""Hides the warnings of one thread while it computes with private rows, which they could show.

`warnings.catch_warnings` changes the filters of all threads unless Python says otherwise
(``sys.flags.context_aware_warnings``), so two threads could show each other's warnings, or leave
them hidden. Here one filter is put in front of the others, and matches only in threads that compute
with rows at that time. This does not hide every warning: one is shown if, during the computation,
another thread changes the filters, or if the function itself changes them or warns in a thread that
it started. So functions on private rows must not warn at all; the tests of whole methods check it.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class _Depth(threading.local):
    value = 0


class _AnyInside(type):
    """The type of a category of warnings that has all of them, in threads that are inside."""

    def __subclasscheck__(cls, category: type) -> bool:
        return _depth.value > 0


class _Hidden(Warning, metaclass=_AnyInside):
    pass


_depth = _Depth()


@contextmanager
def hidden_warnings() -> Iterator[None]:
    """No warning of this thread is shown or raised inside."""
    if getattr(sys.flags, "context_aware_warnings", False):  # Python 3.14 on
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
        return
    if not warnings.filters or warnings.filters[0][2] is not _Hidden:
        warnings.simplefilter("ignore", _Hidden)
    _depth.value += 1
    try:
        yield
    finally:
        _depth.value -= 1


@contextmanager
def silent() -> Iterator[None]:
    """As `hidden_warnings`; NumPy does not warn or raise about overflow and the like, either."""
    with np.errstate(all="ignore"), hidden_warnings():
        yield
