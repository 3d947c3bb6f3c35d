"""What the command lines of the experiments have in common: kinds of arguments, and refusals."""

from __future__ import annotations

import argparse
import errno
import os
from pathlib import Path

import torch

from pyro_gcm._utils.files import told_of, usable


class Refused(ValueError):
    """What a user has to change before a command can run; told without a traceback."""


def check_output(folder: Path) -> None:
    """Make a folder for results, if need be.

    :raises OSError: if nothing can be written there.
    """
    with told_of(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def a_path(text: str) -> Path:
    """A path that the system can have."""
    try:
        return usable(text)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive_count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text}")
    return int(text)


def torch_device(text: str) -> str:
    """A device that torch has."""
    try:
        torch.empty(0, device=text)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        message = f"must be a device of torch, got {text}: {reason}"
        raise argparse.ArgumentTypeError(message) from error
    return text
