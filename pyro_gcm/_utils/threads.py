"""How many threads torch uses.

By default torch shares an operation among all cores and waits for the last of them. On small
tensors that gains little, and where another program has one of the cores it waits for the time
slice of that program, at every operation. So this library computes on one thread, in each thread of
Python that calls it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _Here(threading.local):
    """The state of a thread of Python."""

    entered = False  # whether it has been inside


_here = _Here()
#: torch's number before and inside, of all who have changed it, in the order in which they came.
_changed: dict[object, tuple[int, int]] = {}


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, torch computes on one thread; afterwards on as many as before. Also a decorator.

    torch takes all cores by default. `fit`, predictions, posteriors, estimators, audits and reports
    of this library run on one thread without being told: on the small tensors of its models more of
    them gain little, and where other programs have a core they cost many times as much. Pyro's own
    SVI, NUTS and Predictive keep torch's default: this is for them.

    Uses may be nested, and each thread of Python has a number of its own. One that uses torch for
    the first time, and not inside, while another one is inside keeps the number that it has there.

    >>> import torch
    >>> from pyro_gcm import one_thread
    >>> before = torch.get_num_threads()
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    with torch_threads(1):
        yield


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """The same for another number of threads.

    If an interrupt comes just where a `with` statement begins or ends, the number is put back when
    the traceback is dropped, which closes this generator.
    """
    if _here.entered and torch.get_num_threads() == count:
        yield
        return
    this = object()
    try:
        try:
            _enter(this, count)
            yield
        finally:
            _leave(this)
    finally:  # an interrupt may have come before
        _leave(this)


def _enter(this: object, count: int) -> None:
    inside = [*_changed.values()]
    before = torch.get_num_threads()
    inside += _changed.values()
    if not _here.entered and before in [number for _, number in inside]:
        before = inside[0][0]  # torch gives a new thread the number that any thread set last
    _here.entered = True
    if before != count:
        _changed[this] = before, count
        torch.set_num_threads(count)


def _leave(this: object) -> None:
    if this in _changed:
        torch.set_num_threads(_changed[this][0])
        del _changed[this]
