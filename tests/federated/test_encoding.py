"""Messages: every value comes back as it was, and hostile bytes give a ValueError."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import numpy as np
import pytest
from api import (
    MAX_BYTES,
    Envelope,
    Failure,
    Question,
    decode,
    decode_envelope,
    decode_reply,
    encode,
    encode_envelope,
    encode_reply,
)
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

ARRAYS = st.sampled_from(["<i8", "<i4", "<f8", "<f4", "|b1"]).flatmap(
    lambda code: hnp.arrays(code, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)
NUMBERS = st.integers(-(2**300), 2**300) | st.floats()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text() | st.binary() | ARRAYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray):
        assert isinstance(b, np.ndarray)
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float) and math.isnan(a):
        return isinstance(b, float) and math.isnan(b)
    if a == 0 and isinstance(a, float):
        return isinstance(b, float) and math.copysign(1, a) == math.copysign(1, b)
    return type(a) is type(b) and a == b


def depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, inner), default=0)


@given(VALUES.filter(lambda value: depth(value) <= 8))
def test_every_value_comes_back(value):
    assert same(value, decode(encode(value)))


@given(VALUES.filter(lambda value: depth(value) <= 8), st.data())
def test_changed_bytes_give_a_value_or_a_value_error(value, data):
    sent = bytearray(encode(value))
    place = data.draw(st.integers(0, len(sent) - 1))
    sent[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(sent)))
    for hostile in (bytes(sent), bytes(sent[:cut])):
        with suppress(ValueError):
            decode(hostile)


def message(header: object, tail: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(4, "big") + text + tail


HOSTILE = {
    "object array": message({"array": ["|O", [1]]}, b"12345678"),
    "unsigned": message({"array": ["<u8", [1]]}, b"12345678"),
    "shape too large": message({"array": ["<f8", [2**40]]}, b"12345678"),
    "shape that overflows": message({"array": ["<f8", [2**33, 2**33]]}, b""),
    "negative axis": message({"array": ["<f8", [-1]]}, b""),
    "axis is a bool": message({"array": ["<f8", [True]]}, b"12345678"),
    "too many axes": message({"array": ["<f8", [1] * 40]}, b"12345678"),
    "bytes left": message(None, b"x"),
    "bool of 2": message({"array": ["|b1", [1]]}, b"\x02"),
    "not JSON": message(b"{"),
    "not UTF-8": message(b'"\xff"'),
    "NaN in JSON": message(b"NaN"),
    "float in JSON": message(b"1e400"),
    "long integer": message(b"9" * 5000),
    "integer with underscore": message({"int": "1_0"}),
    "float too large": message({"float": "0x1p99999"}),
    "unknown kind": message({"code": "x"}),
    "two kinds": message({"int": "1", "float": "0x1"}),
    "same key twice": message({"map": [["a", 1], ["a", 2]]}),
    "deep": message(b"[" * 100 + b"]" * 100),
    "very deep": message(b"[" * 100_000 + b"]" * 100_000),
    "header too long": (2**31).to_bytes(4, "big") + b"x",
    "empty": b"",
}  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_are_a_value_error(data):
    with pytest.raises(ValueError, match=r"message"):
        decode(data)
    assert isinstance(decode_reply(data), Failure)
    with pytest.raises(ValueError, match=r"message"):
        decode_envelope(data)


def test_a_long_message_is_refused():
    with pytest.raises(ValueError, match="more than 100"):
        decode(encode(np.zeros(50)), max_bytes=100)
    assert "more than" in decode_reply(b"x" * (MAX_BYTES + 1)).reason


@pytest.mark.parametrize("value", [np.array([object()]), np.zeros(1, complex), {1: 2}, object()])
def test_what_is_not_sent(value):
    with pytest.raises(TypeError, match="not sent"):
        encode(value)


def test_envelopes_and_replies_come_back():
    asked = Question("potential", {"centers": np.ones((2, 3)), "known": 2**80})
    envelope = Envelope(7, 2, asked, (asked, asked))
    back = decode_envelope(encode_envelope(envelope))
    assert (back.fit, back.position, back.question.name) == (7, 2, "potential")
    assert len(back.log) == 2
    assert back.log[1].arguments["known"] == 2**80
    assert decode_envelope(encode_envelope(Envelope(7, 0, asked))).log is None
    assert decode_reply(encode_reply(Failure("lost", log_needed=True))).log_needed
    assert decode_reply(encode_reply({"potential": math.inf})) == {"potential": math.inf}


@pytest.mark.parametrize("value", [3, {"fit": 1}, {"fit": -1, "position": 0, "log": None,
    "question": {"name": "x", "arguments": {}}}, {"fit": 1, "position": 0, "log": 3,
    "question": {"name": "x", "arguments": {}}}])  # fmt: skip
def test_other_values_are_no_envelope(value):
    with pytest.raises(ValueError, match="should"):
        decode_envelope(encode(value))


def test_a_large_header_is_refused():
    """Parsed, millions of empty lists would fill the memory."""
    header = b"[" + b"[]," * 2_000_000 + b"[]]"
    with pytest.raises(ValueError, match=r"header has \d+ bytes, more than"):
        decode(len(header).to_bytes(4, "big") + header)
