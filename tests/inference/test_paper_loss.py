"""The loss that the paper states for IGCM is equal to its equation."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import IGCM
from pyro_gcm.inference.scored import Scored
from pyro_gcm.nets import ConditionalMultivariateNormal, RevenueGuide

B, N = 6, 5
LOG_2_PI = math.log(2.0 * math.pi)
CASES: dict[str, dict[str, Any]] = {
    "binary": {},
    "continuous": {"response": "continuous"},
    "alternatives": {"alternatives": 2, "costs": 3},
}


# The equation, in torch alone


def log_normal(value: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    return (-0.5 * ((value - loc) / scale) ** 2 - scale.log() - 0.5 * LOG_2_PI).sum(-1)


def redrawn(q: Any, value: Tensor) -> Tensor:
    """The same draw as a function of the parameters of q once more."""
    if isinstance(q, torch.distributions.MultivariateNormal):
        centred = (value - q.loc).detach().unsqueeze(-1)
        base = torch.linalg.solve_triangular(q.scale_tril.detach(), centred, upper=False)
        return q.loc + (q.scale_tril @ base).squeeze(-1)
    q = q.base_dist
    return q.loc + q.scale * ((value - q.loc) / q.scale).detach()


def divergence(q: Any, p: Any) -> Tensor:
    """KL[q || p] of Gaussians from its formula."""
    loc, scale = p.base_dist.loc, p.base_dist.scale
    if isinstance(q, torch.distributions.MultivariateNormal):
        spread = (q.scale_tril / scale[..., None]).square().sum((-1, -2))
        log_q = q.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    else:
        spread = (q.base_dist.scale / scale).square().sum(-1)
        log_q = q.base_dist.scale.log().sum(-1)
    shift = ((q.mean - loc) / scale).square().sum(-1)
    log_p = scale.expand(q.mean.shape).log().sum(-1)
    return 0.5 * (spread + shift - q.mean.shape[-1]) + log_p - log_q


def log_response(model: IGCM, cost: Any, kernel: Any, x: Tensor, y: Tensor) -> Tensor:
    """log Pr(y | z, k), or its average E_k where `kernel` is (loc, scale)."""
    loc, scale = kernel if isinstance(kernel, tuple) else (model.kernel_map(kernel), 0.0 * x.sum())
    p = torch.special.ndtr((loc - cost.loc) / (cost.scale**2 + scale**2).sqrt()).prod(-1)
    if cost.loc.shape[-2:] == (2, 3):  # alternatives
        p = 1.0 - (1.0 - p).prod(-1)
    if not hasattr(model.response, "_curve"):
        return torch.where(y == 1.0, p, 1.0 - p).log()
    threshold, threshold_scale, own = model.response._curve(x)
    mean = (own**2 + threshold_scale**2).sqrt() * torch.special.ndtri(p) + threshold
    return -0.5 * ((y - mean) / own) ** 2 - own.log() - 0.5 * LOG_2_PI


def by_hand(model: IGCM, drawn: dict[str, Tensor], rows: tuple[Tensor, ...]) -> Tensor:
    """L_IGCM of section 3.4, summed over the rows, for draws z and k [N, B, .]."""
    unit, x = model.r_standardizer, model.x_standardizer(rows[0])
    r, y = rows[1], rows[2]
    q_k, p_k, p_z = model.k_guide(x, unit(r)), model.k_prior(x), model.z_prior(x)
    q_z = p_z if model.z_guide is None else model.z_guide(x)
    z, k = redrawn(q_z, drawn["z"]), redrawn(q_k, drawn["k"])
    cost = model.cost_net(z).base_dist
    plain = model.cost_shape == (model.k_dim,) and not hasattr(model.response, "_curve")
    closed = plain and not isinstance(q_k, torch.distributions.MultivariateNormal)
    kernel = (q_k.base_dist.loc, q_k.base_dist.scale) if closed else k
    log_y = log_response(model, cost, kernel, x, y)
    for sign, p in ((1.0, p_z.base_dist), (-1.0, q_z.base_dist)):
        log_y = log_y + sign * log_normal(z, p.loc, p.scale)
    dr = model.dr_net(x).base_dist
    mean = (k @ model.loading.weight.T + dr.loc) * unit.scale + unit.loc  # in the units of r
    log_r = log_normal(r, mean, dr.scale * unit.scale)
    first, second = (-log_p.exp().mean(0).log() for log_p in (log_y, log_r))
    return (first + second + divergence(q_k, p_k)).sum()


def full_guide() -> RevenueGuide:
    """q(k | x, r) with any covariance."""
    return RevenueGuide(ConditionalMultivariateNormal(3 + 2, 2))


def problem(prior: str, kernel_prior: str, kernel_guide: Any, case: str) -> Any:
    """A model in float64 whose units are not 1, and rows for it."""
    model = IGCM(
        3,
        2,
        prior=prior,
        guide="amortised" if prior == "standard" else "prior",
        kernel_prior=kernel_prior,
        kernel_guide=kernel_guide if isinstance(kernel_guide, str) else kernel_guide(),
        **CASES[case],
    ).double()
    x, r = 30.0 + 5.0 * torch.randn(B, 3).double(), -7.0 + 40.0 * torch.randn(B, 2).double()
    y = torch.randn(B, dtype=torch.float64)
    y = 100.0 + 20.0 * y if case == "continuous" else (torch.arange(B) % 2).double()
    model.x_standardizer.learn(x)
    model.r_standardizer.learn(r)
    model.response.learn_unit(y)
    return zoo.off_the_prior(model), (x, r, y)


def read(model: IGCM, rows: tuple[Tensor, ...], num_particles: int) -> Scored:
    """The rows as `fit` reads them."""
    pair = model.training_pair("paper")
    return Scored(model, pair.plan, pair.bound(None, num_particles)).read(*rows)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernel_guide", ["amortised", full_guide], ids=["diagonal", "full"])
@pytest.mark.parametrize(
    ("num_particles", "prior", "kernel_prior"),
    [(1, "standard", "standard"), (N, "standard", "conditional"), (N, "conditional", "standard")],
)
def test_loss_and_gradients_equal_the_equation_of_the_paper(
    num_particles: int, prior: str, kernel_prior: str, kernel_guide: Any, case: str
) -> None:
    model, rows = problem(prior, kernel_prior, kernel_guide, case)
    found = read(model, rows, num_particles)
    loss = found.row_losses(1).sum()
    expected = by_hand(model, {name: found.values[name] for name in ("z", "k")}, rows)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    parameters = model.trained_parameters("paper")
    mine, theirs = (
        torch.autograd.grad(value, list(parameters.values()), retain_graph=True, allow_unused=True)
        for value in (loss, expected)
    )
    for name, gradient, wanted in zip(parameters, mine, theirs, strict=True):
        assert wanted is not None, name
        size = wanted.abs().max().item()
        assert size > 0.0, name
        torch.testing.assert_close(gradient, wanted, rtol=0, atol=1e-6 * size, msg=name)
