"""What a change of the data leaves as it was, or changes in a known way, for models of every kind.

Weights are those of a seed, and units are learned from the rows, so that a model of changed rows is
the same function of standardised ones. Members, responses and directions are as in the zoo.
"""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm.data import SurvivalTimes
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.responses import Binary, Continuous, Ordinal, Several

#: Of float64: columns are 40 to 1,000 of their spreads from 0, and standardised before all else.
MARGIN: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-8}
#: One kind for each response, prior and map, and IGCM.
KINDS = (
    *("plain", "continuous", "quantile", "count, zeros", "survival, cured", "ordinal"),
    *("distribution", "alternatives", "flow prior", "categorical prior", "implicit", "joint"),
    *("splines and logistic costs", "members", "members, classes", "members, continuous"),
)


def model_of(kind: str, data: zoo.Rows, **options: Any) -> Any:
    """An untrained model that has learned the units of rows."""
    model = zoo.build(kind, **options)
    model.learn_units(*data)
    model.objective = zoo.KINDS[kind].objective or model.default_objective
    return model


def answers(model: Any, data: zoo.Rows) -> tuple[Tensor, Tensor]:
    """Predictions and log p(y | x, r) of rows."""
    with torch.no_grad():
        return model.predict(data.x, data.r), model.log_prob(*data)


def assert_same(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **MARGIN)


@pytest.mark.parametrize("kind", KINDS)
def test_units_of_columns_and_the_order_of_rows_are_immaterial(kind: str) -> None:
    data = zoo.rows_of(kind)
    wanted = answers(model_of(kind, data), data)
    scaled = data._replace(x=1000.0 + 0.3 * data.x)
    if kind != "quantile":  # whose levels have no unit
        scaled = scaled._replace(r=0.02 * data.r - 5.0)
    own = model_of(kind, scaled)
    assert_same(answers(own, scaled), wanted)
    order = torch.randperm(len(data.x))
    mixed = scaled.map(lambda column: column[order])
    assert_same(answers(model_of(kind, mixed), mixed), [part[order] for part in wanted])
    # Of one model a row has the same bits wherever it stands.
    for one, other in zip(answers(own, mixed), answers(own, scaled), strict=True):
        assert torch.equal(one, other[order])


@pytest.mark.parametrize(
    "kind",
    ["continuous", "quantile", "distribution", "members, continuous", "implicit, continuous"],
)
def test_money_may_be_counted_in_another_currency(kind: str) -> None:
    data, rate = zoo.rows_of(kind), 0.03
    predicted, log_p = answers(model_of(kind, data), data)
    other = data._replace(y=rate * data.y + 12.0)
    found = answers(model_of(kind, other), other)
    assert_same(found, (rate * predicted + 12.0, log_p - math.log(rate)))


@pytest.mark.parametrize("kind", ["survival", "survival, cured", "survival, members"])
def test_time_may_be_counted_in_months(kind: str) -> None:
    data = zoo.rows_of(kind)
    late = SurvivalTimes(data.y.lower, data.y.upper, 0.5 * data.y.lower)
    months = SurvivalTimes(12.0 * late.lower, 12.0 * late.upper, 12.0 * late.entry)
    data, other = data._replace(y=late), data._replace(y=months)
    years, twelfths = model_of(kind, data), model_of(kind, other)
    # A density is one in each month; a probability is the same.
    predicted, log_p = answers(years, data)
    wanted = torch.where(late.is_exact, log_p - math.log(12.0), log_p)
    assert_same(answers(twelfths, other), (predicted, wanted))
    quantiles = [m.predictive(data.x, data.r).quantile([0.1, 0.5]) for m in (years, twelfths)]
    torch.testing.assert_close(12.0 * quantiles[0], quantiles[1], rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("kind", ["count", "count, zeros", "count, members"])
def test_half_the_rate_over_twice_the_exposure_gives_the_same_counts(kind: str) -> None:
    data = zoo.rows_of(kind)
    longer = data._replace(y=data.y * torch.tensor([1.0, 2.0]).double())
    one, other = model_of(kind, data), model_of(kind, longer)
    predicted, log_p = answers(one, data)
    assert_same(answers(other, longer), (0.5 * predicted, log_p))


@pytest.mark.parametrize("kind", [kind for kind in zoo.KINDS if "members" in kind])
def test_members_that_are_there_twice_change_nothing(kind: str) -> None:
    data = zoo.rows_of(kind)
    three, six = model_of(kind, data), model_of(kind, data, members=6)
    state, twice = three.state_dict(), six.state_dict()
    for name, values in twice.items():
        known = state[name]
        for dim, (few, many) in enumerate(zip(known.shape, values.shape, strict=True)):
            if few != many:  # a member each, or the columns of z before others
                own, rest = known.split([3, few - 3], dim)
                known = torch.cat([own.repeat_interleave(2, dim), rest], dim)
        twice[name] = known
    six.load_state_dict(twice)
    assert_same(answers(six, data), answers(three, data))


def test_a_column_may_be_negated_with_its_direction() -> None:
    x, r, y = zoo.rows("binary")
    level = zoo.rows("ordinal").y
    flip = torch.tensor([1.0, -1.0]).double()
    found = []
    for signs, own in (([1, -1], r), ([1, 1], flip * r)):

        def response(signs: Any = signs) -> Several:
            parts = {"a": Binary(), "b": Continuous(3, 4), "c": Ordinal(levels=4)}
            return Several(parts, dict.fromkeys(parts, signs))

        model = zoo.make(response=response)
        outcomes = {"a": y, "b": 70.0 + r[:, 0], "c": level}
        model.learn_units(x, own, outcomes)
        with torch.no_grad():
            each = [model.response_model(name).predict(x, own) for name in outcomes]
            found.append([*each, model.log_prob(x, own, outcomes)])
    assert_same(*found)


@pytest.mark.parametrize("family", [dist.Normal, dist.Logistic, dist.Laplace])
def test_event_and_no_event_change_places_with_all_and_any(family: Any) -> None:
    """No cost of several is below its revenue: all of minus them are below minus the revenues."""
    loc, scale = torch.randn(50, 3).double(), torch.rand(50, 3).double() + 0.2
    r, y = 3.0 * torch.randn(50, 3).double(), (torch.arange(50) % 2).double()
    costs = family(loc.unsqueeze(-1), scale.unsqueeze(-1)).to_event(2)
    any_of = OrderEvent(costs, r.unsqueeze(-1))
    all_of = OrderEvent(family(-loc, scale).to_event(1), -r)
    assert_same([any_of.log_prob(y), any_of.mean], [all_of.log_prob(1.0 - y), 1.0 - all_of.mean])
