"""A transport to peers in this process, for tests: each question has its own thread."""

import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate

from api import Failure, reply_of


class LocalTransport:
    """The thread of a question that is not answered in time is left behind.

    It keeps neither other questions waiting nor the process from ending. `peers`: the `answer` of
    each peer, by its name; it may change between two questions: peers leave and join. `timeout`:
    how long to wait for an answer; None: forever.
    """

    def __init__(self, peers, timeout=None):
        self._peers, self._timeout = peers, timeout

    def peers(self):
        return list(self._peers)

    def send(self, envelopes):
        waiting = {
            name: asked_in_a_thread(self._peers[name], envelope)
            for name, envelope in envelopes.items()
            if name in self._peers
        }
        replies = {name: Failure("the peer has left") for name in envelopes}
        end = None if self._timeout is None else time.monotonic() + self._timeout
        return replies | {name: self._result(future, end) for name, future in waiting.items()}

    def _result(self, future, end):
        try:
            return future.result(None if end is None else max(0.0, end - time.monotonic()))
        except TooLate:
            return Failure(f"no answer within {self._timeout:g} s")

    def end(self):
        pass


def asked_in_a_thread(answering, envelope):
    future = Future()

    def run():
        try:
            future.set_result(reply_of(answering, envelope))
        except BaseException as error:  # raised again where the reply is awaited
            future.set_exception(error)

    threading.Thread(target=run, name="kvariates-peer", daemon=True).start()
    return future
