"""Secret: a value computed from private rows. It can be computed with and released, but not read.

    rows.map(function)             another secret: what the function returns
    accountant.release(secret, …)  a noisy answer, if the secret is a query; its charge is recorded
    accountant.publish(secret, …)  the value itself, if it has noise already; its charge is recorded
    secret.reveal(reason)          the value itself, if it is public

Functions given to `map` must not store what they see elsewhere. A test lists every call of
`reveal` in the library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")
U = TypeVar("U")

REFUSED = (
    "This value was computed from private rows and cannot be read. Compute with it by "
    "`map`, and release a query made from it."
)


class Secret(Generic[T]):
    """A value that only releases may look at."""

    __slots__ = ("__value",)
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # NumPy must not compute with it either

    def __init__(self, value: T) -> None:
        self.__value = value

    def map(self, function: Callable[[T], U]) -> Secret[U]:
        """The result of a function of the value, as a secret."""
        return Secret(function(self.__value))

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
    __array__ = __float__ = __int__ = __index__ = __reduce_ex__ = __copy__ = __deepcopy__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __getattr__ = _refuse
