"""Transforms of `torch.func`, and `torch.compile`, of predictions and of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, hessian, vmap

from pyro_gcm import GCM, IGCM, MemberGCM, SurvivalTimes

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is:DeprecationWarning")

MODELS: dict[str, Callable[[], Any]] = {
    "plain": lambda: GCM(3, 2),
    "infinite costs, alternatives": lambda: GCM(3, 2, p0="constant", alternatives=2),
    "flow": lambda: GCM(3, 2, prior="flow"),
    "categorical": lambda: GCM(3, 2, prior="categorical"),
    "continuous": lambda: GCM(3, 2, response="continuous"),
    "quantile": lambda: GCM(3, 1, response="quantile"),
    "survival": lambda: GCM(3, 2, response="survival"),
    "ordinal": lambda: GCM(3, 2, response="ordinal"),
    "members": lambda: MemberGCM(3, 2),
    "implicit": lambda: IGCM(3, 2),
}


def made(kind: str) -> tuple[Any, Tensor, Tensor]:
    model = MODELS[kind]().double()
    x, r = torch.randn(5, 3).double(), torch.rand(5, model.r_dim).double()
    y: Any = torch.arange(5.0) % 2
    model.learn_units(x, r, SurvivalTimes.right_censored(y + 0.5, y) if kind == "survival" else y)
    return model, x, r


@pytest.mark.parametrize("kind", MODELS)
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
