"""Evaluation mode, where several threads may predict with a model at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch import Tensor, nn

from pyro_gcm._utils.threads import torch_threads

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
