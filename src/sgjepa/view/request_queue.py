"""The request queue: one thread that answers the newest request of every client.

A newer request replaces the older one, and work that was begun for that is dropped. A slow client delays
only itself.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sgjepa.core.errors import expected, one_line
from sgjepa.view.messages import Message, error_message
from sgjepa.view.request import Request
from sgjepa.view.viewer import Viewer

_POLL = 0.02  # seconds between looks at clients that are all behind


@dataclass(frozen=True)
class _Work:
    """An answer in progress."""

    number: int
    messages: Iterator[Message | None]
    send: Callable[[bytes], None]
    is_full: Callable[[], bool]


class RequestQueue:
    """Starts its thread when it is made. Requests may come from any thread."""

    def __init__(self, viewer: Viewer):
        self._viewer = viewer
        self._new: dict[int, _Work | None] = {}  # by client; None for one that left
        self._change = threading.Condition()
        self._open = True
        # daemon: a process that ends does not wait for it
        self._thread = threading.Thread(target=self._run, name="sgjepa-requests", daemon=True)
        self._thread.start()

    def ask(
        self,
        client: int,
        request: Request,
        send: Callable[[bytes], None],
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """Answer this request instead of earlier ones of the client.

        send: called in the queue's thread with every message. is_full: whether the client has to read first.
        """
        self._put(client, _Work(request.number, self._viewer.answer(request), send, is_full))

    def leave(self, client: int) -> None:
        """Drop the work for a disconnected client."""
        self._put(client, None)

    def close(self, timeout: float = 5.0) -> None:
        """Stop at the next message."""
        with self._change:
            self._open = False
            self._change.notify()
        self._thread.join(timeout)

    def _put(self, client: int, work: _Work | None) -> None:
        with self._change:
            self._new[client] = work
            self._change.notify()

    def _run(self) -> None:
        active: dict[int, _Work] = {}
        try:
            while self._admit(active):
                for client, work in list(active.items()):  # in turn, so that no client waits for another's complete answer
                    if not work.is_full() and not _advance(work):
                        del active[client]
        finally:
            self._viewer.close()

    def _admit(self, active: dict[int, _Work]) -> bool:
        """Take in new requests, and wait while there is nothing to do. False once the queue is closed."""
        with self._change:
            while self._open and not self._new and all(work.is_full() for work in active.values()):
                self._change.wait(_POLL if active else None)
            for client, work in self._new.items():
                active.pop(client, None)
                if work is not None:
                    active[client] = work
            self._new.clear()
            return self._open


def _advance(work: _Work) -> bool:
    """Compute the next message and send it; False at the end. An error is sent to the client, and the queue continues."""
    try:
        message = next(work.messages)
    except StopIteration:
        return False
    except Exception as error:
        known = expected(error)
        text = one_line(known or f"a bug in sgjepa ({type(error).__name__}: {one_line(error, 120)}); please report it")
        _send(work, error_message(text, work.number))
        return False
    if message is not None:
        _send(work, message)
    return True


def _send(work: _Work, message: Message) -> None:
    with contextlib.suppress(RuntimeError):  # the server is closing
        work.send(message.to_bytes())
