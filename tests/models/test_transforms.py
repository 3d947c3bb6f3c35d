"""Transforms of `torch.func`, and `torch.compile`, of predictions and of programs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import zoo
from torch import Tensor
from torch.func import grad, hessian, vmap

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is:DeprecationWarning")

KINDS = (
    *("plain", "conditional p0", "flow prior", "categorical prior", "continuous", "quantile"),
    *("survival", "ordinal", "members", "implicit"),
)


def made(kind: str) -> tuple[Any, Tensor, Tensor]:
    return zoo.with_units(kind), *zoo.rows_of(kind, 5)[:2]


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_single_rows_are_those_of_all(kind: str) -> None:
    model, x, r = made(kind)

    def one(own_r: Tensor, own_x: Tensor) -> Tensor:
        value: Tensor = model.differentiable(own_x[None], own_r[None])[0]
        return value

    needed = r.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(model.differentiable(x, needed).sum(), needed)
    torch.testing.assert_close(vmap(grad(one))(r, x), wanted)
    torch.testing.assert_close(grad(lambda rows: model.differentiable(x, rows).sum())(r), wanted)
    assert hessian(one)(r[0], x[0]).isfinite().all()


@pytest.mark.filterwarnings("ignore")  # of torch.compile itself
@pytest.mark.parametrize("kind", ["plain", "members"])
def test_compiled_predictions_are_the_same(kind: str) -> None:
    model, x, r = made(kind)
    assert torch.equal(torch.compile(model.predict, backend="eager")(x, r), model.predict(x, r))
    twice = torch.compile(lambda x, r: 2.0 * model.predict(x, r), backend="eager")
    assert torch.equal(twice(x, r), 2.0 * model.predict(x, r))
    if kind == "plain":
        compiled = torch.compile(model.differentiable, backend="eager")(x, r)
        torch.testing.assert_close(compiled, model.differentiable(x, r))
