"""Marks of public values: equal for equal values, whatever objects hold them."""

import types
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from api import Accountant, Graph, Secret

PLAIN = (type(None), bool, int, float, str, bytes, Fraction, np.generic)


def mark(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """Something that is equal for equal public values. Secrets are all the same.

    A function is its name and what it holds: the values of its closure and its defaults.
    """
    if isinstance(value, (Secret, Accountant)):  # an accountant's charges are compared elsewhere
        return type(value).__name__
    if isinstance(value, PLAIN):
        return (type(value).__name__, repr(value))
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if id(value) in inside:
        return "again"
    parts = _parts(value)
    if parts is None:
        return getattr(value, "__qualname__", type(value).__name__)
    return name(value), *(mark(part, (*inside, id(value))) for part in parts)


def name(value: Any) -> str:
    """What a function or an object is called."""
    function = value.func if isinstance(value, partial) else value
    return getattr(function, "__qualname__", type(function).__name__)


def _parts(value: Any) -> list[Any] | None:
    """What a value is made of, in order; None if it is not known."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, dict):
        return [part for key in sorted(value, key=repr) for part in (repr(key), value[key])]
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.FunctionType):
        return [[cell.cell_contents for cell in value.__closure__ or ()], value.__defaults__]
    if isinstance(value, Graph):  # its view is a native object, made of the same arrays
        return [value.csr.data, value.csr.indices, value.csr.indptr]
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return [vars(value)] if type(value).__module__.startswith("kvariates") else None
