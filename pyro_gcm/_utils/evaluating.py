"""Whether the parts of a model train or predict, where several threads may use it at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

from torch import Tensor, nn

from pyro_gcm._utils.interrupts import shielded
from pyro_gcm._utils.process_state import exclusively
from pyro_gcm._utils.threads import torch_threads

_changed = threading.Condition(threading.Lock())
#: How many are inside `evaluating` with a part that was in training mode, by its id.
_users: dict[int, int] = {}
#: The threads that predict, and the parts of their models, for each prediction.
_predicting: dict[object, tuple[int, list[nn.Module]]] = {}
#: Ids of the models that are being trained, and of their parts.
_trained: dict[int, set[int]] = {}


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

    The modes come back when the last thread that is inside leaves. A prediction with a model that
    another thread trains runs between two of its steps.
    """
    parts, used, this = list(module.modules()), list[nn.Module](), object()
    is_trained = any(not own.isdisjoint(map(id, parts)) for own in list(_trained.values()))
    with shielded(), torch_threads(1), exclusively() if is_trained else nullcontext():
        try:
            with _changed:
                _predicting[this] = threading.get_ident(), parts
                for part in parts:
                    if part.training or id(part) in _users:
                        used.append(part)
                        _users[id(part)] = _users.get(id(part), 0) + 1
                for part in used:
                    if type(part).train is nn.Module.train and "training" in vars(part):
                        vars(part)["training"] = False  # several times as fast as `eval()`
                    else:  # a scripted module keeps its mode elsewhere
                        part.eval()
            yield
        finally:
            with _changed:
                for part in used:
                    _users[id(part)] -= 1
                    if not _users[id(part)]:
                        del _users[id(part)]
                        if "training" in vars(part):
                            vars(part)["training"] = True
                        else:
                            part.training = True
                _predicting.pop(this, None)
                if _trained:
                    _changed.notify_all()


@contextmanager
def in_training(model: HasTensors) -> Iterator[None]:
    """For the time that a model is trained, which begins when no prediction of it is under way.

    :raises RuntimeError: if it is being trained already, by another thread or around a callback.
    :raises ValueError: if its tensors were made in the inference mode of torch.
    """
    parts = {id(part) for part in model.modules()}
    if any(tensor.is_inference() for tensor in (*model.parameters(), *model.buffers())):
        raise ValueError(
            f"model, a {type(model).__name__}, has tensors that were made in torch.inference_mode, "
            "which torch cannot train: make the model outside of it"
        )
    with shielded():
        with _changed:
            if any(not parts.isdisjoint(others) for others in _trained.values()):
                raise RuntimeError(
                    f"model, a {type(model).__name__}, is being trained already, by another thread "
                    "or by the fit that called this callback: train a copy of it"
                )
            _trained[id(model)] = parts
            me = threading.get_ident()
            earlier = [
                prediction
                for prediction, (thread, used) in _predicting.items()
                if thread != me and not parts.isdisjoint(map(id, used))
            ]
        try:
            with _changed:
                _changed.wait_for(lambda: _predicting.keys().isdisjoint(earlier))
            yield
        finally:
            _trained.pop(id(model), None)
