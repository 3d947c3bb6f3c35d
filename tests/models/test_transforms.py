"""Transforms of `torch.func`, and `torch.compile`, of predictions and of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pyro import poutine
from torch import Tensor
from torch.func import grad, hessian, vmap

from pyro_gcm import GCM, IGCM, MemberGCM, SurvivalTimes
from pyro_gcm.inference import conditional

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


@pytest.mark.parametrize("kind", ["plain", "infinite costs, alternatives", "members", "implicit"])
def test_densities_of_a_program_are_transformed_row_by_row(kind: str) -> None:
    model, x, r = made(kind)
    y = torch.arange(5.0).double() % 2
    program = conditional(model.model)
    drawn = poutine.trace(program).get_trace(x, r, y)
    names = [name for name in drawn.stochastic_nodes if name != "data"]
    known = {name: drawn.nodes[name]["value"].detach() for name in names}

    def one(own_r: Tensor, own_x: Tensor, own_y: Tensor, sites: dict[str, Tensor]) -> Tensor:
        data = {name: value[None] for name, value in sites.items()}
        traced = poutine.trace(poutine.condition(program, data))
        site = traced.get_trace(own_x[None], own_r[None], own_y[None]).nodes["y"]
        log_p: Tensor = site["fn"].log_prob(site["value"])
        return log_p.sum()

    found = vmap(grad(one), randomness="same")(r, x, y, known)
    rows = zip(r, x, y, strict=True)
    each = [grad(one)(*row, {n: v[i] for n, v in known.items()}) for i, row in enumerate(rows)]
    torch.testing.assert_close(found, torch.stack(each))


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
