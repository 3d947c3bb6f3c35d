"""IGCM refuses by name what has no meaning, before any work is done."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from igcm_toys import data

from pyro_gcm import IGCM
from pyro_gcm.nets import Conditional

NAN = math.nan
BUILD: dict[str, tuple[dict[str, Any], str]] = {
    "laplace kernel": (
        {"kernel_prior": Conditional(dist.Laplace, 3, (2,), 4)},
        "kernel_prior must be normal with independent coordinates, .* got Laplace",
    ),
    "guide as a function": (
        {"guide": lambda x, r, y: None},
        "guide must be one of .* got <function",
    ),
    "kernel map shape": (
        {"kernel_map": "identity", "costs": 3},
        "kernel_map='identity' needs one alternative with a cost for each",
    ),
}


@pytest.mark.parametrize("case", BUILD)
def test_parts_that_do_not_fit_are_refused_by_name(case: str) -> None:
    options, message = BUILD[case]
    with pytest.raises(ValueError, match=message):
        IGCM(3, 2, **options)


def test_missing_values_are_refused_under_every_objective() -> None:
    model = IGCM(3, 2, prior="standard", kernel_guide="amortised")
    x, r, y = data(12)
    gap = torch.where(torch.arange(12)[:, None] == 5, NAN, x)
    for objective in model.objectives:
        model.objective = objective
        for call in (lambda: model.predict(gap, r), lambda: model.surface(gap, r)):
            with pytest.raises(ValueError, match="x must be finite, got nan"):
                call()
        with pytest.raises(ValueError, match="x must be finite"):
            model.log_prob(gap, r, y)
