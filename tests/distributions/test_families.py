"""Cost families: both tails exact, quantiles that invert them, and families of one's own."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from mpmath_reference import standardized, tails, worst_error
from torch import Tensor

from pyro_gcm.distributions import cost_family, register_cost_family
from pyro_gcm.distributions.families import resolve_cost_family, tail_log_probs
from pyro_gcm.distributions.numerics import log1mexp

POINTS = [-40.0, -8.3, -1.0, -1e-9, 0.0, 1e-9, 0.4, 5.0, 40.0]
families = pytest.mark.parametrize("family", ["Normal", "Logistic", "Laplace", "Gumbel"])


@families
def test_both_tails_are_exact(family: str, gumbel: type) -> None:
    d = getattr(dist, family)(torch.tensor(0.7), torch.tensor(2.5))
    value = torch.tensor([0.7 + 2.5 * u for u in POINTS])
    u = [standardized(v, d.loc.item(), 2.5) for v in value.tolist()]
    log_p, log_q = tail_log_probs(d, value)
    assert log_p.dtype == log_q.dtype == torch.float64
    exact = [tails(family, v) for v in u]
    assert worst_error(log_p.tolist(), [t.log_p for t in exact], 1e-290) < 1e-12
    assert worst_error(log_q.tolist(), [t.log_q for t in exact], 1e-290) < 1e-12


@families
@pytest.mark.parametrize("event_dim", [1, 2])
def test_infinite_values_are_certain_and_have_gradient_zero(
    family: str, event_dim: int, gumbel: type
) -> None:
    value = torch.tensor([[-math.inf, math.inf, 0.3]], requires_grad=True)
    loc = torch.zeros(1, 3, requires_grad=True)
    d = getattr(dist, family)(loc, torch.ones(1, 3)).to_event(event_dim)
    log_p, log_q = tail_log_probs(d, value)
    assert log_p[0, :2].tolist() == [-math.inf, 0.0]
    assert log_q[0, :2].tolist() == [0.0, -math.inf]
    (log_p.exp() + log_q[0, 2]).sum().backward()
    for leaf in (value, loc):
        assert leaf.grad[0, :2].tolist() == [0.0, 0.0]
        assert leaf.grad[0, 2].isfinite()


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


def test_family_is_found_by_its_name_or_class(gumbel: type) -> None:
    assert resolve_cost_family("normal") is dist.Normal
    assert resolve_cost_family("logistic") is dist.Logistic
    assert resolve_cost_family("laplace") is dist.Laplace
    assert resolve_cost_family("gumbel") is resolve_cost_family(gumbel) is dist.Gumbel


def test_unknown_families_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"cost_family='cauchy' is unknown; known names: \['lap"):
        resolve_cost_family("cauchy")
    with pytest.raises(TypeError, match=r"StudentT is not a registered .* \(known: .*Normal.*\)"):
        resolve_cost_family(dist.StudentT)
