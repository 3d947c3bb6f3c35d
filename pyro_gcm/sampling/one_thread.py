"""Products on one thread, so that their last bits do not depend on how many there are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()
_inside, _threads = 0, 1


@contextmanager
def one_thread() -> Iterator[None]:
    """torch works on one thread inside, and on as many as before afterwards.

    Predictions may run in several threads of Python at a time. torch's number of threads holds for
    one of them in products, and for all where it is read; so the first that enters notes it, and
    every one sets it again.
    """
    global _inside, _threads
    with _lock:
        if not _inside:
            _threads = torch.get_num_threads()
        _inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            torch.set_num_threads(_threads)
