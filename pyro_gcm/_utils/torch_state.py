"""The state of torch and Pyro that is not a model's own: threads, modes, generators.

torch has one generator for a device, Pyro one stack of handlers, one store of parameters and one
flag of validation, and torch one default type. What needs one of them runs inside `exclusively`,
and what draws from torch's generators has states of its own for them, in a `Randomness`; so runs in
several threads give the numbers that they give alone, and leave everything as it was. Predictions
need none of it and wait for nobody.

By default torch shares an operation among all cores and waits for the last of them. On small
tensors that gains little, and where another program has one of the cores it waits for the time
slice of that program, at every operation. So this library computes on one thread, in each thread of
Python that calls it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn


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


#: How many are inside `evaluating` with a part that was in training mode, by its id.
_users: dict[int, int] = {}
_counting = threading.Lock()


class HasTensors(Protocol):
    """A trainable object: a module, or an object with these methods of one."""

    def modules(self) -> Iterator[nn.Module]:
        """Iterate over the modules."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Iterate over the parameters."""

    def buffers(self) -> Iterator[Tensor]:
        """Iterate over the buffers."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return parameters and buffers by name."""

    def load_state_dict(self, state: Any) -> Any:
        """Copy parameters and buffers from a `state_dict`."""


@contextmanager
def evaluating(module: HasTensors) -> Iterator[None]:
    """On one thread; dropout and batch norm as after training, every part's own mode again after.

    The modes come back when the last thread that is inside leaves.
    """
    parts = list(module.modules())
    with torch_threads(1):
        with _counting:
            used = [part for part in parts if part.training or id(part) in _users]
            for part in used:
                _users[id(part)] = _users.get(id(part), 0) + 1
                if type(part).train is nn.Module.train and "training" in vars(part):
                    vars(part)["training"] = False  # several times as fast as `eval()`
                else:  # a scripted module keeps its mode elsewhere
                    part.eval()
        try:
            yield
        finally:
            with _counting:
                for part in used:
                    _users[id(part)] -= 1
                    if not _users[id(part)]:
                        del _users[id(part)]
                        if "training" in vars(part):
                            vars(part)["training"] = True
                        else:
                            part.training = True


def check_trainable(model: HasTensors) -> None:
    """Refuse tensors that torch cannot train.

    :raises ValueError: if its tensors were made in the inference mode of torch.
    """
    if any(tensor.is_inference() for tensor in (*model.parameters(), *model.buffers())):
        raise ValueError(
            f"model, a {type(model).__name__}, has tensors that were made in torch.inference_mode, "
            "which torch cannot train: make the model outside of it"
        )


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
