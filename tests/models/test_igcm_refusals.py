"""IGCM refuses by name what has no meaning, before any work is done."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import pytest

from pyro_gcm import IGCM
from pyro_gcm.nets import Conditional

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
