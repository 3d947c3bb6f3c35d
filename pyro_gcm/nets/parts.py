"""Checks of the parts of a model, of the library or of a user, on rows of zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyro.poutine as poutine
import torch
from torch import Tensor, nn

from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm._utils.validation import kind


def check_input(name: str, part: nn.Module, columns: int) -> Any:
    """Return the result of a module for a row of so many columns.

    :raises ValueError: for one that takes other columns, or draws random variables of its own.
    """
    like = next(part.parameters(), torch.zeros(()))
    return _result(name, part, f"{columns} columns", like.new_zeros(1, columns))


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


def check_guide(name: str, guide: nn.Module, columns: Sequence[int], shape: Sequence[int]) -> None:
    """Refuse a guide that does not take (x, r, y) to a distribution of this event shape.

    :param columns: of x and r.
    """
    like = next(guide.parameters(), torch.zeros(()))
    x, r = (like.new_zeros(2, count) for count in columns)
    made = _result(name, guide, "(x, r, y) to a distribution", x, r, like.new_ones(2))
    _check_event(name, made, shape)
    if tuple(made.batch_shape) != (2,):
        raise ValueError(
            f"{name} must give a distribution with a batch shape of one dimension, that of the "
            f"rows, got {tuple(made.batch_shape)} for 2 rows: use .to_event(1)"
        )


@torch.no_grad()
def _result(name: str, part: nn.Module, wanted: str, *rows: Tensor) -> Any:
    """What a part makes of rows, if it takes them and draws nothing."""
    try:
        with evaluating(part), poutine.trace() as trace:
            made = part(*rows)
    except Exception as error:
        raise ValueError(
            f"{name} must take {wanted}, and for rows of shapes {[[*own.shape] for own in rows]} "
            f"raised {type(error).__name__}: {error}"
        ) from error
    sites = [key for key, site in trace.trace.nodes.items() if site["type"] == "sample"]
    if sites:
        raise ValueError(
            f"{name} must not draw random variables itself, got sites {sites}: what all rows share "
            "is drawn in `shared`, before the rows, and what a row has of its own in `story`"
        )
    return made


def _check_event(name: str, made: Any, wanted: Sequence[int], drawn: bool = True) -> None:
    if not isinstance(made, torch.distributions.Distribution if drawn else Tensor):
        kind_of = "distribution" if drawn else "tensor"
        raise ValueError(f"{name} must give a {kind_of}, got {kind(made)}")
    found = tuple(made.shape[1:] if isinstance(made, Tensor) else made.event_shape)
    if found != tuple(wanted):
        raise ValueError(f"{name} must give values of shape {tuple(wanted)} for a row, got {found}")
