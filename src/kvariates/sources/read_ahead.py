"""Computes the next item of an iterator in a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

SECONDS_TO_END = 5.0  # a source that waits for data may not end; it must not block its caller


@dataclass(frozen=True)
class _End:
    error: BaseException | None


def read_ahead(items: Generator[T]) -> Generator[T]:
    """Yield the items; a thread computes the next one while the caller works on this one.

    An error of the items is raised here. The thread ends with the items, or when this generator is
    closed, or when it is deleted, as after an error of the caller.
    """
    ready: queue.Queue[T | _End] = queue.Queue(maxsize=1)
    closed = threading.Event()
    thread = threading.Thread(
        target=_produce, args=(items, ready, closed), name="kvariates-read-ahead", daemon=True
    )
    thread.start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
            del item  # the caller may have freed it while the next one is computed
        if item.error is not None:
            raise item.error
    finally:
        closed.set()
        with suppress(queue.Empty):
            ready.get_nowait()  # a thread that waits for room continues and sees that it is closed
        thread.join(SECONDS_TO_END)


def _produce(items: Generator[T], ready: queue.Queue[T | _End], closed: threading.Event) -> None:
    error: BaseException | None = None
    try:
        for item in items:
            ready.put(item)
            del item
            if closed.is_set():
                break
    except BaseException as caught:
        error = caught
    finally:
        items.close()
    if not closed.is_set():
        ready.put(_End(error))
