"""A file from which a training run can be resumed, and what it says of the run."""

from __future__ import annotations

import copy
import zlib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyro_gcm.files import archive, strict_json
from pyro_gcm.files.damaged import undamaged
from pyro_gcm.files.writing import write_file
from pyro_gcm.training.plain_state import plain, restored

#: Rows of which bytes are read at once.
_ROWS = 1 << 16
_STATE, _TENSORS = "state.json", "tensors.safetensors"
#: What every row of the history has.
_ROW = {"epoch", "step", "loss", "learning_rate", "seconds"}


class Checkpoint:
    """Reads and atomically writes the state of a training run.

    The file has the state without its tensors as JSON, the tensors as safetensors, and a manifest
    with their SHA-256, as the folders of `pyro_gcm.save` have; nothing in it is executed.

    :param path: the file, or None to write no checkpoint.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        self._is_unused = False

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
            if raw[:2] == b"PK":
                raise ValueError("is in a format that this version of pyro_gcm does not read")
            contents = archive.unpacked(raw)
            if contents.keys() != {_STATE, _TENSORS}:
                raise ValueError("was not written by fit")
            # Into memory of their own, aligned as torch aligns it.
            tensors = {name: value.clone() for name, value in load(contents[_TENSORS]).items()}
            state: dict[str, Any] = restored(strict_json.read(contents[_STATE]), tensors)
            if not isinstance(state, dict):
                raise ValueError("has no state of a run")
        self._is_unused = True
        return state

    def undamaged(self, *others: type[Exception]) -> AbstractContextManager[None]:
        """Inside, errors of other types become `DamagedFile`, with the name of the file."""
        advice = ". To train from the start, delete it or name another file"
        return undamaged(f"checkpoint {self.path}", *others, advice=advice)

    def first_use(self) -> AbstractContextManager[None]:
        """As `undamaged` in the first step after a state was read: all that it has is used then."""
        is_first, self._is_unused = self._is_unused, False
        return self.undamaged() if is_first else nullcontext()

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


def check_progress(state: dict[str, Any], epochs: int, steps: int) -> None:
    """Raise ValueError for a state in which no run of these epochs, of these steps each, can be."""
    part, epoch = state["part"], state["epoch"]
    batches = 0 if part is None else part["batches"]
    for name, value, most in (("epoch", epoch, epochs), ("batches", batches, steps)):
        if type(value) is not int or not 0 <= value <= most:
            raise ValueError(f"has the number {value!r} of {name}, of {most}")
    if state["step"] != epoch * steps + batches or len(state["rows"]) != epoch:
        raise ValueError(f"has numbers of steps and rows that do not fit to epoch {epoch}")
    if state["cuda_rng"] is not None and not torch.cuda.is_available():
        raise ValueError("was written on a GPU, and torch finds none")
    torch.Generator().set_state(state["rng"])
    loss, best, _ = state["best"]
    rates = [group["lr"] for group in state["optimizer"]["param_groups"]]
    numbers = [*rates, loss, best, *(value for row in state["rows"] for value in row.values())]
    if not all(isinstance(number, int | float) for number in numbers):
        raise ValueError("has no numbers as losses")
    if any(row.keys() - {"validation_loss"} != _ROW for row in state["rows"]):
        raise ValueError("has rows of other columns")


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
        part = cls(float(state["rate"]), state["start"])
        part.batches, part.seconds = state["batches"], float(state["seconds"])
        part.total = torch.as_tensor(state["total"])
        return part
