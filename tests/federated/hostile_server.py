"""A server that asks a private node for many rows at once, each in a fit of its own.

A real run copies this file into a Flower project.
"""

import json
import time
from collections import Counter
from pathlib import Path

from api import (
    MESSAGE_TYPE,
    Envelope,
    Failure,
    Question,
    content_of,
    decode_reply,
    encode_envelope,
    record_of,
)
from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

REQUESTS = 24

app = ServerApp()


def ask_at_once(grid: Grid, first: int = 0, requests: int = REQUESTS) -> dict[str, int]:
    """How many replies were rows, and how many of them refused each way."""
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(0.2)
    envelopes = [Envelope(first + i, 0, Question("draw", {"step": 0})) for i in range(requests)]
    messages = [
        Message(content_of(envelope=encode_envelope(envelope)), nodes[0], MESSAGE_TYPE)
        for envelope in envelopes
    ]
    replies = [
        decode_reply(record_of(reply)["reply"]) if reply.has_content() else Failure("no answer")
        for reply in grid.send_and_receive(messages, timeout=600)
    ]
    return Counter(reply.reason if isinstance(reply, Failure) else "row" for reply in replies)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Write the counts to a file."""
    config = context.run_config
    counts = ask_at_once(grid, int(config["seed"]), int(config["peers"]))
    path = Path(str(config["save-to"]))
    path.with_suffix(".part").write_text(json.dumps(counts))
    path.with_suffix(".part").rename(path)
