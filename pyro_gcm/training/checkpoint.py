"""A file from which a training run can be resumed, and what it says of the run."""

from __future__ import annotations

import copy
import hashlib
import inspect
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pyro_gcm._recipe import recipe_of
from pyro_gcm.files import archive, strict_json
from pyro_gcm.files.writing import write_file
from pyro_gcm.training.plain_state import plain, restored

#: Rows of which bytes are read at once.
_ROWS = 1 << 16
_STATE, _TENSORS = "state.json", "tensors.safetensors"


class Checkpoint:
    """Reads and atomically writes the state of a training run.

    The file has the state without its tensors as JSON, the tensors as safetensors, and a manifest
    with their SHA-256, as the folders of `pyro_gcm.save` have; nothing in it is executed.

    :param path: the file, or None to write no checkpoint.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)

    def read(self) -> dict[str, Any] | None:
        """The saved state, on the CPU, or None if there is no file.

        :raises ValueError: if a bit of the file is not as it was written, or if it is not a
            checkpoint.
        """
        if self.path is None or not self.path.exists():
            return None
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            raw = self.path.read_bytes()
            if raw[:2] == b"PK":
                raise ValueError("is in a format that this version of pyro_gcm does not read")
            contents = archive.unpacked(raw)
            if contents.keys() != {_STATE, _TENSORS}:
                raise ValueError("was not written by fit")
            # Into memory of their own, aligned as torch aligns it.
            tensors = {name: value.clone() for name, value in load(contents[_TENSORS]).items()}
            state: dict[str, Any] = restored(strict_json.read(contents[_STATE]), tensors)
        except (OSError, SafetensorError, ValueError) as error:
            cause = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else error
            raise ValueError(
                f"checkpoint {self.path} {cause}. To train from the start, delete it or name "
                "another file"
            ) from error
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Write the state; an interruption leaves either the old or the new file intact.

        :raises TypeError: for a state with values that are no numbers, strings or tensors.
        :raises OSError: if the file cannot be written.
        """
        if self.path is not None:
            write_file(self.path, packed(state))

    def remove(self) -> None:
        """Delete the file after the run is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def packed(state: dict[str, Any]) -> bytes:
    """The bytes of a checkpoint."""
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    tree = plain(state, "state", tensors)
    return archive.packed({_STATE: strict_json.written(tree), _TENSORS: save(tensors)})


def checksum(columns: list[Tensor]) -> int:
    """A number that tells the data of one run from those of another."""
    total = 0
    for column in columns:
        for rows in column.split(_ROWS):
            total = zlib.crc32(rows.cpu().contiguous().view(torch.uint8).numpy(), total)
    return total


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


def told(optimizer: Optimizer, learning_rate: float) -> str:
    """The class and the options of an optimiser, with rates as factors on that of the run."""
    groups = []
    for group in optimizer.param_groups:
        options = {name: value for name, value in group.items() if name not in ("params", "lr")}
        groups.append({**options, "rate": round(float(group["lr"]) / learning_rate, 9)})
    return f"{type(optimizer).__name__}{groups}"


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


class EpochPart:
    """The part of an epoch that is done.

    :param rate: the learning rate at its start.
    :param start: the state of the run at its start, or only that of the model where no file is
        written. If the epoch fails, the model gets its weights back, and the file this state.
    """

    def __init__(self, rate: float, start: dict[str, Any]) -> None:
        self.batches, self.seconds, self.rate = 0, 0.0, rate
        self.start = copy.deepcopy(start)
        self.total: Tensor | float = 0.0  # of the losses of the rows

    def state(self) -> dict[str, Any]:
        """Plain data and tensors."""
        return dict(vars(self))

    @classmethod
    def of(cls, state: dict[str, Any]) -> EpochPart:
        """The part that has a state."""
        part = cls.__new__(cls)
        vars(part).update(state)
        return part
