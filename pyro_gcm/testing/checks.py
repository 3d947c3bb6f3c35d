"""What fails says in one sentence what is wrong, with the numbers that differ most."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

#: Standard errors that a Monte Carlo mean may be off.
ERRORS = 5.0


def skip(reason: str) -> NoReturn:
    """Skip the test that runs."""
    import pytest

    pytest.skip(reason)


def check(holds: Any, sentence: str) -> None:
    """Raise AssertionError with a sentence unless it holds, of all numbers of a tensor."""
    if not torch.as_tensor(holds).all():
        raise AssertionError(sentence)


def same(what: str, found: Tensor, wanted: Tensor, tolerance: float = 0.0) -> None:
    """Check that numbers agree, up to a tolerance relative to 1 and to their size."""
    wanted, found = torch.broadcast_tensors(wanted.detach().double(), found.detach().double())
    off = (found - wanted).abs()
    far = (found != wanted) & ~(off <= tolerance * (1.0 + wanted.abs()))
    place = (off.nan_to_num(torch.inf) * far).argmax()
    check(~far, f"{what} is {found.take(place):.9g}, and should be {wanted.take(place):.9g}")


def within(what: str, found: Tensor, wanted: Tensor, error: Tensor) -> None:
    """Check that Monte Carlo means agree, within several standard errors and .0005."""
    off = (found - wanted).abs() / (error + 1e-4)
    check(off < ERRORS, f"{what} is off by {off.max():.1f} standard errors")


def alike(what: str, draws: Tensor, others: Tensor) -> None:
    """Check that two samples [S, ...] have the same mean, within several standard errors."""
    error = (draws.var(0, False) / len(draws) + others.var(0, False) / len(others)).sqrt()
    within(what, draws.mean(0), others.mean(0), error)
