"""p(k | r) of the linear Gaussian model against the joint Gaussian of k and r, conditioned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

from pyro_gcm.distributions.linear_gaussian import (
    is_independent_normal,
    linear_gaussian_posterior,
)

sizes = pytest.mark.parametrize(
    ("k_dim", "r_dim"), [(1, 1), (1, 4), (2, 2), (3, 2), (2, 5)], ids=lambda n: str(n)
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


def agrees(posterior: Any, reference: tuple[Tensor, Tensor]) -> None:
    batch = reference[0].shape[:-1]
    torch.testing.assert_close(
        posterior.mean.expand_as(reference[0]), reference[0], rtol=0, atol=1e-10
    )
    wanted = reference[1]
    torch.testing.assert_close(covariance(posterior).expand_as(wanted), wanted, rtol=0, atol=1e-10)
    assert posterior.batch_shape == batch


@sizes
def test_posterior_is_the_joint_gaussian_conditioned_on_r(k_dim: int, r_dim: int) -> None:
    prior, noise, w = normal(6, k_dim), normal(6, r_dim), loading(r_dim, k_dim)
    r = 2.0 * torch.randn(6, r_dim, dtype=torch.float64)
    posterior = linear_gaussian_posterior(prior, w, noise, r)
    agrees(posterior, conditioned(prior, w, noise, r))
    # Bayes' rule: p(k) p(r | k) / p(k | r) does not depend on k.
    k = posterior.sample((5,))
    likelihood = dist.Normal(k @ w.T + noise.mean, noise.stddev).to_event(1).log_prob(r)
    evidence = prior.log_prob(k) + likelihood - posterior.log_prob(k)
    torch.testing.assert_close(evidence, evidence[:1].expand(5, 6), rtol=0, atol=1e-9)


@sizes
def test_one_kernel_is_a_normal_and_several_are_a_correlated_one(k_dim: int, r_dim: int) -> None:
    posterior = linear_gaussian_posterior(
        normal(k_dim), loading(r_dim, k_dim), normal(4, r_dim), torch.zeros(4, r_dim).double()
    )
    assert (posterior.batch_shape, posterior.event_shape) == ((4,), (k_dim,))
    if k_dim == 1:
        assert isinstance(posterior, torch.distributions.Independent)
        assert isinstance(posterior.base_dist, torch.distributions.Normal)
        assert is_independent_normal(posterior)
        return
    assert isinstance(posterior, torch.distributions.MultivariateNormal)
    between = posterior.covariance_matrix[0][~torch.eye(k_dim, dtype=torch.bool)]
    assert between.abs().min() > 1e-4


@pytest.mark.parametrize(
    ("prior", "noise", "value"),
    [((), (), ()), ((), (4, 1), (3,)), ((4, 1), (4, 1), (3,)), ((3,), (), (4, 1)), ((), (), (4,))],
    ids=["one row", "rows by revenues", "both by rows", "prior by revenues", "revenues"],
)
@pytest.mark.parametrize("k_dim", [1, 2])
def test_batches_of_prior_noise_and_revenue_broadcast(
    k_dim: int, prior: tuple[int, ...], noise: tuple[int, ...], value: tuple[int, ...]
) -> None:
    parts = normal(*prior, k_dim), loading(3, k_dim), normal(*noise, 3)
    r = torch.randn(*value, 3, dtype=torch.float64)
    agrees(linear_gaussian_posterior(*parts, r), conditioned(*parts, r))


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("k_dim", [1, 2])
def test_posterior_has_the_dtype_of_its_arguments(k_dim: int, dtype: torch.dtype) -> None:
    prior = dist.Normal(torch.zeros(k_dim, dtype=dtype), 1.0).to_event(1)
    noise = dist.Normal(torch.zeros(3, dtype=dtype), 1.0).to_event(1)
    w, r = loading(3, k_dim).to(dtype), torch.zeros(3, dtype=dtype)
    assert linear_gaussian_posterior(prior, w, noise, r).sample().dtype == dtype


def full_normal() -> Any:
    return dist.MultivariateNormal(torch.zeros(2), scale_tril=torch.eye(2))


def laplace() -> Any:
    return dist.Laplace(torch.zeros(2), 1.0).to_event(1)


def mapped_normal() -> Any:
    return dist.LogNormal(torch.zeros(2), 1.0).to_event(1)


@pytest.mark.parametrize("part", ["prior", "noise"])
@pytest.mark.parametrize(
    ("other", "name"),
    [
        (full_normal, "MultivariateNormal"),
        (laplace, "Laplace"),
        (mapped_normal, "LogNormal"),
    ],
    ids=["full normal", "laplace", "mapped normal"],
)
def test_what_is_not_independently_normal_is_refused_by_name(
    other: Any, name: str, part: str
) -> None:
    arguments = {"prior": dist.Normal(torch.zeros(2), 1.0).to_event(1)}
    arguments["noise"] = arguments["prior"]
    arguments[part] = other()
    assert not is_independent_normal(other())
    message = f"{part} must be normal with independent coordinates, got {name}"
    with pytest.raises(ValueError, match=message):
        linear_gaussian_posterior(**arguments, loading=torch.eye(2), value=torch.zeros(2))
