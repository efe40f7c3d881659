"""Flower messages that carry envelopes and replies: one record of bytes. Apps that answer them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from kvariates.peers.encoding import encode_reply
from kvariates.peers.transport import Reply

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


def answering_app(reply: Callable[[dict[str, Any], Context], Reply]) -> ClientApp:
    """The ClientApp that answers a greeting by its name, and other messages by `reply`."""
    app = ClientApp()

    @app.query(ACTION)
    def answer(message: Message, context: Context) -> Message:
        fields = record_of(message)
        if "greeting" in fields:
            return Message(content_of(name=node_name(context)), reply_to=message)
        content = content_of(reply=encode_reply(reply(fields, context)))
        return Message(content, reply_to=message)

    return app


def node_name(context: Context) -> str:
    """What the operator of the node calls it; "" if nothing."""
    config = context.node_config
    return str(config.get("name", config.get("partition-id", "")))
