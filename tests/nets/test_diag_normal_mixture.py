"""The mixture's draws: distribution, independent rows, unbiased gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pyro_gcm.nets import DiagNormalMixture

F64 = torch.float64
Parameters = tuple[Tensor, Tensor, Tensor]


def parameters(*batch: int, components: int = 3, dim: int = 2) -> Parameters:
    locs = 1.2 * torch.randn(*batch, components, dim, dtype=F64)
    scales = 0.5 + torch.rand(*batch, components, dim, dtype=F64)
    return locs, scales, 0.5 * torch.randn(*batch, components, dtype=F64)


#: A function of z, and its expectation for each component.
FUNCTIONS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "sum": (lambda z: z.sum(-1), lambda m, s: m.sum(-1)),
    "squares": (lambda z: z.square().sum(-1), lambda m, s: (m**2 + s**2).sum(-1)),
    "cubes": (lambda z: z.pow(3).sum(-1), lambda m, s: (m**3 + 3.0 * m * s**2).sum(-1)),
    "product": (lambda z: z.prod(-1), lambda m, s: m.prod(-1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dim", [1, 3], ids="D={}".format)
def test_gradients_of_expectations_are_unbiased(dim: int, name: str) -> None:
    draws, (function, expectation) = 20_000, FUNCTIONS[name]
    values = parameters(dim=dim)
    locs, scales, logits = leaves = [value.requires_grad_() for value in values]
    mean = (logits.softmax(-1) * expectation(locs, scales)).sum(-1)
    exact = torch.autograd.grad(mean, leaves, allow_unused=True, materialize_grads=True)
    # A copy of the parameters for each draw gives a gradient per draw, and so a standard error.
    copies = [value.detach().expand(draws, *value.shape).requires_grad_() for value in values]
    z = DiagNormalMixture(*copies).rsample()
    f = function(z)
    assert abs(f.mean() - mean) < 5.0 * f.std() / draws**0.5
    each = torch.autograd.grad(f.sum(), copies)
    for got, wanted in zip(each, exact, strict=True):
        error = got.std(0) / draws**0.5
        assert ((got.mean(0) - wanted).abs() < 5.0 * error + 1e-12).all()
        assert (error < 0.25).all()


def test_wide_mixture_in_float32_has_finite_gradients_and_the_same_draws_without_them() -> None:
    values = [value.float() for value in parameters(2000, components=4, dim=4)]
    leaves = [value.requires_grad_() for value in (30.0 * values[0], *values[1:])]
    d = DiagNormalMixture(*leaves).expand((3, 2000))
    assert isinstance(d, DiagNormalMixture)
    torch.manual_seed(1)
    z = d.rsample()
    assert z.shape == (3, 2000, 4)
    (z.sum() + d.log_prob(z).sum()).backward()
    assert all(leaf.grad.isfinite().all() for leaf in leaves)
    torch.manual_seed(1)
    without = d.sample()
    assert not without.requires_grad
    assert torch.equal(z, without)
