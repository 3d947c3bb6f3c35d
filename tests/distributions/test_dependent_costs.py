"""Costs with a common factor, and mixtures of costs, against quadrature, mpmath and rejection."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pyro.distributions as dist
import pytest
import torch
import zoo
from scipy.integrate import quad
from scipy.stats import ks_2samp
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.distributions import CommonFactor, CostMixture, OrderEvent
from pyro_gcm.distributions.dependent_costs import GivenFactor
from pyro_gcm.distributions.families import cost_family, tail_log_probs
from pyro_gcm.nets import FactorCosts, MixedCosts

LOADING = torch.tensor([0.9, -0.5, 0.3], dtype=torch.float64)
FAMILIES: dict[str, Any] = {
    "normal": dist.Normal,
    "logistic": dist.Logistic,
    "laplace": dist.Laplace,
}


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def independent(family: str) -> Any:
    loc, scale = torch.tensor([0.3, -1.0, 0.0]).double(), torch.tensor([1.5, 0.4, 1.0]).double()
    return FAMILIES[family](loc, scale).to_event(1)


def phi(f: float) -> float:
    return math.exp(-0.5 * f * f) / math.sqrt(2.0 * math.pi)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_factor_integrated_out_gives_density_marginals_and_the_event(family: str) -> None:
    plain = independent(family)
    costs = CommonFactor(plain, LOADING)
    g = torch.Generator().manual_seed(0)
    c = torch.randn(3, generator=g).double()

    def integral(function: Any) -> float:
        found: float = quad(lambda f: phi(f) * float(function(f)), -9.0, 9.0, epsabs=1e-13)[0]
        return found

    def given(f: float) -> Any:
        return costs.given(number(f))

    density = integral(lambda f: given(f).log_prob(c).exp())
    assert density == pytest.approx(costs.log_prob(c).exp().item(), rel=1e-9)
    for k in range(3):
        below = integral(lambda f, k=k: tail_log_probs(given(f), c)[0][k].exp())
        assert below == pytest.approx(tail_log_probs(plain, c)[0][k].exp().item(), rel=1e-9)
    if family == "normal":
        a = LOADING
        correlation = a[:, None] * a + torch.diag(1.0 - a.square())
        scale = plain.base_dist.scale
        covariance = scale[:, None] * correlation * scale
        joint = dist.MultivariateNormal(plain.base_dist.loc, covariance)
        torch.testing.assert_close(costs.log_prob(c), joint.log_prob(c), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("family", ["logistic", "laplace"])
@pytest.mark.parametrize("value", [-60.0, -3.0, 0.2, 7.0, 80.0])
def test_tails_given_the_factor_are_right_far_out(family: str, value: float) -> None:
    loc, scale, shift, spread = 0.3, 1.5, -0.8, 0.6
    base = FAMILIES[family](number(loc), number(scale))
    d = GivenFactor(base, number(shift), number(spread))
    functions = cost_family(GivenFactor)
    log_p, log_q = functions.log_tails(d, number(value))
    with mpmath.workdps(150):
        u = (mpmath.mpf(value) - mpmath.mpf(loc)) / mpmath.mpf(scale)
        if family == "logistic":
            below, above = 1 / (1 + mpmath.exp(-u)), 1 / (1 + mpmath.exp(u))
        else:
            tail = mpmath.exp(-abs(u)) / 2
            below, above = (tail, 1 - tail) if u < 0 else (1 - tail, tail)
        # In logarithms of the smaller tail, which is found by Newton's method.
        small, side = (below, 1) if below < above else (above, -1)
        start = -mpmath.sqrt(-2 * mpmath.log(small)) if small < 0.1 else mpmath.mpf(0)
        score = side * mpmath.findroot(lambda t: mpmath.log(mpmath.ncdf(t) / small), start)
        free = (score - mpmath.mpf(shift)) / mpmath.mpf(spread)
        wanted = [float(mpmath.log(mpmath.ncdf(v))) for v in (free, -free)]
    for found, right in zip((log_p, log_q), wanted, strict=True):
        assert found.item() == pytest.approx(right, rel=1e-10, abs=1e-300)
    assert functions.quantile(d, log_p, log_q).item() == pytest.approx(value, rel=1e-9)


def test_a_mixture_is_that_of_torch() -> None:
    g = torch.Generator().manual_seed(1)
    loc, logits = torch.randn(2, 4, generator=g).double(), torch.randn(2, generator=g).double()
    c = torch.randn(5, 4, generator=g).double()
    wanted = torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(logits=logits),
        torch.distributions.Independent(torch.distributions.Laplace(loc, 0.7), 1),
    )
    for shape in ((4,), (2, 2)):
        modes = dist.Laplace(loc.reshape(2, *shape), 0.7).to_event(1 + len(shape))
        mixed = CostMixture(logits, modes)
        found = mixed.log_prob(c.reshape(5, *shape))
        torch.testing.assert_close(found, wanted.log_prob(c), rtol=1e-14, atol=1e-14)
        assert mixed.given(torch.tensor([1, 0])).batch_shape == (2,)


def given_event(model: GCM, x: Tensor, r: Tensor, y: Tensor, count: int) -> dict[str, Tensor]:
    """Draws of the costs of one row by rejection from the program itself."""
    torch.manual_seed(2)
    z = model.z_dist(x).sample((count,))[:, 0]
    c = model.c_dist(z, model.x_standardizer(x)).sample()
    event = OrderEvent(c, model.mapped(r), cost_event_dim=len(model.cost_shape))
    happened = event.mean == y
    return {"z": z[happened], "c": c[happened]}


@pytest.mark.parametrize("kind", ["common factor", "modes of costs"])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_posteriors_are_those_of_rejection(kind: str, y: float) -> None:
    model = zoo.informative(zoo.with_units(kind, response="binary"))
    data = zoo.rows(count=1)
    draws = model.cost_posterior(
        data.x, data.r, torch.tensor([y]), num_samples=4000, units="standard", progress=False
    )
    wanted = given_event(model, data.x, data.r, torch.tensor(y), 40_000)
    for name, values in wanted.items():
        found = draws[name][:, 0].flatten(1)
        for k, column in enumerate(values.flatten(1).T):
            assert ks_2samp(found[:, k].numpy(), column.numpy()).pvalue > 1e-3
        together = (np.corrcoef(v.flatten(1).T.numpy()) for v in (found, values))
        np.testing.assert_allclose(*together, atol=0.08)


def test_what_dependent_costs_do_not_go_with_is_refused() -> None:
    with pytest.raises(ValueError, match="p0 needs independent costs, got CommonFactor"):
        GCM(3, 2, z_dim=2, p0="constant", cost_family=FactorCosts(2, (2,)))
    wanted = r"cost_family must give values of shape \(2,\) for a row, got \(3,\)"
    with pytest.raises(ValueError, match=wanted):
        GCM(3, 2, z_dim=2, cost_family=MixedCosts(2, (3,)))
