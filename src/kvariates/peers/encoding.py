"""Questions and answers as bytes, and back, without pickle.

    message:  length of the header (4 bytes, big-endian), header, arrays and bytes one after another
    header:   JSON; an array is {"array": [dtype, shape]}, bytes are {"bytes": length}, a float is
              {"float": hex}, an integer of 2^53 or more is {"int": hex}, a dictionary is
              {"map": [[key, value], ...]}

Bytes of a stranger are decoded strictly: they give numbers, strings, lists and arrays of a few
dtypes, or a ValueError. An array has exactly the bytes that its shape says.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from kvariates.peers.questions import Envelope, Question
from kvariates.peers.transport import Failure, Reply

MAX_BYTES = 2**26  # of a message
MOST_HEADER = 2**22
DEEPEST = 8  # lists in lists
MOST_AXES = 6
LONGEST_REASON = 300
DTYPES = frozenset({"<i8", "<i4", "<f8", "<f4", "|b1"})
UNSIGNED = frozenset({"<u8", "<u2", "|u1"})  # masked numbers and labels of vertical k-means
VERTICAL_DTYPES = DTYPES | UNSIGNED
INTEGER = re.compile(r"-?[0-9a-f]{1,65536}")
SHORT = 2**53  # JSON readers keep integers below it


def encode(value: Any) -> bytes:
    """The bytes of a value. TypeError if it holds something that is not sent."""
    buffers: list[bytes] = []
    header = json.dumps(_to_json(value, buffers), separators=(",", ":"), allow_nan=False).encode()
    return b"".join([len(header).to_bytes(4, "big"), header, *buffers])


def decode(data: bytes, max_bytes: int = MAX_BYTES, dtypes: frozenset[str] = DTYPES) -> Any:
    """The value of these bytes. ValueError if they are not what `encode` returns."""
    if len(data) > max_bytes:
        raise ValueError(f"the message has {len(data)} bytes, more than {max_bytes}")
    size = int.from_bytes(data[:4], "big")
    if len(data) < 4 or size > len(data) - 4:
        raise ValueError("the message is shorter than its header says")
    if size > MOST_HEADER:  # parsed, it would fill many times its size
        raise ValueError(f"the header has {size} bytes, more than {MOST_HEADER}")
    try:
        parsed = json.loads(data[4 : 4 + size], parse_float=_refuse, parse_constant=_refuse)
        reader = _Reader(memoryview(data)[4 + size :], dtypes)
        value = reader.value(parsed, 0)
    except (ValueError, OverflowError, RecursionError) as error:  # UnicodeDecodeError is one
        raise ValueError(f"the message cannot be decoded: {error}") from None
    if len(reader.rest):
        raise ValueError(f"{len(reader.rest)} bytes are left at the end of the message")
    return value


def _to_json(value: Any, buffers: list[bytes]) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        number = int(value)
        return number if abs(number) < SHORT else {"int": format(number, "x")}
    if isinstance(value, float | np.floating):
        return {"float": float(value).hex()}
    if isinstance(value, bytes):
        buffers.append(value)
        return {"bytes": len(value)}
    if isinstance(value, np.ndarray):
        code = value.dtype.newbyteorder("<").str
        if code not in VERTICAL_DTYPES:
            raise TypeError(f"an array of {value.dtype} is not sent")
        buffers.append(np.ascontiguousarray(value, dtype=code).tobytes())
        return {"array": [code, list(value.shape)]}
    if isinstance(value, list | tuple):
        return [_to_json(item, buffers) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"map": [[key, _to_json(item, buffers)] for key, item in value.items()]}
    raise TypeError(f"a {type(value).__name__} is not sent")


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"the number {text[:20]!r} is not written as hex")


class _Reader:
    """From parsed JSON to values; arrays are cut from the front of `rest`."""

    def __init__(self, rest: memoryview, dtypes: frozenset[str]) -> None:
        self.rest, self._dtypes = rest, dtypes
        self._kinds: dict[str, Callable[[Any, int], Any]] = {
            "int": self._integer, "float": self._float, "bytes": self._bytes,
            "array": self._array, "map": self._map,
        }  # fmt: skip

    def value(self, parsed: Any, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError(f"values are nested more than {DEEPEST} deep")
        if isinstance(parsed, list):
            return [self.value(item, depth + 1) for item in parsed]
        if not isinstance(parsed, dict):
            return parsed
        if len(parsed) != 1 or (kind := next(iter(parsed))) not in self._kinds:
            raise ValueError("a value has an unknown kind")
        return self._kinds[kind](parsed[kind], depth)

    def _integer(self, text: Any, depth: int) -> int:
        if not isinstance(text, str) or not INTEGER.fullmatch(text):
            raise ValueError("an integer is not written as hex")
        return int(text, 16)

    def _float(self, text: Any, depth: int) -> float:
        if not isinstance(text, str) or len(text) > 40:
            raise ValueError("a float is not written as hex")
        return float.fromhex(text)

    def _bytes(self, length: Any, depth: int) -> bytes:
        return bytes(self._cut(_size(length)))

    def _array(self, described: Any, depth: int) -> Any:
        if not isinstance(described, list) or len(described) != 2:
            raise ValueError("an array needs a dtype and a shape")
        code, shape = described
        if not isinstance(code, str) or code not in self._dtypes:
            raise ValueError(f"an array has the dtype {code!r:.20}")
        if not isinstance(shape, list) or len(shape) > MOST_AXES:
            raise ValueError(f"the shape of an array is not a list of at most {MOST_AXES} numbers")
        dtype = np.dtype(code)
        raw = self._cut(math.prod(_size(axis) for axis in shape) * dtype.itemsize)
        if code == "|b1" and np.frombuffer(raw, np.uint8).max(initial=0) > 1:
            raise ValueError("an array of bool has other values than 0 and 1")
        return np.frombuffer(raw, dtype).reshape(shape).copy()

    def _map(self, pairs: Any, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if not isinstance(pairs, list):
            raise ValueError("a dictionary is not a list of pairs")
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
                raise ValueError("a dictionary is not a list of pairs")
            if pair[0] in found:
                raise ValueError(f"the key {pair[0]!r:.40} is there twice")
            found[pair[0]] = self.value(pair[1], depth + 1)
        return found

    def _cut(self, length: int) -> memoryview:
        if length > len(self.rest):
            raise ValueError("an array is longer than the message")
        cut, self.rest = self.rest[:length], self.rest[length:]
        return cut


def _size(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < SHORT:
        raise ValueError("a length is not a number >= 0")
    return number


# -- envelopes and replies -------------------------------------------------------------------------


def encode_envelope(envelope: Envelope) -> bytes:
    """The bytes of an envelope."""
    log = envelope.log
    return encode(
        {
            "fit": envelope.fit,
            "position": envelope.position,
            "question": _question(envelope.question),
            "log": None if log is None else [_question(question) for question in log],
        }
    )


def decode_envelope(
    data: bytes, max_bytes: int = MAX_BYTES, dtypes: frozenset[str] = DTYPES
) -> Envelope:
    """ValueError if the bytes are not an envelope."""
    fields = _fields(decode(data, max_bytes, dtypes), {"fit", "position", "question", "log"})
    fit, position, log = fields["fit"], fields["position"], fields["log"]
    if not _whole(fit) or not _whole(position):
        raise ValueError("the numbers of the fit and of the question should be integers >= 0")
    if log is not None and not isinstance(log, list):
        raise ValueError("the log should be a list")
    earlier = None if log is None else tuple(map(_question_of, log))
    return Envelope(fit, position, _question_of(fields["question"]), earlier)


def encode_reply(reply: Reply) -> bytes:
    """The bytes of an answer or of a failure."""
    if isinstance(reply, Failure):
        return encode({"failure": reply.reason, "log_needed": reply.log_needed})
    return encode({"answer": reply})


def decode_reply(data: bytes, max_bytes: int = MAX_BYTES, dtypes: frozenset[str] = DTYPES) -> Reply:
    """The reply of a peer; a failure if it cannot be decoded."""
    try:
        value = decode(data, max_bytes, dtypes)
        if isinstance(value, dict) and value.keys() == {"failure", "log_needed"}:
            return Failure(_short(str(value["failure"])), log_needed=value["log_needed"] is True)
        answer = _fields(value, {"answer"})["answer"]
    except ValueError as error:
        return Failure(_short(str(error)))
    return answer if isinstance(answer, dict) else Failure("its answer is not a dictionary")


def _question(question: Question) -> dict[str, Any]:
    return {"name": question.name, "arguments": dict(question.arguments)}


def _question_of(value: Any) -> Question:
    fields = _fields(value, {"name", "arguments"})
    if not isinstance(fields["name"], str) or not isinstance(fields["arguments"], dict):
        raise ValueError("a question needs a name and arguments")
    return Question(fields["name"], fields["arguments"])


def _fields(value: Any, names: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != names:
        raise ValueError(f"the message should have the parts {', '.join(sorted(names))}")
    return value


def _whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _short(reason: str) -> str:
    """One line of printable characters: it is shown to a person."""
    line = "".join(c if c.isprintable() else " " for c in reason)
    return line[:LONGEST_REASON]
