"""p(k | r) of the linear Gaussian model against the joint Gaussian of k and r, conditioned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

from pyro_gcm.distributions.revenue_posterior import (
    is_independent_normal,
    linear_gaussian_posterior,
)


def normal(*shape: int, **options: Any) -> Any:
    """Independent coordinates of unequal locations and scales, float64."""
    scale = 0.2 + torch.rand(*shape, dtype=torch.float64)
    return dist.Normal(torch.randn(*shape, dtype=torch.float64), scale, **options).to_event(1)


def loading(r_dim: int, k_dim: int) -> Tensor:
    return 0.1 + torch.rand(r_dim, k_dim, dtype=torch.float64)


def conditioned(prior: Any, loading: Tensor, noise: Any, value: Tensor) -> Any:
    """Mean [B, K] and covariance [B, K, K] of k in the dense joint Gaussian of (k, r), by numpy."""
    batch = torch.broadcast_shapes(prior.batch_shape, noise.batch_shape, value.shape[:-1])
    w, size = loading.numpy(), loading.shape[1]
    rows = [
        tensor.expand(*batch, -1).reshape(-1, tensor.shape[-1]).numpy()
        for tensor in (prior.mean, prior.stddev, noise.mean, noise.stddev, value)
    ]
    means, covariances = [], []
    for loc_k, scale_k, loc_r, scale_r, r in zip(*rows, strict=True):
        to_joint = np.vstack([np.eye(size), w])  # (k, r) = to_joint k + (0, dr)
        own = np.concatenate([np.zeros(size), scale_r**2])
        joint = to_joint @ np.diag(scale_k**2) @ to_joint.T + np.diag(own)
        gain = joint[:size, size:] @ np.linalg.inv(joint[size:, size:])
        means.append(loc_k + gain @ (r - w @ loc_k - loc_r))
        covariances.append(joint[:size, :size] - gain @ joint[size:, :size])
    return (
        torch.tensor(np.array(means)).reshape(*batch, size),
        torch.tensor(np.array(covariances)).reshape(*batch, size, size),
    )


def covariance(posterior: Any) -> Tensor:
    full = getattr(posterior, "covariance_matrix", None)
    return posterior.variance.unsqueeze(-1) if full is None else full


@pytest.mark.parametrize(
    ("prior", "noise", "value"),
    [((), (), ()), ((), (4, 1), (3,)), ((4, 1), (4, 1), (3,)), ((3,), (), (4, 1)), ((), (), (4,))],
    ids=["one row", "rows by revenues", "both by rows", "prior by revenues", "revenues"],
)
@pytest.mark.parametrize(("k_dim", "r_dim"), [(1, 1), (1, 4), (2, 2), (3, 2), (2, 5)], ids=str)
def test_posterior_is_the_joint_gaussian_conditioned_on_r(
    k_dim: int, r_dim: int, prior: tuple[int, ...], noise: tuple[int, ...], value: tuple[int, ...]
) -> None:
    parts = normal(*prior, k_dim), loading(r_dim, k_dim), normal(*noise, r_dim)
    r = 2.0 * torch.randn(*value, r_dim, dtype=torch.float64)
    posterior = linear_gaussian_posterior(*parts, r)
    mean, wanted = conditioned(*parts, r)
    assert posterior.batch_shape == mean.shape[:-1]
    torch.testing.assert_close(posterior.mean.expand_as(mean), mean, rtol=0, atol=1e-10)
    found = covariance(posterior).expand_as(wanted)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)
    assert is_independent_normal(posterior) == (k_dim == 1)
    single = [dist.Normal(d.mean.float(), d.stddev.float()).to_event(1) for d in parts[::2]]
    again = linear_gaussian_posterior(single[0], parts[1].float(), single[1], r.float())
    assert again.sample().dtype == torch.float32


@pytest.mark.parametrize("k_dim", [1, 2])
def test_gradients_of_mean_and_covariance_are_those_of_the_function(k_dim: int) -> None:
    def moments(
        loc_k: Tensor, scale_k: Tensor, w: Tensor, loc_r: Tensor, scale_r: Tensor, r: Tensor
    ) -> tuple[Tensor, Tensor]:
        prior, noise = dist.Normal(loc_k, scale_k).to_event(1), dist.Normal(loc_r, scale_r)
        posterior = linear_gaussian_posterior(prior, w, noise.to_event(1), r)
        assert posterior.rsample().requires_grad
        return posterior.mean, covariance(posterior)

    prior, noise = normal(2, k_dim), normal(2, 3)
    r = torch.randn(2, 3, dtype=torch.float64)
    tensors = (prior.mean, prior.stddev, loading(3, k_dim), noise.mean, noise.stddev, r)
    assert torch.autograd.gradcheck(moments, [t.clone().requires_grad_() for t in tensors])


@pytest.mark.parametrize("part", ["prior", "noise"])
@pytest.mark.parametrize(
    "other",
    [
        dist.MultivariateNormal(torch.zeros(2), scale_tril=torch.eye(2)),
        dist.Laplace(torch.zeros(2), 1.0).to_event(1),
        dist.LogNormal(torch.zeros(2), 1.0).to_event(1),
    ],
    ids=["MultivariateNormal", "Laplace", "LogNormal"],
)
def test_what_is_not_independently_normal_is_refused_by_name(other: Any, part: str) -> None:
    arguments = dict.fromkeys(("prior", "noise"), dist.Normal(torch.zeros(2), 1.0).to_event(1))
    arguments[part] = other
    assert not is_independent_normal(other)
    name = type(getattr(other, "base_dist", other)).__name__
    with pytest.raises(ValueError, match=f"{part} must be normal with .* coordinates, got {name}"):
        linear_gaussian_posterior(**arguments, loading=torch.eye(2), value=torch.zeros(2))
