"""Parameters that are no tensors, distributions or events are refused by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from convention_cases import cost, event, line, random_revenue, real

from pyro_gcm.distributions import (
    AlongAxis,
    CostPosterior,
    GuessedEvent,
    InfiniteCost,
    LatentMixture,
    ObservedCost,
    OrderedLevel,
    PartlyKnown,
    RevenuePosterior,
    ThresholdNormal,
    ThresholdQuantile,
)
from pyro_gcm.distributions.curve_outcome import AxisUnits
from pyro_gcm.distributions.event_time import EventTime

ONE = torch.ones(3, dtype=torch.float64)
UNITS = AxisUnits(torch.log, torch.exp, torch.log)
with warnings.catch_warnings():  # of prototypes
    warnings.simplefilter("ignore")
    NESTED = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])
MADE: dict[type, Callable[[], dict[str, Any]]] = {
    AlongAxis: lambda: {"event": event((3,)), "axis": line, "units": UNITS},
    CostPosterior: lambda: {"event": event((3,)), "outcome": ONE},
    EventTime: lambda: {"event": event((3,)), "axis": line, "units": UNITS},
    GuessedEvent: lambda: {"event": event((3,)), "logits": ONE},
    InfiniteCost: lambda: {"cost": cost((3,)), "logits": ONE},
    LatentMixture: lambda: {"component": cost((5, 3)), "loc": ONE, "scale": ONE},
    ObservedCost: lambda: {"cost": cost((3,)), "loc": 0.0, "scale": 1.0},
    OrderedLevel: lambda: {"event": event((3,)), "shifts": real(2, 1)},
    PartlyKnown: lambda: {"base_dist": dist.Normal(ONE, 1.0), "known": ONE},
    RevenuePosterior: lambda: {"event": random_revenue((3,)), "outcome": ONE},
    ThresholdNormal: lambda: {
        "event": event((3,)),
        **dict.fromkeys(("threshold_loc", "threshold_scale", "scale"), ONE),
    },
    ThresholdQuantile: lambda: {
        "event": event((3,)),
        **dict.fromkeys(("threshold_loc", "spread", "scale"), ONE),
        "level": 0.5 * ONE,
    },
}


@pytest.mark.parametrize("kind", MADE)
def test_parameters_of_a_wrong_type_are_named(kind: type) -> None:
    parameters = MADE[kind]()
    kind(**parameters)
    for name in parameters.keys() - {"axis", "units"}:
        for wrong in ("0.5", None, [1.0, "a"]):
            with pytest.raises(TypeError, match=f"{name} must be "):
                kind(**{**parameters, name: wrong})


def test_values_and_parameters_that_are_not_dense_are_named() -> None:
    mixture = LatentMixture(cost((5, 3)), ONE, ONE)
    for ask, name in (
        (lambda: GuessedEvent(event((3,)), NESTED), "logits"),
        (lambda: mixture.log_prob(NESTED), "value"),
        (lambda: mixture.cdf("0.5"), "value"),
        (lambda: event((3,)).cost_posterior([1.0]), "y"),
    ):
        with pytest.raises(TypeError, match=f"{name} must be "):
            ask()
