"""`OrderEvent` has all its digits, and so have its gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import event_gradients, event_log_probs, worst_error
from order_event_cases import (
    FAMILIES_AND_SHAPES,
    FLOOR,
    GRADIENT_TOLERANCE,
    TOLERANCE,
    atoms,
    dtypes,
    event_shapes,
    exact_inputs,
    exact_logits,
    families,
    families_and_shapes,
    hard_event,
    hard_revenues,
    independent,
    largest_error,
    order_event,
    random_parameters,
)
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent


def rows(shape: tuple[int, ...]) -> int:
    """A number of events that the reference computes in a tenth of a second."""
    return max(5, 100 // math.prod(shape))


SOME = ((3,), (3, 5))
#: float32 is lifted to float64, so that some of its cases will do.
CASES = [(torch.float64, *case) for case in FAMILIES_AND_SHAPES]
CASES += [(torch.float32, "Normal", shape) for shape in SOME]
GUMBEL = [(torch.float64, "Gumbel", (3,)), (torch.float32, "Gumbel", (3, 2))]


@pytest.mark.parametrize(("dtype", "family", "shape"), CASES + GUMBEL, ids=str)
@atoms
def test_log_prob_has_all_digits_in_both_tails_and_at_both_ends_of_p0(
    infinite: bool, dtype: torch.dtype, family: str, shape: tuple[int, ...], gumbel: type
) -> None:
    event, leaves = hard_event(family, rows(shape), shape, dtype, infinite)
    u = exact_inputs(leaves["loc"], leaves["scale"], leaves["revenue"])
    assert largest_error(event, family, u, exact_logits(leaves)) <= TOLERANCE[dtype]


#: Every shape and family with atoms in float64, and two shapes without atoms in both types.
GRADIENTS = [f"f64-infinite-{family}-{shape}" for family, shape in FAMILIES_AND_SHAPES]
GRADIENTS += [f"{kind}-finite-Normal-{shape}" for kind in ("f32", "f64") for shape in SOME]


@pytest.mark.long(keep=GRADIENTS)
@families_and_shapes
@atoms
@dtypes
def test_gradient_has_its_digits_in_every_parameter(
    dtype: torch.dtype, infinite: bool, family: str, shape: tuple[int, ...]
) -> None:
    event, leaves = hard_event(family, rows(shape), shape, dtype, infinite)
    u = exact_inputs(leaves["loc"], leaves["scale"], leaves["revenue"])
    for outcome, log_prob in enumerate(event.log_probs()):
        exact = exact_gradients(family, leaves, u, outcome)
        found = torch.autograd.grad(log_prob.sum(), list(leaves.values()), retain_graph=True)
        for name, gradient in zip(leaves, found, strict=True):
            assert gradient.isfinite().all()
            error = worst_error(gradient.flatten().tolist(), exact[name], FLOOR[dtype])
            assert error <= GRADIENT_TOLERANCE[dtype], name


def exact_gradients(
    family: str, leaves: dict[str, Tensor], u: Sequence[Any], outcome: int
) -> dict[str, list[mpf]]:
    """Those of log Pr(y = outcome) in every leaf, at standardised revenues u."""
    exact: dict[str, list[mpf]] = {name: [] for name in ("revenue", "loc", "scale", "logits")}
    size = leaves["scale"].shape[-1]
    scales = leaves["scale"].reshape(len(leaves["scale"]), -1, size).tolist()
    with mp.workdps(60):
        for standard, units, logits in zip(u, scales, exact_logits(leaves), strict=True):
            by_u, by_logit = event_gradients(family, standard, logits, outcome)
            exact["logits"] += by_logit
            for numbers in zip(by_u, standard, units, strict=True):
                for slope, v, unit in zip(*numbers, strict=True):
                    exact["revenue"].append(slope / mpf(unit))
                    exact["loc"].append(-slope / mpf(unit))
                    exact["scale"].append(-v * slope / mpf(unit))
    return exact


@atoms
@event_shapes
@pytest.mark.parametrize("outcome", [0, 1])
def test_float32_is_as_good_for_a_loss_until_a_product_nears_its_smallest_number(
    outcome: int, shape: tuple[int, ...], infinite: bool
) -> None:
    event, leaves = hard_event("Logistic", 150, shape, torch.float32, infinite)
    y = torch.tensor(float(outcome))
    rare = event.log_prob(y) < -68.0
    if rare.any():  # takes the other form
        assert (event.log_prob_for_loss(y) == event.log_prob(y)).all()
    some = {name: leaf.detach()[~rare].requires_grad_() for name, leaf in leaves.items()}
    cost: Any = independent("Logistic", some["loc"], some["scale"], len(shape))
    cost = InfiniteCost(cost, some["logits"]) if infinite else cost
    event = OrderEvent(cost, some["revenue"])
    found = event.log_prob_for_loss(y)
    assert (found != event.log_prob(y)).any()
    u = exact_inputs(some["loc"], some["scale"], some["revenue"])
    logits = exact_logits(some)
    exact = [event_log_probs("Logistic", *each)[outcome] for each in zip(u, logits, strict=True)]
    # Products of tails, each with a relative error of a few ulp times its standardised revenue.
    most = 40.0 * math.prod(shape) * torch.finfo(torch.float32).eps
    assert worst_error(found.tolist(), exact, 1e-30) <= most
    # The gradient of an alternative that counts for nothing beside another one may be lost.
    wanted = exact_gradients("Logistic", some, u, outcome)
    gradients = torch.autograd.grad(found.sum(), [*some.values()])
    for name, gradient in zip(some, gradients, strict=True):
        error = worst_error(gradient.flatten().tolist(), wanted[name], 1e-8)
        assert error <= 2.0 * most, name


def test_no_rows_have_no_log_probabilities() -> None:
    loc = torch.zeros(0, 2, requires_grad=True)
    event = OrderEvent(independent("Logistic", loc, torch.ones(0, 2)), torch.zeros(0, 2))
    for log_prob in (event.log_prob, event.log_prob_for_loss):
        assert log_prob(torch.zeros(0)).shape == (0,)


@pytest.mark.long(keep=4)
@families
@dtypes
@pytest.mark.parametrize("alternatives", [1, 2])
def test_infinite_revenue_is_exact_and_has_gradient_zero(
    dtype: torch.dtype, family: str, alternatives: int
) -> None:
    values = itertools.product([-math.inf, -2.0, 0.5, math.inf], repeat=2 * alternatives)
    revenue = torch.tensor(list(values), dtype=dtype).reshape(-1, alternatives, 2)
    revenue.requires_grad_()
    loc, scale = (t.requires_grad_() for t in random_parameters(revenue.shape, dtype))
    event = order_event(family, loc, scale, revenue)
    log_probs = torch.stack([event.log_prob(torch.tensor(y, dtype=dtype)) for y in (0.0, 1.0)])
    exact = [event_log_probs(family, u) for u in exact_inputs(loc, scale, revenue)]
    wanted = [pair[y] for y in (0, 1) for pair in exact]
    assert worst_error(log_probs.flatten().tolist(), wanted, FLOOR[dtype]) <= TOLERANCE[dtype]
    for log_prob in log_probs:
        gradients = torch.autograd.grad(log_prob.sum(), (revenue, loc, scale), retain_graph=True)
        for gradient in gradients:
            assert gradient.isfinite().all()
            assert (gradient[revenue.isinf()] == 0.0).all()
        assert (gradients[0][revenue.isfinite()] != 0.0).any()


@families
def test_second_derivatives_beside_an_infinite_revenue_are_those_without_it(family: str) -> None:
    revenue, y = torch.tensor([[0.3], [-1.2]]).double(), torch.tensor([0.0, 1.0])
    found = []
    for columns in (1, 2):
        loc, scale = (one * torch.ones(2, columns).double() for one in (0.1, 0.7))
        leaves = [leaf.requires_grad_() for leaf in (loc, scale)]
        wide = torch.cat([revenue, torch.full_like(revenue, math.inf)], -1)[:, :columns]
        log_p = order_event(family, loc, scale, wide).log_prob(y).sum()
        slopes = torch.autograd.grad(log_p, leaves, create_graph=True)
        second = torch.autograd.grad(sum(slope.square().sum() for slope in slopes), leaves)
        assert not any(each[:, 1:].any() for each in second)
        found.append([each[:, :1] for each in second])
    torch.testing.assert_close(*found)


@families
@pytest.mark.parametrize("shape", [(2,), (2, 2)], ids=["K", "G,K"])
@atoms
def test_first_and_second_derivatives_pass_gradcheck(
    infinite: bool, shape: tuple[int, ...], family: str
) -> None:
    def leaf(*size: int) -> Tensor:
        return torch.randn(size, dtype=torch.float64).requires_grad_()

    def both(r: Tensor, loc: Tensor, raw: Tensor, logits: Tensor) -> tuple[Tensor, ...]:
        cost = independent(family, loc, raw.exp(), len(shape))
        event = OrderEvent(InfiniteCost(cost, logits) if infinite else cost, r)
        return *event.probabilities64(), *event.log_probs()

    # The revenue is shared by the rows, so that its gradient is a sum.
    inputs = leaf(shape[-1]), leaf(2, *shape), leaf(*shape), leaf(*shape[:-1])
    assert torch.autograd.gradcheck(both, inputs)
    assert torch.autograd.gradgradcheck(both, inputs)


@pytest.mark.parametrize(("dtype", "family", "shape"), CASES, ids=str)
def test_probability_has_all_digits_of_a_small_one(
    dtype: torch.dtype, family: str, shape: tuple[int, ...]
) -> None:
    revenue = hard_revenues(40, 1 if len(shape) == 1 else shape[0], shape[-1]).to(dtype)
    revenue[-2:] = math.inf
    revenue[-1, 0, 0] = -math.inf
    loc, scale = torch.zeros_like(revenue), torch.ones_like(revenue)
    got = order_event(family, loc, scale, revenue).probability64()
    assert got.dtype == torch.float64
    exact = exact_inputs(loc, scale, revenue)
    with mp.workdps(60):
        want = [mp.exp(event_log_probs(family, u)[1]) for u in exact]
    assert worst_error(got.tolist(), want, FLOOR[torch.float64]) <= 1e-11
