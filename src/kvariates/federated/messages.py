"""Flower messages that carry envelopes and replies: one record of bytes."""

from __future__ import annotations

from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict

ACTION = "kvariates"
MESSAGE_TYPE = f"query.{ACTION}"
RECORD = "kvariates"


def record_of(message: Message) -> dict[str, Any]:
    """The fields of a message; empty if it is not one of ours."""
    if not message.has_content() or RECORD not in message.content.config_records:
        return {}
    return dict(message.content.config_records[RECORD])


def content_of(**fields: str | bytes) -> RecordDict:
    """The content of a message."""
    return RecordDict({RECORD: ConfigRecord(dict(fields))})
