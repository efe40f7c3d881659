"""Secret: a value computed from private rows. It can be computed with and released, but not read.

    rows.map(function)             another secret: what the function returns
    accountant.release(secret, …)  a noisy answer, if the secret is a query; its charge is recorded
    accountant.publish(secret, …)  the value itself, if it has noise already; its charge is recorded
    secret.reveal(reason)          the value itself, if it is public

Functions given to `map` must not store what they see elsewhere. If one fails, `map` raises an error
that has neither its message nor its frames, nor its type: they could disclose rows. A test lists
every call of `reveal` in the library. A `Secret` prevents accidents, not malice: any code in this
process can read its memory.

Warnings could show rows, too. `warnings.catch_warnings` changes the filters of all threads, so here
one filter is put in front of the others that matches only in threads that compute with rows at that
time. A warning is still shown if another thread changes the filters meanwhile, or the function
itself does, or starts a thread that warns. So functions on private rows must not warn at all; the
tests of whole methods check it.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

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


T = TypeVar("T")
U = TypeVar("U")

_log = logging.getLogger(__name__)

FAILED = (
    "A computation on private rows failed. Where and why could disclose rows, so it is not said "
    "here; the log of kvariates.privacy.secret (level DEBUG) has the place. Try rows that are not "
    "private."
)
REFUSED = (
    "This value was computed from private rows and cannot be read. Compute with it by "
    "`map`, and release a query made from it."
)


class PublicError(RuntimeError):
    """An error whose message says nothing about rows; `Secret.map` lets it pass."""


class Secret(Generic[T]):
    """A value that only releases may look at."""

    __slots__ = ("__value",)
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # NumPy must not compute with it either

    def __init__(self, value: T) -> None:
        self.__value = value

    def map(self, function: Callable[[T], U]) -> Secret[U]:
        """The result of a function of the value, as a secret.

        Warnings, also NumPy's about numbers (overflow, invalid), are not shown: they disclose rows.
        """
        failed: BaseException
        try:
            with silent():
                return Secret(function(self.__value))
        except PublicError as error:
            failed = type(error)(*error.args)
        except MemoryError:  # its message has the shape of an array
            failed = MemoryError("There is not enough memory for this fit.")
        except KeyboardInterrupt:
            failed = KeyboardInterrupt()
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} in {Path(at.filename).name}, line {at.lineno}"
            _log.debug("A computation on private rows failed: %s", place)
            failed = RuntimeError(FAILED)
        except BaseException as stop:  # of a signal handler, such as SystemExit: frames hold rows
            failed = stop
        failed.__traceback__ = failed.__context__ = failed.__cause__ = None
        raise failed  # not inside `except`, so that the error is not its context

    def with_(self, other: Secret[U]) -> Secret[tuple[T, U]]:
        """Both values, as one secret."""
        return other.map(lambda its: (self.__value, its))

    def reveal(self, reason: str) -> T:
        """The value. `reason`: why it is public, or which charge pays for it."""
        if not reason:
            raise ValueError("Say why this value may be read.")
        return self.__value

    def __repr__(self) -> str:
        return "Secret(...)"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(REFUSED)

    __len__ = __iter__ = __getitem__ = __contains__ = __bool__ = __eq__ = __ne__ = _refuse
    __array__ = __float__ = __int__ = __index__ = __complex__ = __copy__ = __deepcopy__ = _refuse
    __reduce_ex__ = __reduce__ = __getstate__ = __setstate__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __getattr__ = _refuse
