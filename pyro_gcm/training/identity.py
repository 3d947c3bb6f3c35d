"""What tells a training run from others, so that none goes on from the checkpoint of another."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pyro_gcm._recipe import recipe_of
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


def _told(part: Any) -> Any:
    """A part as plain data: how it was made, or its class and options."""
    if isinstance(part, list | tuple):
        return [_told(value) for value in part]
    if isinstance(part, Mapping):
        return [(name, _told(value)) for name, value in part.items() if name != "name"]
    if isinstance(part, bool | int | float | str | torch.dtype | None):
        return part
    if isinstance(part, Tensor):
        return checksum([part.detach()[None]])
    kind = part if isinstance(part, type) or inspect.isroutine(part) else type(part)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind is part:
        return name
    plain = {k: v for k, v in vars(part).items() if isinstance(v, bool | int | float | str | type)}
    changing = ("training", "objective", "is_trained")
    plain = {k: v for k, v in plain.items() if k not in changing and not k.startswith("_")}
    if not isinstance(part, nn.Module):
        return name, _told(plain)
    recipe, own = recipe_of(part), part.named_parameters(recurse=False)
    arguments = None if recipe is None else recipe.arguments
    weights = [(name, str(weight.dtype)) for name, weight in own]
    return name, _told(plain), _told(arguments), _told(dict(part.named_children())), weights


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
