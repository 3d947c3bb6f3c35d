"""Log-probabilities go through the transforms of `torch.func`, with ordinary autograd's values.

As for torch's own distributions, validation has to be off where a function is vectorised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from convention_cases import CASES as CONVENTIONS
from torch import Tensor
from torch.func import grad, hessian, jacfwd, jacrev, vmap

from pyro_gcm.distributions import (
    AlongAxis,
    EventTime,
    GuessedEvent,
    InfiniteCost,
    OrderedLevel,
    OrderEvent,
    ThresholdNormal,
    ThresholdQuantile,
)
from pyro_gcm.distributions.curve_outcome import AxisUnits

ROWS = 6
#: Of every row: an outcome, a level, and a time that is exact, right-, left- or interval-censored.
OUTCOMES = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0, 1.0], dtype=torch.float64)
LEVELS = torch.tensor([0.0, 1.0, 2.0, 3.0, 1.0, 0.0], dtype=torch.float64)
TIMES = torch.tensor(
    [[0.7, 0.7, 0], [1.5, torch.inf, 0.2], [0, 0.4, 0], [0.6, 2, 0.1], [3, 3, 0], [0.1, 0.2, 0]],
    dtype=torch.float64,
)
SHIFTS = torch.tensor([[0.0], [-0.7], [-1.5]], dtype=torch.float64)
LOG_TIME = AxisUnits(torch.log, torch.exp, lambda t: -torch.log(t))
LINE = AxisUnits(lambda y: y, lambda s: s, torch.zeros_like)

Inputs = dict[str, Tensor]
Function = Callable[[Inputs], Tensor]


def event(family: str, inputs: Inputs, infinite: bool = False, alternatives: bool = False) -> Any:
    dims = 2 if alternatives else 1
    cost: Any = getattr(dist, family)(inputs["loc"], inputs["scale"]).to_event(dims)
    if infinite:
        cost = InfiniteCost(cost, inputs["logits"] if alternatives else inputs["logits"][..., 0])
    return OrderEvent(cost, inputs["revenue"])


def of_event(family: str, **options: bool) -> Function:
    return lambda i: event(family, i, **options).log_prob(i["y"])


def draws(i: Inputs) -> OrderEvent:
    """Two draws of the costs, before the rows."""
    loc = torch.stack([i["loc"], i["loc"] + 0.5])
    return OrderEvent(dist.Normal(loc, i["scale"]).to_event(1), i["revenue"])


def threshold(i: Inputs) -> tuple[Tensor, Tensor]:
    return i["loc"][..., 0], i["scale"][..., 0]


def of_threshold_normal(i: Inputs, family: str = "Normal", given: bool = False) -> Tensor:
    loc, scale = threshold(i)
    cost = i["loc"] - 0.3 if given else None
    return (
        ThresholdNormal(event(family, i), loc, scale, 0.5 * scale).given_cost(cost).log_prob(i["y"])
    )


def of_quantile(i: Inputs) -> Tensor:
    loc, scale = threshold(i)
    level = torch.sigmoid(i["logits"][..., 0])
    return ThresholdQuantile(event("Normal", i), loc, scale, level, scale).log_prob(i["y"])


def line(i: Inputs) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    def axis(position: Tensor) -> tuple[Tensor, Tensor]:
        slope = i["scale"].expand(*position.shape, *i["scale"].shape[-1:])
        return position.unsqueeze(-1) * slope, slope

    return axis


def of_cost_posterior(i: Inputs) -> Tensor:
    return event("Normal", i, infinite=True).cost_posterior(i["y"]).log_prob(i["loc"] - 0.3)


CASES: dict[str, Function] = {
    **{f"event, {family}": of_event(family) for family in ("Normal", "Logistic", "Laplace")},
    "event, registered": of_event("Gumbel"),
    "event, infinite": of_event("Normal", infinite=True),
    "event, alternatives": of_event("Laplace", infinite=True, alternatives=True),
    "mean": lambda i: event("Normal", i, infinite=True).mean,
    "mean over draws": lambda i: draws(i).log_mean_prob(i["y"]),
    "guess": lambda i: GuessedEvent(event("Normal", i), i["logits"][..., 0]).log_prob(i["y"]),
    "threshold normal": of_threshold_normal,
    "threshold normal, Logistic": lambda i: of_threshold_normal(i, "Logistic"),
    "threshold normal, given cost": lambda i: of_threshold_normal(i, given=True),
    "threshold quantile": of_quantile,
    "level": lambda i: OrderedLevel(event("Logistic", i), SHIFTS).log_prob(i["level"]),
    "along an axis": lambda i: AlongAxis(event("Normal", i), line(i), LINE).log_prob(i["y"]),
    "time": lambda i: EventTime(event("Normal", i), line(i), LOG_TIME).log_prob(i["time"]),
    "cost posterior": of_cost_posterior,
}
cases = pytest.mark.parametrize("case", CASES)
# Forward mode imports scripts of torch's own.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is:DeprecationWarning")


@pytest.fixture(autouse=True)
def without_validation(gumbel: type) -> Iterator[None]:
    with pyro.validation_enabled(False):
        yield


def inputs_of(case: str) -> tuple[Inputs, Inputs]:
    """Parameters of the rows, of which the last is rare, and what was observed."""
    shape = (ROWS, 2, 3) if "alternatives" in case else (ROWS, 3)
    torch.manual_seed(1)
    loc, revenue, logits = (torch.randn(s, dtype=torch.float64) for s in (shape, shape, shape[:2]))
    revenue = revenue + 1.0
    if case.startswith("event") and "registered" not in case:
        revenue[-1] -= 70.0
    scale = 0.5 + torch.rand(shape, dtype=torch.float64)
    parameters = {"loc": loc, "scale": scale, "revenue": revenue, "logits": logits}
    return parameters, {"y": OUTCOMES, "level": LEVELS, "time": TIMES}


def close(found: Inputs, wanted: Inputs) -> None:
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-12, msg=name)


@cases
def test_gradients_of_rows_are_those_of_autograd(case: str) -> None:
    parameters, observed = inputs_of(case)

    def log_p(p: Inputs, seen: Inputs) -> Tensor:
        return CASES[case]({**p, **seen})

    leaves = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    total = log_p(leaves, observed).sum()
    by_leaf = torch.autograd.grad(total, [*leaves.values()], allow_unused=True)
    pairs = zip(leaves.items(), by_leaf, strict=True)
    wanted = {n: torch.zeros_like(v) if g is None else g for (n, v), g in pairs}
    assert wanted["revenue"].any(-1).all()
    close(vmap(grad(log_p))(parameters, observed), wanted)
    close(grad(lambda p: log_p(p, observed).sum())(parameters), wanted)
    found = vmap(log_p)(parameters, observed)
    torch.testing.assert_close(found, log_p(parameters, observed), rtol=1e-11, atol=1e-13)


@cases
def test_jacobians_and_hessians_are_those_of_autograd(case: str) -> None:
    parameters, observed = inputs_of(case)
    rows = slice(1, 4)
    parameters, observed = (
        {name: value[rows] for name, value in part.items()} for part in (parameters, observed)
    )

    def log_p(revenue: Tensor) -> Tensor:
        return CASES[case]({**parameters, "revenue": revenue, **observed})

    at = parameters["revenue"]
    wanted: Any = torch.autograd.functional.jacobian(log_p, at)
    for jacobian in (jacrev, jacfwd):
        torch.testing.assert_close(jacobian(log_p)(at), wanted, rtol=1e-10, atol=1e-12)
    second: Any = torch.autograd.functional.hessian(lambda r: log_p(r).sum(), at)
    found = hessian(lambda r: log_p(r).sum())(at)
    assert second.any()
    torch.testing.assert_close(found, second, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("case", CONVENTIONS)
def test_every_density_can_be_vectorised_over_draws(case: str) -> None:
    d = CONVENTIONS[case]((2,))
    x = d.sample((4,))
    torch.testing.assert_close(vmap(d.log_prob)(x), d.log_prob(x), rtol=1e-11, atol=1e-12)
