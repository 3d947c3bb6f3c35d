"""What the command lines of the experiments have in common: kinds of arguments, and refusals."""

from __future__ import annotations

import argparse

import torch


class Refused(ValueError):
    """What a user has to change before a command can run; told without a traceback."""


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
