"""An order event that is also answered with 1 by chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro.distributions import constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_gcm.distributions.base import Enumerable, EventOutcome, tensors
from pyro_gcm.distributions.cost_posterior import CostPosterior
from pyro_gcm.distributions.event_planes import ALL, EventPlanes, of_rows
from pyro_gcm.distributions.order_event import OrderEvent


class GuessedEvent(Enumerable, EventOutcome):
    """y = 1 if an order event occurs, and otherwise still with the guess rate g = sigmoid(logits).

    Pr(y = 1) = g + (1 - g) Pr(c < r): the lower end of a psychometric function, whose upper end an
    `InfiniteCost` sets: with both it is g + (1 - g) (1 - p0) F, so that the lapse rate of the field
    is (1 - g) p0 (Wichmann and Hill 2001).

    :param event: `OrderEvent` of a cost distribution and a revenue tensor, or of two tensors.
    :param logits: log-odds of the guess rate, broadcasting against the event's batch shape.
    """

    arg_constraints = {"logits": constraints.real}
    support = constraints.boolean

    def __init__(
        self, event: OrderEvent, logits: Tensor, *, validate_args: bool | None = None
    ) -> None:
        tensors(logits=logits)
        self.logits = logits
        super().__init__(event, validate_args=validate_args)

    def given_cost(self, cost: Tensor) -> GuessedEvent:
        """1 where the costs stay below the revenue, else a guess."""
        return self._of(self.event.given_cost(cost))

    def prediction64(self) -> Tensor:
        """Return Pr(y = 1), which predictions average; it rises with the event's probability."""
        return self.probability64()

    def plane_reader(self, rows: slice) -> Callable[[EventPlanes | OrderEvent], Tensor]:
        """`prediction64` of some rows as a function of the event in planes."""
        guessed = of_rows(torch.sigmoid(self.logits.double()), rows)
        return lambda event: guessed + (1.0 - guessed) * event.probability64()

    def log_prob(self, value: Tensor) -> Tensor:
        """log Pr(y = value), of the broadcast shape of `value` and `batch_shape`."""
        self._check(value)
        log_zero, log_one = self.event.log_probs64()
        logits = self.logits.double()
        happened = torch.logaddexp(logsigmoid(logits), logsigmoid(-logits) + log_one)
        log_p = torch.where(value > 0.5, happened, logsigmoid(-logits) + log_zero)
        return log_p.to(self.event.dtype)

    def probability64(self) -> Tensor:
        """Pr(y = 1), float64, without gradients; it rises with the probability of the event."""
        return self.plane_reader(ALL)(self.event)

    @property
    def mean(self) -> Tensor:
        """Pr(y = 1)."""
        guessed = torch.sigmoid(self.logits.double())
        return (guessed + (1.0 - guessed) * self.event.mean.double()).to(self.event.dtype)

    @property
    def variance(self) -> Tensor:
        """Pr(y = 1) Pr(y = 0)."""
        return self.mean * (1.0 - self.mean)

    def cost_posterior(self, y: Tensor) -> CostPosterior:
        """p(c | y), exact: given y = 1 the event occurred with the odds of Pr(c < r) to guesses."""
        self._check(y)
        log_zero, log_one = self.event.log_probs64()
        log_guess = logsigmoid(self.logits.double())
        log_y = torch.logaddexp(log_guess, logsigmoid(-self.logits.double()) + log_one)
        # Given y = 0 there was neither.
        seen = y > 0.5
        log_event = torch.where(seen, log_one - log_y, -torch.inf)
        log_missed = torch.where(seen, log_guess + log_zero - log_y, 0.0)
        outcome = log_event.exp().clamp(max=1.0)
        logs, validate = (log_event, log_missed), self._validate_args
        return CostPosterior(self.event, outcome, log_outcome=logs, validate_args=validate)

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Draws of y as 0.0 or 1.0, of shape `sample_shape + batch_shape`."""
        return torch.bernoulli(self.mean.expand(self._extended_shape(sample_shape)))
