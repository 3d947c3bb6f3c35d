"""Rows that a model cannot use are refused by name, and change nothing."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import pytest
import torch
from public_calls import OF_ROWS, PROGRAMS
from torch import Tensor

Defects = list[tuple[Callable[[Tensor], Tensor], str]]


def _matrix(name: str, dim: str) -> Defects:
    """What is wrong with a matrix of rows, and the error."""
    return [
        (lambda t: t[:, :1], f"{name} has 1 columns, the model was built for {dim}="),
        (lambda t: t * float("nan"), f"{name} must be finite, got nan in row 0"),
        (lambda t: t[:0], f"{name} has no rows"),
    ]


_SHORTER: Defects = [(lambda t: t[:3], "row counts differ: .* has 3")]
#: Rows that cannot be used, by argument.
DEFECTS: dict[str, Defects] = {
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


def test_rows_that_cannot_be_used_are_refused_by_name_and_change_nothing() -> None:
    for name, make in (PROGRAMS | OF_ROWS).items():
        function, arguments = make()
        model = arguments.get("model", getattr(function, "__self__", None))
        before = copy.deepcopy(model.state_dict())
        for argument, defects in DEFECTS.items():
            if isinstance(arguments.get(argument), Tensor):
                for change, message in defects:
                    wrong = {**arguments, argument: change(arguments[argument])}
                    with pytest.raises(ValueError) as refused:  # noqa: PT011
                        pytest.fail(f"{name} takes {function(**wrong)}")
                    assert re.search(message, str(refused.value)), (name, argument)
        for key, value in model.state_dict().items():
            assert torch.equal(value, before[key]), (name, key)
