"""A recorded function computes what it computed when it was recorded, on other numbers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import grad, vmap

from pyro_gcm.baselines.fit_many import recorded

A, B = torch.randn(2, 5, 4, 3).double().unbind()


def test_values_are_those_of_the_function() -> None:
    layer = torch.randn(3, 3).double()

    def loss(a: Tensor) -> Tensor:
        return torch.nn.functional.linear(a, layer).tanh().square().sum()

    function = vmap(grad(loss))
    torch.testing.assert_close(recorded(function, A)(B), function(B), rtol=0.0, atol=1e-14)


def test_what_is_written_through_a_view_is_not_left_out() -> None:
    def function(a: Tensor) -> Tensor:
        b = a.clone()
        b.view(b.shape).transpose(0, 1).transpose(0, 1).expand(b.shape).mul_(2.0)
        b.view(-1).add_(1.0)
        return b

    program = recorded(function, A)
    torch.testing.assert_close(program(B), 2.0 * B + 1.0, rtol=0.0, atol=0.0)
    assert not torch.equal(program(B), program(A))


def test_random_numbers_are_drawn_anew() -> None:
    program = recorded(lambda a: a + torch.rand_like(a), A)
    torch.manual_seed(0)
    first, second = program(B), program(B)
    assert not torch.equal(first, second)
    torch.manual_seed(0)
    assert torch.equal(program(B), first)
