"""The desk: one thread that answers every client's newest question. A newer question takes the place of the older one, and
what was begun for that is dropped at the next stop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from sgjepa.core.errors import expected, one_line
from sgjepa.view.question import Question
from sgjepa.view.scenes import Room
from sgjepa.view.wire import Message

Send = Callable[[bytes], None]
T = TypeVar("T")


class Desk:
    """Begin it once, ask from any thread, close it. `send` is called in the desk's thread."""

    def __init__(self, room: Room):
        self._room = room
        self._asked: dict[int, tuple[Question, Send]] = {}  # by client: what nobody has begun yet
        self._change = threading.Condition()
        self._open = True
        # daemon: a process that ends does not wait for it
        self._thread = threading.Thread(target=self._work, name="sgjepa-desk", daemon=True)
        self._thread.start()

    def ask(self, client: int, question: Question, send: Send) -> None:
        """Answer this and nothing that the client asked before."""
        with self._change:
            self._asked[client] = (question, send)
            self._change.notify()

    def leave(self, client: int) -> None:
        """Nobody listens any more."""
        with self._change:
            self._asked[client] = (_NOTHING, _nowhere)
            self._change.notify()

    def close(self, wait: float = 5.0) -> None:
        """Stop at the next moment."""
        with self._change:
            self._open = False
            self._change.notify()
        self._thread.join(wait)

    def _work(self) -> None:
        begun: dict[int, tuple[Iterator[Message | None], Question, Send]] = {}
        try:
            while self._take(begun):
                for client in list(begun):  # in turn: nobody waits for all of another's answer
                    work, question, send = begun[client]
                    if not self._step(work, question, send):
                        del begun[client]
        finally:
            self._room.close()

    def _take(self, begun: dict[int, tuple[Iterator[Message | None], Question, Send]]) -> bool:
        """Begin what was asked; without anything to do, wait for it. False when the desk is closed."""
        with self._change:
            while self._open and not self._asked and not begun:
                self._change.wait()
            for client, (question, send) in self._asked.items():
                begun.pop(client, None)  # the last question wins
                if question is not _NOTHING:
                    begun[client] = (self._room.answer(question), question, send)
            self._asked.clear()
            return self._open

    def _step(self, work: Iterator[Message | None], question: Question, send: Send) -> bool:
        """To the next stop; False when there is none. A fault is told to the client, and the desk goes on."""
        try:
            message = next(work)
        except StopIteration:
            return False
        except Exception as error:
            known = expected(error)
            said = one_line(known or f"a bug in sgjepa ({type(error).__name__}: {one_line(error, 120)}); please report it")
            _deliver(send, failure(said, question.number))
            return False
        if message is not None:
            _deliver(send, message)
        return True


def failure(said: str, number: int | None) -> Message:
    """A line for the page to show."""
    return Message({"number": number, "kind": "error", "message": said})


def _deliver(send: Send, message: Message) -> None:
    with contextlib.suppress(RuntimeError):  # the server is closing
        send(message.to_bytes())


def _nowhere(_: bytes) -> None:
    """For a client that left."""


_NOTHING = Question(0, "", 0, {}, {}, ())
