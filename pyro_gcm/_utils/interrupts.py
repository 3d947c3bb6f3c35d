"""Ctrl-C where nothing is half done.

An interrupt may come between any two instructions of Python, also where a `with` statement is about
to put something back, which then stays as it is. What changes something for a while does so inside
`shielded`, where an interrupt waits for the next `interruption_point`, or for the end. Another one
two seconds later does not wait.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds after an interrupt from which the next one is not held back any more.
_PATIENCE = 2.0


class _Shield:
    """The state of the main thread, which is the only one that is interrupted."""

    def __init__(self) -> None:
        self.handler: Callable[..., Any] | None = None  # of the user, while there is a shield
        self.waiting = False
        self.since = 0.0

    def note(self, number: int, frame: Any) -> None:
        """The handler of the shield."""
        if not self.waiting:
            self.waiting, self.since = True, time.monotonic()
        elif time.monotonic() > self.since + _PATIENCE:
            self.release()

    def release(self) -> None:
        """Do what the user's handler does, if an interrupt waits."""
        if self.waiting and self.handler is not None:
            self.waiting = False
            self.handler(signal.SIGINT, None)


_shield = _Shield()


@contextmanager
def shielded() -> Iterator[None]:
    """Inside, an interrupt waits for an `interruption_point` or the end; in the main thread."""
    if threading.current_thread() is not threading.main_thread() or _shield.handler is not None:
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        replaced = callable(handler) and signal.signal(signal.SIGINT, _shield.note) is not None
    except ValueError:  # the threads of a subinterpreter have no handlers
        replaced = False
    if not callable(handler) or not replaced:
        yield
        return
    _shield.handler = handler
    try:
        yield
    finally:
        # In this order: as soon as the user's handler is back, it may raise.
        waiting, _shield.waiting, _shield.handler = _shield.waiting, False, None
        if signal.getsignal(signal.SIGINT) == _shield.note:
            signal.signal(signal.SIGINT, handler)
        if waiting or _shield.waiting:
            _shield.waiting = False
            handler(signal.SIGINT, None)


def interruption_point() -> None:
    """Where an interrupt may stop a computation; does nothing in other threads."""
    if _shield.waiting and threading.current_thread() is threading.main_thread():
        _shield.release()


@contextmanager
def unshielded() -> Iterator[None]:
    """For code of the user, which is interrupted at once."""
    handler = _shield.handler
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    _shield.release()
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _shield.note)
