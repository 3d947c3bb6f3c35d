"""Cost families: both tails exact, quantiles that invert them, and families of one's own."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

from pyro_gcm.distributions import cost_family, register_cost_family
from pyro_gcm.distributions.families import resolve_cost_family
from pyro_gcm.distributions.numerics import log1mexp


@pytest.mark.parametrize("loc", [0.0, 1e6, -1e6], ids="loc={:g}".format)
def test_bisection_finds_quantiles_to_the_last_bits(loc: float, gumbel: type) -> None:
    d = dist.Gumbel(torch.tensor(loc, dtype=torch.float64), torch.tensor(3.0))
    log_p = torch.tensor([-700.0, -5.0, -math.log(2.0), -1e-3, -1e-200], dtype=torch.float64)
    log_q = torch.log(-torch.expm1(log_p))
    closed_form = d.loc - d.scale * torch.log(-log_p)
    quantile = cost_family(dist.Gumbel).quantile(d, log_p, log_q)
    torch.testing.assert_close(quantile, closed_form, rtol=1e-14, atol=1e-12)


def log_cdf(d: dist.Gumbel, value: Tensor) -> Tensor:
    return -((d.loc - value) / d.scale).exp()


def log_survival(d: dist.Gumbel, value: Tensor) -> Tensor:
    return log1mexp(log_cdf(d, value))


def quantile(d: dist.Gumbel, log_p: Tensor, log_q: Tensor) -> Tensor:
    return d.loc - d.scale * torch.log(-log_p)


def test_built_in_families_and_names_cannot_be_taken(registry: None) -> None:
    with pytest.raises(ValueError, match="name='normal' belongs to a built-in family"):
        register_cost_family(dist.Gumbel, log_cdf, log_survival, name="normal")
    with pytest.raises(ValueError, match="distribution=Logistic belongs to a built-in family"):
        register_cost_family(
            dist.Logistic,
            lambda d, v: torch.nn.functional.logsigmoid((v - d.loc) / d.scale),
            lambda d, v: torch.nn.functional.logsigmoid((d.loc - v) / d.scale),
        )
    assert resolve_cost_family("normal") is dist.Normal


def test_a_later_registration_of_a_class_or_a_name_takes_the_place_of_an_earlier_one(
    registry: None,
) -> None:
    def register(cls: type, function: Any) -> None:
        register_cost_family(cls, log_cdf, log_survival, function, name="gumbel")

    register(dist.Gumbel, None)
    register(dist.Gumbel, quantile)
    assert cost_family(dist.Gumbel).quantile is quantile
    other = type("Other", (dist.Gumbel,), {})
    register(other, quantile)
    assert resolve_cost_family("gumbel") is other


def test_unknown_families_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"cost_family='cauchy' is unknown; known names: \['lap"):
        resolve_cost_family("cauchy")
    with pytest.raises(TypeError, match=r"StudentT is not a registered .* \(known: .*Normal.*\)"):
        resolve_cost_family(dist.StudentT)
