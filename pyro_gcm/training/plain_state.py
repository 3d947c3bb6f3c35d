"""The state of an optimiser or a scheduler as plain data and tensors, and back."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

#: Containers that states of torch's optimisers and schedulers have, by name.
_CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "Counter": Counter,
    "OrderedDict": OrderedDict,
    "dict": dict,
    "list": list,
    "tuple": tuple,
}


def plain(value: Any, where: str, tensors: dict[str, Tensor]) -> Any:
    """A value as `pyro_gcm.files.strict_json` holds it; its tensors are added to `tensors`.

    :param where: name of the value.
    :raises TypeError: for what is no number, string, tensor or container of such.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.is_meta or value.is_complex():
            raise TypeError(f"{where} must be a dense, real tensor to be saved")
        name = f"{len(tensors)} {where}"
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": name}
    kind = type(value).__name__
    if isinstance(value, dict) and _CONTAINERS.get(kind) is type(value):
        items = [
            [plain(k, f"{where}.key", tensors), plain(v, f"{where}.{k}", tensors)]
            for k, v in value.items()
        ]
        return {kind: items}
    if type(value) in (list, tuple):
        return {kind: [plain(v, f"{where}.{i}", tensors) for i, v in enumerate(value)]}
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else {"number": str(number)}
    raise TypeError(
        f"{where} is a {kind}, which a checkpoint cannot hold: numbers, strings, tensors, lists, "
        "tuples and dictionaries are what it can"
    )


def restored(node: Any, tensors: dict[str, Tensor]) -> Any:
    """The value of which `plain` gave `node` and `tensors`."""
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "number":
        return float(content)
    if kind in ("list", "tuple"):
        return _CONTAINERS[kind](restored(item, tensors) for item in content)
    return _CONTAINERS[kind]({restored(k, tensors): restored(v, tensors) for k, v in content})
