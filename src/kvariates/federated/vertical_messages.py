"""Messages of vertical k-means over Flower: numbered questions to a party, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kvariates.peers.encoding import DTYPES, MAX_BYTES, UNSIGNED, decode, encode

VERTICAL_DTYPES = DTYPES | UNSIGNED


class VerticalQuestion(NamedTuple):
    """One question with its arguments."""

    question: str
    arguments: dict[str, Any]


class Questions(NamedTuple):
    """The questions of one message: only the last one has an answer.

    `number`: messages of a session are numbered 1, 2, 3, and each is answered once.
    """

    number: int
    asked: Sequence[VerticalQuestion]


def encode_questions(questions: Questions) -> bytes:
    """The bytes of questions."""
    return encode({"number": questions.number, "asked": [list(one) for one in questions.asked]})


def decode_questions(data: Any) -> Questions:
    """ValueError if the bytes are not questions."""
    value = decode(data if isinstance(data, bytes) else b"", MAX_BYTES, VERTICAL_DTYPES)
    if not isinstance(value, dict) or value.keys() != {"number", "asked"}:
        raise ValueError("the message should have the parts asked, number")
    number, asked = value["number"], value["asked"]
    if type(number) is not int or number < 1:
        raise ValueError("the number of a message should be an integer >= 1")
    if not isinstance(asked, list) or not asked or not all(map(_is_question, asked)):
        raise ValueError("a message should hold questions with arguments")
    return Questions(number, [VerticalQuestion(*one) for one in asked])


def _is_question(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], dict)
    )
