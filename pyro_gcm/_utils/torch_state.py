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

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

#: Whether a transform of `torch.func` runs, in which no step may depend on values.
in_transform: Callable[[], bool] = torch._C._are_functorch_transforms_active

_here = threading.local()  # has `entered` in threads of Python that have been inside
#: torch's numbers of threads before and inside, of all who are inside, in the order of coming.
_inside: list[tuple[int, int]] = []
#: How many are inside `evaluating` with a part that was in training mode, by its id.
_users: Counter[int] = Counter()
_counting = threading.Lock()
#: Inside, no other thread is inside.
exclusively = threading.RLock()


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
    """The same for another number of threads."""
    known = [*_inside]
    before = torch.get_num_threads()
    if hasattr(_here, "entered"):
        if before == count:
            yield
            return
    else:  # torch gives a new thread the number that any thread set last
        before = next((own for own, set_ in [*known, *_inside] if set_ == before), before)
        _here.entered = True
    numbers = before, count
    _inside.append(numbers)
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _inside.remove(numbers)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """On one thread; dropout and batch norm as after training, every part's own mode again after.

    The modes come back when the last thread that is inside leaves.
    """
    parts = list(module.modules())
    with torch_threads(1):
        with _counting:
            used = [part for part in parts if part.training or id(part) in _users]
            for part in used:
                _users[id(part)] += 1
                _set_mode(part, False)
        try:
            yield
        finally:
            with _counting:
                for part in used:
                    _users[id(part)] -= 1
                    if not _users[id(part)]:
                        del _users[id(part)]
                        _set_mode(part, True)


def _set_mode(part: nn.Module, training: bool) -> None:
    if "training" in vars(part):
        vars(part)["training"] = training  # twenty times as fast as to set it
    else:  # a scripted module keeps its mode elsewhere
        part.training = training


def check_trainable(model: nn.Module) -> None:
    """Refuse tensors that torch cannot train.

    :raises ValueError: if its tensors were made in the inference mode of torch.
    """
    if any(tensor.is_inference() for tensor in (*model.parameters(), *model.buffers())):
        raise ValueError(
            f"model, a {type(model).__name__}, has tensors that were made in torch.inference_mode, "
            "which torch cannot train: make the model outside of it"
        )


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
        with exclusively, torch.random.fork_rng([] if self.cuda is None else [self._device]):
            torch.set_rng_state(self.cpu)
            if self.cuda is not None:
                torch.cuda.set_rng_state(self.cuda, self._device)
            yield
            self.cpu = torch.get_rng_state()
            if self.cuda is not None:
                self.cuda = torch.cuda.get_rng_state(self._device)
