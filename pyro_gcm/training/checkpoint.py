"""A file from which a training run can be resumed, and what tells the run from others."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.archive import sealed, undamaged, unsealed
from pyro_gcm._utils.evaluating import HasTensors
from pyro_gcm._utils.plain_data import plain, read, written
from pyro_gcm._utils.tensors import stored
from pyro_gcm._utils.writing import write_file
from pyro_gcm.training.batches import TrainingRows
from pyro_gcm.training.options import TrainingOptions

#: Options that change the numbers of a run.
_COMPARED = {
    *("epochs", "batch_size", "learning_rate", "schedule", "clip_norm", "validation"),
    *("patience", "seed", "held_out", "averages"),
}
#: The name of the state as JSON, as bytes, among the tensors.
_STATE = "state"
#: Containers that states of torch's optimisers and schedulers have, by name.
_CONTAINERS: dict[str, Any] = {
    kind.__name__: kind for kind in (Counter, OrderedDict, dict, list, tuple)
}


class Checkpoint:
    """Reads and atomically writes the state of a training run.

    The file has a line with the SHA-256 of the rest, which is safetensors, with the state without
    its tensors as JSON among them; nothing in it is executed.

    :param path: the file, or None to write no checkpoint.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)

    def read(self) -> dict[str, Any] | None:
        """The saved state, on the CPU, or None if there is no file.

        :raises DamagedFile: if a bit of the file is not as it was written, or if it is not a
            checkpoint.
        """
        if self.path is None or not self.path.exists():
            return None
        from safetensors.torch import load

        with self.undamaged():
            content = unsealed(self.path.read_bytes())
            # Into memory of their own, aligned as torch aligns it.
            tensors = {name: value.clone() for name, value in load(content).items()}
            tree = tensors.pop(_STATE).numpy().tobytes()
            state: dict[str, Any] = restored(read(tree), tensors)
            if not isinstance(state, dict):
                raise ValueError("has no state of a run")
        return state

    def undamaged(self, *others: type[Exception]) -> AbstractContextManager[None]:
        """Inside, errors of other types become `DamagedFile`, with the name of the file."""
        advice = ". To train from the start, delete it or name another file"
        return undamaged(f"checkpoint {self.path}", *others, advice=advice)

    def save(self, state: dict[str, Any]) -> None:
        """Write the state; an interruption leaves either the old or the new file intact.

        :raises TypeError: for a state with values that are no numbers, strings or tensors.
        :raises OSError: if the file cannot be written.
        """
        from safetensors.torch import save

        if self.path is not None:
            tagged = _Tagged()
            tree = bytearray(written(plain(state, "state", tagged)))
            tagged.tensors[_STATE] = torch.frombuffer(tree, dtype=torch.uint8)
            write_file(self.path, sealed(save(tagged.tensors)))

    def remove(self) -> None:
        """Delete the file after the run is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


class _Tagged:
    """The replacement of a value that JSON does not have; tensors are collected."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def __call__(self, value: Any, where: str) -> Any:
        kind = type(value).__name__
        if isinstance(value, Tensor):
            name = f"{len(self.tensors)} {where}"
            self.tensors[name] = stored(where, value)
            return {"tensor": name}
        if isinstance(value, float) and not math.isfinite(value):
            return {"number": str(value)}
        if isinstance(value, Mapping | list | tuple):
            if _CONTAINERS.get(kind) is not type(value):
                raise TypeError(f"{where} is a {kind}, which a checkpoint cannot hold")
            if isinstance(value, list | tuple):
                return {kind: [plain(v, f"{where}.{i}", self) for i, v in enumerate(value)]}
            items = value.items()
            return {
                kind: [[plain(k, where, self), plain(v, f"{where}.{k}", self)] for k, v in items]
            }
        return NotImplemented


def restored(node: Any, tensors: dict[str, Tensor]) -> Any:
    """The value of which `plain` made `node` with what `_Tagged` puts into it."""
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


# What tells a run from others, so that none goes on from the checkpoint of another


def described(part: Any) -> str:
    """The class and the scalar attributes of a bound or a model, to identify it in a checkpoint."""
    options = {
        name: value
        for name, value in sorted(vars(part).items())
        if isinstance(value, bool | int | float | str) and not name.startswith("_")
    }
    return f"{type(part).__name__}{options}"


def told(model: HasTensors, options: TrainingOptions, data: TrainingRows) -> dict[str, Any]:
    """The options of a run as they were given, and the sizes of its data and its model.

    Functions of the user are the user's to keep as they were.
    """
    given = {
        name: value
        for name, value in vars(options).items()
        if isinstance(value, bool | int | float | str | None) and name in _COMPARED
    }
    return {
        "class of the model": type(model).__name__,
        "training rows": data.training.rows,
        "validation rows": data.validation.rows,
        **data.identity,
        **given,
        **{f"shape of {k}": list(v.shape) for k, v in model.state_dict().items()},
    }


def same_run(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    """Raise ValueError if a checkpoint with one identity is not of the run with the other."""
    other = [
        f"{name} is {theirs.get(name)} there, {mine.get(name)} here"
        for name in {**mine, **theirs}
        if theirs.get(name) != mine.get(name)
    ]
    if other:
        raise ValueError("checkpoint is of another run: " + ", ".join(other[:5]))
