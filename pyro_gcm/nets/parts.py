"""Checks of the parts of a model, of the library or of a user, on rows of zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyro.poutine as poutine
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm._utils.validation import kind


@torch.no_grad()
def one_row(part: nn.Module, columns: int) -> Any:
    """Return a part's result for one row of zeros, which shows its type and its shape."""
    like = next(part.parameters(), torch.zeros(()))
    with evaluating(part):
        return part(like.new_zeros(1, columns))


def check_input(name: str, part: nn.Module, columns: int) -> Any:
    """Return the result of a module for a row, after checks of its input.

    :raises ValueError: for one that takes other columns, or draws random variables of its own.
    """
    try:
        with poutine.trace() as trace:
            found = one_row(part, columns)
    except RuntimeError as error:
        raise ValueError(f"{name} must take {columns} columns, and raised: {error}") from error
    _refuse_sites(name, trace)
    return found


def check_shape(
    name: str, part: nn.Module, columns: int, shape: Sequence[int], *, drawn: bool = True
) -> Any:
    """Return a module's result for a row; a shape other than this would broadcast silently.

    :param drawn: whether it has to return a distribution, and not a tensor.
    :raises ValueError: for another shape, or a result that is not a distribution.
    """
    made = check_input(name, part, columns)
    _check_event(name, made, shape, drawn)
    return made


@torch.no_grad()
def check_guide(name: str, guide: nn.Module, columns: Sequence[int], shape: Sequence[int]) -> None:
    """Refuse a guide that does not take (x, r, y) to a distribution of this event shape.

    :param columns: of x and r.
    """
    like = next(guide.parameters(), torch.zeros(()))
    rows = *(like.new_zeros(2, count) for count in columns), like.new_ones(2)
    try:
        with evaluating(guide), poutine.trace() as trace:
            made = guide(*rows)
    except Exception as error:
        sizes = ", ".join(f"[2, {count}]" for count in columns)
        raise ValueError(
            f"{name} must take (x, r, y) to a distribution; with rows of shapes {sizes} and [2] it "
            f"raised {type(error).__name__}: {error}"
        ) from error
    _refuse_sites(name, trace)
    _check_event(name, made, shape)
    if tuple(made.batch_shape) != (2,):
        raise ValueError(
            f"{name} must give a distribution with a batch shape of one dimension, that of the "
            f"rows, got {tuple(made.batch_shape)} for 2 rows: use .to_event(1)"
        )


def _check_event(name: str, made: Any, wanted: Sequence[int], drawn: bool = True) -> None:
    if not isinstance(made, Distribution if drawn else Tensor):
        raise ValueError(
            f"{name} must give a {'distribution' if drawn else 'tensor'}, got {kind(made)}"
        )
    shape: Any = made.event_shape if isinstance(made, Distribution) else made.shape[1:]
    found = tuple(shape)
    if found != tuple(wanted):
        raise ValueError(f"{name} must give values of shape {tuple(wanted)} for a row, got {found}")


def _refuse_sites(name: str, trace: Any) -> None:
    sites = [key for key, site in trace.trace.nodes.items() if site["type"] == "sample"]
    if sites:
        raise ValueError(
            f"{name} must not draw random variables itself, got sites {sites}: what all rows share "
            "is drawn in `shared`, before the rows, and what a row has of its own in `story`"
        )
