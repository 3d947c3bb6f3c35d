"""A file from which a training goes on after its last epoch."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from pyro_gcm._utils.files import sealed, undamaged, unsealed, write_file

_ADVICE = "To train from the start, delete it or name another file"


class Checkpoint:
    """The state of a training and the options that it was given, in a file.

    The file has a line with the SHA-256 of the rest, which is one of `torch.save` and read with
    `weights_only`: nothing in it is executed. Values of the rows, and functions of the user, are
    the user's to keep as they were.

    :param path: the file, or None to write none.
    :param given: options of the training, by name, in plain data.
    """

    def __init__(self, path: str | Path | None, given: dict[str, Any]) -> None:
        self.path, self.given = None if path is None else Path(path), given

    def read(self) -> dict[str, Any] | None:
        """The saved state, on the CPU, or None if there is no file.

        :raises DamagedFile: if it is not as it was written, or no checkpoint.
        :raises ValueError: if it is of a training with other options, which the message names.
        """
        if self.path is None or not self.path.exists():
            return None
        with undamaged(f"checkpoint {self.path}", advice=f". {_ADVICE}"):
            content = BytesIO(unsealed(self.path.read_bytes()))
            found = torch.load(content, map_location="cpu", weights_only=True)
            theirs, state = dict(found["given"]), dict(found["state"])
        other = [
            f"{name} is {theirs.get(name)} there, {self.given.get(name)} here"
            for name in {**self.given, **theirs}
            if theirs.get(name) != self.given.get(name)
        ]
        if other:
            several = ", ".join(other[:5])
            raise ValueError(f"checkpoint {self.path} is of another training: {several}. {_ADVICE}")
        return state

    def save(self, state: Callable[[], dict[str, Any]]) -> None:
        """Write the state; an interruption leaves either the old or the new file intact.

        :param state: returns it, and is called if there is a file.
        :raises OSError: if the file cannot be written.
        """
        if self.path is not None:
            content = BytesIO()
            torch.save({"given": self.given, "state": state()}, content)
            write_file(self.path, sealed(content.getvalue()))

    def remove(self) -> None:
        """Delete the file after the training is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
