"""A file from which a training run can be resumed."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

#: Rows of which bytes are read at once.
_ROWS = 1 << 16


class Checkpoint:
    """Reads and atomically writes the state of a training run.

    :param path: the file, or None to write no checkpoint.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)

    def read(self) -> dict[str, Any] | None:
        """The saved state, on the CPU, or None if there is no file.

        :raises ValueError: if the file is not a checkpoint.
        """
        if self.path is None or not self.path.exists():
            return None
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch.load raises many types of errors
            raise ValueError(f"checkpoint {self.path} cannot be read: {error}") from error
        if not isinstance(state, dict) or "identity" not in state:
            raise ValueError(f"checkpoint {self.path} was not written by fit")
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Write the state; an interruption leaves either the old or the new file intact."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(self.path.name + ".partial")
        torch.save(state, partial)
        os.replace(partial, self.path)

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
