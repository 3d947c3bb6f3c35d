"""What tells a training run from others, so that none goes on from the checkpoint of another."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from pyro_gcm._utils.recipe import recipe_of
from pyro_gcm.training.batches import TrainingRows
from pyro_gcm.training.checkpoint import checksum
from pyro_gcm.training.options import TrainingOptions


def described(part: Any) -> str:
    """The class and the scalar attributes of a bound or a model, to identify it in a checkpoint."""
    options = {
        name: value
        for name, value in sorted(vars(part).items())
        if isinstance(value, bool | int | float | str) and not name.startswith("_")
    }
    return f"{type(part).__name__}{options}"


def digest(part: Any) -> str:
    """Of what a model is made of, to tell it from others whose tensors have the same shapes.

    Learned numbers have no part in it, nor has the name in Pyro's store.
    """
    return hashlib.sha256(repr(_told(part)).encode()).hexdigest()[:16]


def _told(part: Any, *around: Any) -> Any:
    """A part as plain data: its class, its options, and how it was made.

    :param around: the parts that it belongs to, which it may refer to.
    """
    if isinstance(part, np.generic | np.ndarray):
        part = part.tolist()
    if isinstance(part, bool | int | float | str | None):
        return part
    if isinstance(part, Tensor):
        return checksum([part.detach()[None]])
    if isinstance(part, list | tuple | range | set | frozenset):
        return [_told(value, *around) for value in part]
    if isinstance(part, Mapping):
        return [(name, _told(value, *around)) for name, value in part.items() if name != "name"]
    kind = part if isinstance(part, type) or inspect.isroutine(part) else type(part)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind is part or any(part is other for other in around):
        return name
    options = {k: v for k, v in getattr(part, "__dict__", {}).items() if not k.startswith("_")}
    if not isinstance(part, nn.Module):  # a device or a type of torch has no options
        return name, _told(options, *around, part) or str(part).split(" at 0x")[0]
    changing = ("training", "objective", "is_trained")
    plain = {k: v for k, v in options.items() if isinstance(v, bool | int | float | str | type)}
    plain = {k: v for k, v in plain.items() if k not in changing}
    recipe, own = recipe_of(part), part.named_parameters(recurse=False)
    arguments = None if recipe is None else recipe.arguments
    weights = [(name, str(weight.dtype)) for name, weight in own]
    parts = plain, arguments, dict(part.named_children())
    return name, *(_told(each, *around, part) for each in parts), weights


def told(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    options: TrainingOptions,
    data: TrainingRows,
    optimizer: Optimizer,
) -> dict[str, Any]:
    """What changes the numbers of a run; the rates of the optimiser as factors on that of the run.

    :param optimizer: as it was made.
    """
    groups = []
    for group in optimizer.param_groups:
        own = {name: value for name, value in group.items() if name not in ("params", "lr")}
        groups.append({**own, "rate": round(float(group["lr"]) / options.learning_rate, 9)})
    return {
        "training rows": data.training.rows,
        "validation rows": data.validation.rows,
        **data.identity,
        "batch_size": options.batch_size,
        "seed": options.seed,
        "device": options.target.type,
        "learning_rate": options.learning_rate,
        "optimizer": f"{type(optimizer).__name__}{groups}",
        "clip_norm": options.clip_norm,
        "averaged weights": options.keeps_averages,
        **{f"shape of {k}": list(v.shape) for k, v in model.state_dict().items()},
        "digest of the parts of the model": digest(model),
        "digest of the names of what is trained": digest(list(parameters)),
    }


def same_run(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    """Raise ValueError if a checkpoint with one identity is not of the run with the other."""
    if theirs["learning_rate"] > mine["learning_rate"]:  # a run that diverged may go on so
        theirs = {**theirs, "learning_rate": mine["learning_rate"]}
    other = [
        f"{name} is {theirs.get(name)} there, {mine.get(name)} here"
        for name in {**mine, **theirs}
        if theirs.get(name) != mine.get(name)
    ]
    if other:
        raise ValueError("checkpoint is of another run: " + ", ".join(other[:5]))
