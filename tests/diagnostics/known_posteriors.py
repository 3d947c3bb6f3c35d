"""Models whose posterior is known: Gaussian, or drawn by rejection."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM
from pyro_gcm.distributions import OrderEvent

Draws = dict[str, Tensor]


def rows(count: int) -> Tensor:
    return torch.randn(count, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def revenues(count: int) -> Tensor:
    return torch.randn(count, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def linear(kind: type) -> Any:
    """A model without hidden layers, in which y is linear in z (and k) and so is its posterior."""
    model = kind(2, 1, response="continuous", z_dim=2, hidden=(), seed=2).double()
    with torch.no_grad():
        model.cost_net.net[0].weight[1:] = 0.0  # the scale of the costs
        model.cost_net.net[0].weight[0] = torch.tensor([1.2, -0.8])
    return model


def posterior_of(model: Any, x: Tensor, r: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and covariance of z (and k) given x, r and y, or given x and r alone."""
    covariates, standard = model.x_standardizer(x), model.r_standardizer(r)
    prior, cost = model.z_prior(covariates).base_dist, model.cost_net.net[0]
    mean, variance = prior.loc, prior.scale.square()
    # What the cost is compared with, less the cost, is linear: intercept + slope latents.
    scale = model.cost_net(torch.zeros(2).double()).base_dist.scale[0]
    slope, intercept = -cost.weight[0] / scale, (standard[:, 0] - cost.bias[0]) / scale
    if isinstance(model, IGCM):
        kernel = model.kernel(x, r).base_dist
        mean = torch.cat([mean, kernel.loc], -1)
        variance = torch.cat([variance, kernel.scale.square()], -1)
        slope = torch.cat([slope, 1.0 / scale.reshape(1)])
        intercept = -cost.bias[0] / scale
    if y is None:
        return mean, torch.diag_embed(variance)
    loc, threshold_scale, noise = model.response._curve(covariates)
    width = torch.hypot(noise, threshold_scale)
    slope, residual = width[:, None] * slope, y - loc - width * intercept
    precision = torch.diag_embed(1.0 / variance)
    posterior = precision + slope[:, :, None] * slope[:, None, :] / noise[:, None, None] ** 2
    covariance = torch.linalg.inv(posterior)
    shift = mean / variance + slope * (residual / noise**2)[:, None]
    return (covariance @ shift[..., None])[..., 0], covariance


def gaussian_posterior(
    model: Any,
    x: Tensor,
    r: Tensor,
    y: Tensor,
    *,
    num_samples: int,
    seed: int,
    spread: float = 1.0,
    sees_y: bool = True,
) -> Draws:
    """Exact draws of z (and k) and c, unless `spread` stretches z or y is not looked at."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        mean, covariance = posterior_of(model, x, r, y if sees_y else None)
        normal = torch.distributions.MultivariateNormal(mean, spread**2 * covariance)
        latents, standard = normal.sample((num_samples,)), model.r_standardizer(r)
        draws = {"z": latents[..., :2]}
        if isinstance(model, IGCM):
            draws["k"] = standard = latents[..., 2:]
        event = OrderEvent(model.cost_net(draws["z"]), standard)
        p_y = model.response.distribution(event, model.x_standardizer(x), r)
        draws["c"] = (p_y.cost_posterior(y) if sees_y else event.cost).sample()
        return draws


def rejection(
    model: GCM,
    x: Tensor,
    r: Tensor,
    y: Tensor,
    *,
    num_samples: int,
    seed: int,
    cost_sees_y: bool = True,
) -> Draws:
    """z and c from the program, kept where their event is y."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        covariates = model.x_standardizer(x)
        z = model.z_prior(covariates).sample((150 * num_samples,))
        cost = model.c_dist(z, x)
        c = cost.sample()
        event = OrderEvent(cost, model.revenue_map(model.r_standardizer(r)))
        kept = event.given_cost(c).mean == y
        assert (kept.sum(0) >= num_samples).all()
        first = kept.to(torch.int8).argsort(dim=0, descending=True, stable=True)[:num_samples]
        row = torch.arange(len(x))
        if not cost_sees_y:
            c = cost.sample()
        return {"z": z[first, row], "c": c[first, row]}
