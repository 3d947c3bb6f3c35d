"""One distribution of every public class and kind, for the tests of conventions."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor

from pyro_gcm.distributions import (
    AlongAxis,
    EventCount,
    EventTime,
    GuessedEvent,
    InfiniteCost,
    LatentMixture,
    OrderedLevel,
    OrderEvent,
    ThresholdNormal,
    ThresholdQuantile,
)
from pyro_gcm.distributions.several_outcomes import SeveralOutcomes
from pyro_gcm.nets import ConditionalFlow, DiagNormalMixture

Shape = tuple[int, ...]
#: Of all parameters.
OPTIONS: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}


def real(*shape: int) -> Tensor:
    return torch.randn(shape, **OPTIONS)


def positive(*shape: int) -> Tensor:
    return 0.5 + torch.rand(shape, **OPTIONS)


def uniform(*shape: int) -> Tensor:
    return torch.rand(shape, **OPTIONS)


def outcome(*shape: int) -> Tensor:
    return torch.bernoulli(torch.full(shape, 0.5, **OPTIONS))


def cost(batch: Shape, event: Shape = (3,), infinite: bool = False) -> Any:
    plain = dist.Normal(real(*batch, *event), positive(*batch, *event)).to_event(len(event))
    return InfiniteCost(plain, real(*batch, *event[:-1])) if infinite else plain


def event(batch: Shape, shape: Shape = (3,), infinite: bool = False) -> OrderEvent:
    return OrderEvent(cost(batch, shape, infinite), real(*batch, *shape) + 1.0)


def laplace_event(batch: Shape) -> OrderEvent:
    laplace: Any = dist.Laplace(real(*batch, 3), positive(*batch, 3))
    return OrderEvent(laplace.to_event(1), real(*batch, 3))


def random_revenue(batch: Shape, infinite: bool = False) -> OrderEvent:
    return OrderEvent(cost(batch, infinite=infinite), cost(batch))


def posterior(batch: Shape, shape: Shape = (3,), infinite: bool = False) -> Any:
    return event(batch, shape, infinite).cost_posterior(outcome(*batch))


def threshold_normal(batch: Shape) -> ThresholdNormal:
    return ThresholdNormal(event(batch), real(*batch), positive(*batch), positive(*batch))


def threshold_quantile(batch: Shape) -> ThresholdQuantile:
    level = 0.4 * positive(*batch)
    return ThresholdQuantile(event(batch), real(*batch), positive(*batch), level, positive(*batch))


def line(position: Tensor) -> tuple[Tensor, Tensor]:
    shift = 1.5 * position.unsqueeze(-1).expand(*position.shape, 3)
    return shift, torch.full_like(shift, 1.5)


def minus_log(values: Tensor) -> Tensor:
    return -values.log()


def along_axis(batch: Shape) -> AlongAxis:
    units = {"position": torch.neg, "value": torch.neg, "log_slope": torch.zeros_like}
    return AlongAxis(event(batch), line, SimpleNamespace(**units))


def ordered_level(batch: Shape) -> OrderedLevel:
    return OrderedLevel(event(batch), torch.tensor([[0.0], [-0.7], [-1.5]], **OPTIONS))


def event_time(batch: Shape) -> EventTime:
    units = {"position": torch.log, "value": torch.exp, "log_slope": minus_log}
    return EventTime(event(batch, infinite=True), line, SimpleNamespace(**units))


def event_count(batch: Shape, infinite: bool = False) -> EventCount:
    return EventCount(event(batch, infinite=infinite), real(*batch), positive(*batch), positive())


def given_outcome(batch: Shape, build: Callable[[Shape], Any] = ordered_level) -> Any:
    """The costs given an outcome that they had; of times some are censored."""
    d = build(batch)
    y = d.sample()
    if isinstance(d, EventTime):
        lower, kind = y[..., 0], torch.arange(y[..., 0].numel()).reshape(batch) % 3
        lower = torch.where(kind == 1, 0.5 * lower, lower)
        upper = torch.where(kind == 2, math.inf, torch.maximum(lower, y[..., 1]))
        y = torch.stack([lower, upper, torch.zeros_like(lower)], -1)
    return d.cost_posterior(y)


def several(batch: Shape) -> SeveralOutcomes:
    logits = real(*batch)
    outcomes = [copy.copy, partial(GuessedEvent, logits=logits)]
    return SeveralOutcomes(event(batch), outcomes, (2, 1), (1, 1))


def mixture(batch: Shape, shape: Shape = (3,), infinite: bool = False) -> LatentMixture:
    component = cost((5, *batch), shape, infinite)
    weights = real(5, *batch).log_softmax(0)
    return LatentMixture(component, real(shape[-1]), positive(shape[-1]), weights)


def mixture_of_normals(batch: Shape) -> DiagNormalMixture:
    return DiagNormalMixture(real(*batch, 4, 3), positive(*batch, 4, 3), real(*batch, 4))


CASES: dict[str, Callable[[Shape], Any]] = {
    "certain event": lambda b: OrderEvent(real(*b, 2), real(*b, 2) + 1.0),
    "event": event,
    "event of alternatives": partial(event, shape=(2, 3)),
    "event of infinite costs": partial(event, infinite=True),
    "event of a random revenue": random_revenue,
    "event, one cost for all": lambda b: OrderEvent(cost(()), real(*b, 3) + 1.0),
    "cost posterior": posterior,
    "cost posterior, one outcome for all": lambda b: event(b).cost_posterior(outcome()),
    "cost posterior, one event for all": lambda b: event(b[1:]).cost_posterior(outcome(*b)),
    "cost posterior, uncertain outcome": lambda b: event(b).cost_posterior(uniform(*b)),
    "cost posterior, Laplace": lambda b: laplace_event(b).cost_posterior(outcome(*b)),
    "cost posterior, alternatives": partial(posterior, shape=(2, 3), infinite=True),
    "revenue posterior": lambda b: random_revenue(b).revenue_posterior(outcome(*b)),
    "revenue posterior, one event for all": (
        lambda b: random_revenue(b[1:]).revenue_posterior(outcome(*b))
    ),
    "revenue posterior, infinite costs": (
        lambda b: random_revenue(b, infinite=True).revenue_posterior(outcome(*b))
    ),
    "threshold normal": threshold_normal,
    "threshold normal, given cost": lambda b: threshold_normal(b).given_cost(real(*b, 3)),
    "threshold normal, one curve for all": (
        lambda b: ThresholdNormal(event(b), real(), positive(), positive(), equal_weights=True)
    ),
    "threshold normal, one event for all": (
        lambda b: ThresholdNormal(event(()), real(*b), positive(*b), positive(*b))
    ),
    "threshold normal, given one cost for all": (
        lambda b: ThresholdNormal(event(b), real(), positive(), positive()).given_cost(real(3))
    ),
    "threshold quantile": threshold_quantile,
    "threshold quantile, one curve for all": (
        lambda b: ThresholdQuantile(event(b), real(), positive(), 0.4 * positive(), positive())
    ),
    "event or a guess": lambda b: GuessedEvent(event(b), real(*b)),
    "event or a guess, alternatives": lambda b: GuessedEvent(event(b, (2, 3)), real()),
    "level": ordered_level,
    "along an axis": along_axis,
    "time": event_time,
    "time, pooled over draws": lambda b: event_time(b).over_draws(),
    "count": event_count,
    "count, infinite costs": partial(event_count, infinite=True),
    "costs given counts": partial(given_outcome, build=partial(event_count, infinite=True)),
    "several outcomes": several,
    "costs of several outcomes": partial(given_outcome, build=several),
    "costs given a level": given_outcome,
    "costs given a value": partial(given_outcome, build=along_axis),
    "costs given times": partial(given_outcome, build=event_time),
    "costs given y": partial(given_outcome, build=threshold_normal),
    "latent mixture": mixture,
    "latent mixture, equal weights": lambda b: LatentMixture(cost((5, *b)), real(), positive()),
    "latent mixture, alternatives": partial(mixture, shape=(2, 3)),
    "latent mixture, infinite costs": partial(mixture, infinite=True),
    "infinite cost": partial(cost, infinite=True),
    "infinite cost, one logit for all": lambda b: InfiniteCost(cost(b), real()),
    "infinite cost, one cost for all": lambda b: InfiniteCost(cost(b[1:]), real(*b)),
    "infinite cost, alternatives": partial(cost, event=(2, 3), infinite=True),
    "mixture of normals": mixture_of_normals,
    "flow": lambda b: ConditionalFlow(2, 3).to(**OPTIONS)(real(*b, 2)),
}
