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


def moment(name: str, locs: Tensor, scales: Tensor, logits: Tensor) -> Tensor:
    """E[sum z], E[sum z^2], E[sum z^3] or E[product of z], exactly."""
    by_component = {
        "sum": locs.sum(-1),
        "squares": (locs**2 + scales**2).sum(-1),
        "cubes": (locs**3 + 3.0 * locs * scales**2).sum(-1),
        "product": locs.prod(-1),
    }[name]
    return (logits.softmax(-1) * by_component).sum(-1)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda z: z.sum(-1),
    "squares": lambda z: z.square().sum(-1),
    "cubes": lambda z: z.pow(3).sum(-1),
    "product": lambda z: z.prod(-1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dim", [1, 2, 3], ids="D={}".format)
def test_gradients_of_expectations_are_unbiased(dim: int, name: str) -> None:
    draws = 100_000
    values = parameters(dim=dim)
    leaves = [value.requires_grad_() for value in values]
    exact = torch.autograd.grad(
        moment(name, *leaves), leaves, allow_unused=True, materialize_grads=True
    )
    # A copy of the parameters for each draw gives a gradient per draw, and so a standard error.
    copies = [value.detach().expand(draws, *value.shape).requires_grad_() for value in values]
    z = DiagNormalMixture(*copies).rsample()
    f = FUNCTIONS[name](z)
    error = f.std() / draws**0.5
    assert abs(f.mean() - moment(name, *values)) < 5.0 * error
    each = torch.autograd.grad(f.sum(), copies)
    for got, wanted in zip(each, exact, strict=True):
        error = got.std(0) / draws**0.5
        assert ((got.mean(0) - wanted).abs() < 5.0 * error + 1e-12).all()
        assert (error < 0.1).all()


def test_every_row_of_a_batch_draws_from_its_own_components() -> None:
    locs = torch.tensor([[-100.0, -50.0], [50.0, 100.0], [500.0, 600.0]]).unsqueeze(-1)
    d = DiagNormalMixture(locs.expand(3, 2, 2), torch.ones(3, 2, 2), torch.zeros(3, 2))
    for sample_shape in ((), (1,), (2,), (2, 3)):
        z = d.sample(torch.Size(sample_shape))
        assert z.shape == (*sample_shape, 3, 2)
        assert (z[..., 0, :] < -40.0).all()
        assert ((z[..., 1, :] > 40.0) & (z[..., 1, :] < 110.0)).all()
        assert (z[..., 2, :] > 400.0).all()
    many = d.sample(torch.Size([2000]))
    assert ((many[:, 0, 0] < -75.0).double().mean() - 0.5).abs() < 0.05
    assert torch.equal(many[:, 0, 0] < -75.0, many[:, 0, 1] < -75.0)


def test_one_component_gives_the_draws_and_gradients_of_a_normal() -> None:
    locs, scales, logits = (value.requires_grad_() for value in parameters(3, components=1))
    z = DiagNormalMixture(locs, scales, logits).rsample(torch.Size([50]))
    noise = ((z - locs[:, 0]) / scales[:, 0]).detach()
    coefficients = torch.randn_like(z)
    (coefficients * z).sum().backward()
    torch.testing.assert_close(locs.grad[:, 0], coefficients.sum(0))
    torch.testing.assert_close(scales.grad[:, 0], (coefficients * noise).sum(0))
    assert logits.grad.abs().max() < 1e-12


def test_gradients_are_finite_in_float32_for_distant_components() -> None:
    values = [value.float() for value in parameters(2000, components=4, dim=4)]
    leaves = [value.requires_grad_() for value in (30.0 * values[0], *values[1:])]
    d = DiagNormalMixture(*leaves)
    z = d.rsample()
    (z.sum() + d.log_prob(z).sum()).backward()
    for leaf in leaves:
        assert leaf.grad.isfinite().all()


def test_draws_without_gradients_are_the_same() -> None:
    d = DiagNormalMixture(*(value.requires_grad_() for value in parameters(3)))
    torch.manual_seed(1)
    with_gradients = d.rsample(torch.Size([5]))
    torch.manual_seed(1)
    without = d.sample(torch.Size([5]))
    assert with_gradients.requires_grad
    assert not without.requires_grad
    assert torch.equal(with_gradients, without)


def test_expanded_mixture_is_of_the_same_class() -> None:
    d = DiagNormalMixture(*parameters(3)).expand((4, 3))
    assert isinstance(d, DiagNormalMixture)
    assert d.rsample(torch.Size([2])).shape == (2, 4, 3, 2)
