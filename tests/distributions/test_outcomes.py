"""Outcomes of an order event: their costs, and batches without rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pyro
import pytest
import torch
from convention_cases import CASES, Shape, event, line

from pyro_gcm.distributions.curve_outcome import AxisUnits
from pyro_gcm.distributions.event_time import EventTime

#: Outcomes whose costs can be told from them.
OUTCOMES = [name for name in CASES if re.match("event|threshold|level|along", name)]
OUTCOMES.remove("event of a random revenue")


def event_time(batch: Shape) -> EventTime:
    return EventTime(event(batch), line, AxisUnits(torch.log, torch.exp, lambda t: -t.log()))


@pytest.mark.parametrize("make", [event_time, *(CASES[case] for case in OUTCOMES)])
def test_outcomes_whose_costs_are_asked_for_are_checked(make: Callable[[Shape], Any]) -> None:
    with pyro.validation_enabled():
        d = make((2,))
        with pytest.raises(ValueError, match=r"value argument|outcome must lie"):
            d.cost_posterior(torch.full(d.shape(), math.nan).double())
        drawn = d.cost_posterior(d.sample())
        with pytest.raises(ValueError, match="value argument"):
            drawn.log_prob(torch.full(drawn.shape(), math.nan).double())


@pytest.mark.parametrize("make", [event_time, *(CASES[case] for case in OUTCOMES)])
def test_no_rows_have_no_densities(make: Callable[[Shape], Any]) -> None:
    with pyro.validation_enabled(False):
        d = make((3, 0))
        assert d.log_prob(d.sample((4,))).shape == (4, 3, 0)
