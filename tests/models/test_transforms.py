"""Transforms of `torch.func`, and `torch.compile`, of predictions and of programs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import zoo
from pyro import poutine
from torch import Tensor
from torch.func import grad, hessian, vmap
from torch.utils._pytree import tree_map

from pyro_gcm.inference import conditional

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


def test_densities_of_a_program_are_transformed_row_by_row() -> None:
    for kind in ("plain", "conditional p0", "members", "implicit"):
        model, x, r = made(kind)
        program, y = conditional(model.model), torch.arange(5.0).double() % 2
        drawn = poutine.trace(program).get_trace(x, r, y)
        names = [name for name in drawn.stochastic_nodes if name != "data"]
        known = {name: drawn.nodes[name]["value"].detach() for name in names}

        def one(*row: Any, program: Any = program) -> Tensor:
            own_r, own_x, own_y, sites = tree_map(lambda value: value[None], row)
            traced = poutine.trace(poutine.condition(program, sites))
            site = traced.get_trace(own_x, own_r, own_y).nodes["y"]
            log_p: Tensor = site["fn"].log_prob(site["value"])
            return log_p.sum()

        found = vmap(grad(one), randomness="same")(r, x, y, known)
        each = [
            grad(one)(*tree_map(lambda value, n=n: value[n], (r, x, y, known))) for n in range(5)
        ]
        torch.testing.assert_close(found, torch.stack(each), msg=kind)


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
