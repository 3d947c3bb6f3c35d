"""The process-wide state of torch and Pyro, used by one thread at a time.

torch has one generator for a device, Pyro one stack of handlers, one store of parameters and one
flag of validation, and torch one default type. What needs one of them runs inside `exclusively`,
and what draws from torch's generators has states of its own for them, in a `Randomness`; so runs in
several threads give the numbers that they give alone, and leave everything as it was. Predictions
need none of it and wait for nobody.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class _Turns(threading.local):
    """Whether this thread is inside `exclusively`."""

    inside = False


_turns = _Turns()


def _new_locks() -> None:
    global _state, _next
    _state = threading.RLock()
    _next = threading.Lock()  # held by the thread that waits longest


_state: threading.RLock
_next: threading.Lock
_new_locks()
if hasattr(os, "register_at_fork"):  # another thread of the parent may have held them
    os.register_at_fork(after_in_child=_new_locks)


@contextmanager
def exclusively() -> Iterator[None]:
    """Inside, no other thread is inside. Threads that wait get their turn between two uses."""
    if _turns.inside:
        yield
        return
    with _next:
        _state.acquire()
    _turns.inside = True
    try:
        yield
    finally:
        _turns.inside = False
        _state.release()


class Randomness:
    """States of torch's generators that belong to one computation.

    :param seed: of the generators.
    :param device: whose generator is used beside the one of the CPU.
    """

    def __init__(self, seed: int, device: torch.device | None = None) -> None:
        self.cpu = torch.Generator().manual_seed(seed).get_state()
        self.cuda: Tensor | None = None
        self._device = torch.device("cpu") if device is None else device
        if self._device.type == "cuda":
            self.cuda = torch.Generator(self._device).manual_seed(seed).get_state()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside, torch's generators go on from these states; afterwards they are as before."""
        with exclusively(), torch.random.fork_rng([] if self.cuda is None else [self._device]):
            torch.set_rng_state(self.cpu)
            if self.cuda is not None:
                torch.cuda.set_rng_state(self.cuda, self._device)
            yield
            self.cpu = torch.get_rng_state()
            if self.cuda is not None:
                self.cuda = torch.cuda.get_rng_state(self._device)
