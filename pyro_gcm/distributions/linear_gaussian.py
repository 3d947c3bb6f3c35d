"""Exact posterior of a Gaussian latent variable behind a linear map with Gaussian noise."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor


def linear_gaussian_posterior(prior: Any, loading: Tensor, noise: Any, value: Tensor) -> Any:
    """p(k | r) for r = W k + dr, k ~ prior and dr ~ noise, normal with independent coordinates.

    With W of shape [m, K] the posterior precision is S_k^-1 + W' S_r^-1 W. It is correlated even
    if prior and noise are not, so the result is a `MultivariateNormal`, except for K = 1.

    :param prior: normal of batch shape [...] and event shape [K].
    :param loading: W, [m, K].
    :param noise: normal of batch shape [...] and event shape [m].
    :param value: r, [..., m].
    :raises ValueError: if prior or noise is not normal with independent coordinates.
    """
    for name, part in (("prior", prior), ("noise", noise)):
        if not is_independent_normal(part):
            raise ValueError(
                f"{name} must be normal with independent coordinates, got "
                f"{type(coordinates(part)).__name__}"
            )
    k, dr = coordinates(prior), coordinates(noise)
    precision_k, precision_r = k.scale**-2, dr.scale**-2
    weighted = loading.mT * precision_r.unsqueeze(-2)  # W' S_r^-1, [..., K, m]
    shift = (weighted @ (value - dr.loc).unsqueeze(-1)).squeeze(-1) + precision_k * k.loc
    precision = weighted @ loading + torch.diag_embed(precision_k)
    if loading.shape[-1] == 1:
        variance = 1.0 / precision.squeeze(-1)
        return dist.Normal(variance * shift, variance.sqrt()).to_event(1)
    factor = torch.linalg.cholesky(precision)
    loc = torch.cholesky_solve(shift.unsqueeze(-1), factor).squeeze(-1)
    covariance = torch.cholesky_inverse(factor)
    return dist.MultivariateNormal(loc, scale_tril=torch.linalg.cholesky(covariance))


def is_independent_normal(distribution: Any) -> bool:
    """Whether a distribution is normal with independent coordinates."""
    return isinstance(coordinates(distribution), torch.distributions.Normal)


def coordinates(distribution: Any) -> Any:
    """The distribution under `.to_event`."""
    while isinstance(distribution, torch.distributions.Independent):
        distribution = distribution.base_dist
    return distribution
