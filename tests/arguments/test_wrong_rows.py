"""Rows that a model cannot use are refused by name, and change nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from public_calls import OF_ROWS, PROGRAMS
from torch import Tensor


def _matrix(name: str, dim: str) -> list[tuple[Callable[[Tensor], Tensor], str]]:
    """What is wrong with a matrix of rows, and the error."""
    return [
        (lambda t: t[:, :1], f"{name} has 1 columns, the model was built for {dim}="),
        (lambda t: t * float("nan"), f"{name} must be finite, got nan in row 0"),
        (lambda t: t[:0], f"{name} has no rows"),
    ]


_SHORTER: list[tuple[Callable[[Tensor], Tensor], str]] = [
    (lambda t: t[:3], "row counts differ: .* has 3")
]
#: Rows that cannot be used, by argument.
DEFECTS: dict[str, list[tuple[Callable[[Tensor], Tensor], str]]] = {
    "x": _matrix("x", "x_dim"),
    "r": _matrix("r", "r_dim") + _SHORTER,
    "k": _matrix("k", "k_dim") + _SHORTER,
    "revenues": _matrix("revenues", "r_dim"),
    "y": [
        *_SHORTER,
        (lambda t: t * float("nan"), "y must be finite, got nan in row 0"),
        (lambda t: t + 1.0, r"y must be 0 or 1 for response='binary', got \[?2"),
    ],
}


@pytest.mark.parametrize("name", PROGRAMS | OF_ROWS)
def test_rows_that_cannot_be_used_are_refused_by_name_and_change_nothing(name: str) -> None:
    function, arguments = (PROGRAMS | OF_ROWS)[name]()
    model = arguments.get("model", getattr(function, "__self__", None))
    before = copy.deepcopy(model.state_dict())
    for argument, defects in DEFECTS.items():
        if isinstance(arguments.get(argument), Tensor):
            for change, message in defects:
                with pytest.raises(ValueError, match=message):
                    function(**{**arguments, argument: change(arguments[argument])})
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
