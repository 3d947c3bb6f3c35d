"""A file from which a training run can be resumed, and what it says of the run."""

from __future__ import annotations

import math
import zlib
from collections import Counter, OrderedDict
from contextlib import AbstractContextManager
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyro_gcm.files import archive, strict_json
from pyro_gcm.files.damaged import undamaged
from pyro_gcm.files.writing import write_file

#: Rows of which bytes are read at once.
_ROWS = 1 << 16
_STATE, _TENSORS = "state.json", "tensors.safetensors"
#: Containers that states of torch's optimisers and schedulers have, by name.
_CONTAINERS: dict[str, Any] = {
    kind.__name__: kind for kind in (Counter, OrderedDict, dict, list, tuple)
}


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

        :raises DamagedFile: if a bit of the file is not as it was written, or if it is not a
            checkpoint.
        """
        if self.path is None or not self.path.exists():
            return None
        from safetensors.torch import load

        with self.undamaged():
            try:
                raw = self.path.read_bytes()
            except OSError as error:
                raise ValueError(f"cannot be read: {error.strerror}") from error
            contents = archive.unpacked(raw)
            if contents.keys() != {_STATE, _TENSORS}:
                raise ValueError("was not written by fit")
            # Into memory of their own, aligned as torch aligns it.
            tensors = {name: value.clone() for name, value in load(contents[_TENSORS]).items()}
            state: dict[str, Any] = restored(strict_json.read(contents[_STATE]), tensors)
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
            tensors: dict[str, Tensor] = {}
            tree = strict_json.written(plain(state, "state", tensors))
            write_file(self.path, archive.packed({_STATE: tree, _TENSORS: save(tensors)}))

    def remove(self) -> None:
        """Delete the file after the run is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def checksum(columns: list[Tensor]) -> int:
    """A number that tells the data of one run from those of another."""
    total = 0
    for column in columns:
        for rows in column.split(_ROWS):
            total = zlib.crc32(rows.cpu().contiguous().view(torch.uint8).numpy(), total)
    return total


@dataclass
class EpochPart:
    """The part of an epoch that is done.

    :param rate: the learning rate at its start.
    :param start: the state of the run at its start, or only that of the model where no file is
        written. If the epoch fails, the model gets its weights back, and the file this state.
    :param total: of the losses of the rows.
    """

    rate: float
    start: dict[str, Any]
    batches: int = 0
    seconds: float = 0.0
    total: Tensor | float = 0.0


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
