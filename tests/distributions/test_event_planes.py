"""Order events coordinate by coordinate: precise, increasing, and the same at every place."""

from __future__ import annotations

import mpmath as mp
import pyro.distributions as dist
import pytest
import torch
from mpmath_reference import event_log_probs, normal_quantile, worst_error
from order_event_cases import event_shapes, families, hard_event, hard_revenues, order_event
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.event_planes import planes_of
from pyro_gcm.distributions.families import cost_family
from pyro_gcm.distributions.numerics import probit


@families
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 2)], ids=str)
def test_probit_has_all_digits_in_both_tails(family: str, shape: tuple[int, int]) -> None:
    revenue = hard_revenues(60, *shape).double()
    loc, scale = torch.zeros_like(revenue), torch.ones_like(revenue)
    got = planes_of(order_event(family, loc, scale, revenue)).probit64()
    want = []
    with mp.workdps(60):
        for row, start in zip(revenue.tolist(), got.tolist(), strict=True):
            units = [[mp.mpf(u) for u in alternative] for alternative in row]
            zero, one = event_log_probs(family, units)
            sign = 1.0 if one < zero else -1.0
            want.append(sign * normal_quantile(min(zero, one), sign * start))
    assert worst_error(got.tolist(), want, 1e-2) <= 1e-11


@families
@event_shapes
@pytest.mark.parametrize("infinite", [False, True])
def test_probit_is_that_of_the_logarithms(
    family: str, shape: tuple[int, ...], infinite: bool
) -> None:
    event, _ = hard_event(family, 400, shape, torch.float64, infinite)
    with torch.no_grad():
        zero, one = event.log_probs64()
        torch.testing.assert_close(
            planes_of(event).probit64(), probit(one, zero), rtol=1e-9, atol=1e-9
        )


@event_shapes
@pytest.mark.parametrize("centre", [0.0, 3.0, -36.0], ids=str)
def test_probit_never_falls_at_the_smallest_steps_of_a_revenue(
    centre: float, shape: tuple[int, ...]
) -> None:
    full = torch.Size((50_000, *shape))
    loc, scale = torch.randn(full).double(), torch.rand(full).double() + 0.5
    revenue = loc + scale * (centre + torch.randn(full))
    revenue = torch.round(revenue * 2.0**40) / 2.0**40
    higher = revenue + 2.0**-40 * torch.randint(3, full)
    cost = dist.Normal(loc, scale).to_event(len(shape))
    low, high = (planes_of(OrderEvent(cost, each)).probit64() for each in (revenue, higher))
    assert low.isfinite().all()
    assert (low <= high).all()
    assert (low < high).any()


def test_negative_zero_lies_on_the_location() -> None:
    cost = dist.Normal(torch.zeros(2), 1.0).to_event(1)
    below = OrderEvent(cost, torch.tensor([-0.0, torch.inf])).probability64()
    assert below.item() == 0.5


@families
def test_tails_do_not_depend_on_the_place_of_a_number(family: str) -> None:
    tails = cost_family(getattr(dist, family)).two_tails
    a = torch.cat([torch.linspace(0.0, 9.0, 301), 40.0 * torch.rand(200)]).double()
    wanted = tails(a.clone())
    assert wanted[0] == 1.0
    for count in (1, 2, 3, 7, 8, 9, 31, 33, 65):
        for start in range(0, 400, 37):
            part = slice(start, start + count)
            assert torch.equal(tails(a[part].clone()), wanted[part])


@event_shapes
def test_rows_and_coordinates_can_be_evaluated_alone(shape: tuple[int, ...]) -> None:
    loc, scale = torch.randn(5, 9, *shape), torch.rand(5, 9, *shape) + 0.5
    cost = InfiniteCost(dist.Normal(loc, scale).to_event(len(shape)), torch.randn(9, *shape[:-1]))
    event = OrderEvent(cost, torch.randn(9, *shape))
    whole, part = planes_of(event), planes_of(event, slice(2, 5))
    for read in (type(whole).probability64, type(whole).probit64):
        assert torch.equal(read(part), read(whole)[:, 2:5])


def test_no_argument_is_overwritten() -> None:
    loc, revenue = torch.zeros(4, 3, dtype=torch.float64), torch.ones(4, 3, dtype=torch.float64)
    kept: list[Tensor] = [loc.clone(), revenue.clone()]
    event = OrderEvent(dist.Normal(loc, 1.0).to_event(1), revenue)
    planes = planes_of(event)
    assert torch.equal(planes.probability64(), planes.probability64())
    assert torch.equal(planes.probit64(), planes.probit64())
    assert torch.equal(loc, kept[0])
    assert torch.equal(revenue, kept[1])
