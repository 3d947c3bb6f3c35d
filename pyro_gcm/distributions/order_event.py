"""The order event y = 1{c < r} on {0, 1}, one that also happens by chance, and several at once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_gcm._utils.torch_state import in_transform
from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import Enumerable, EventOutcome
from pyro_gcm.distributions.costs import InfiniteCost
from pyro_gcm.distributions.event_forms import EventForms
from pyro_gcm.distributions.event_products import SMALLEST_SINGLE, log_probability
from pyro_gcm.distributions.posteriors import CostPosterior, RevenuePosterior
from pyro_gcm.distributions.standard_families import LOGISTIC


class BinaryOutcome(Enumerable):
    """Base of outcomes that are 1 with a probability that rises with every revenue."""

    support = constraints.boolean

    def log_prob64(self, value: Tensor) -> Tensor:
        """log Pr(y = value) in float64."""
        raise NotImplementedError

    def probabilities64(self) -> tuple[Tensor, Tensor]:
        """Pr(y = 0) and Pr(y = 1) in float64."""
        raise NotImplementedError

    def log_prob(self, value: Tensor) -> Tensor:
        """log Pr(y = value), of the broadcast shape of `value` and `batch_shape`."""
        self._check(value)
        return self.log_prob64(value).to(self.dtype)

    @property
    def mean(self) -> Tensor:
        """Pr(y = 1)."""
        return self.probabilities64()[1].to(self.dtype)

    @property
    def variance(self) -> Tensor:
        """Pr(y = 1) Pr(y = 0)."""
        zero, one = self.probabilities64()
        return (zero * one).to(self.dtype)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of y as 0.0 or 1.0, of shape `sample_shape + batch_shape`."""
        return torch.bernoulli(self.mean.expand(self._extended_shape(sample_shape)))


class OrderEvent(EventForms, BinaryOutcome):
    """Whether a revenue vector exceeds a cost vector in the product order.

    With costs `c` of event shape `[K]` the outcome is `y = 1` if `c_k < r_k` for every k, and with
    costs of event shape `[G, K]` (alternatives) if that holds for at least one of the G rows::

        c ~ Normal(loc, scale).to_event(1)            # [B], event [K]
        y ~ OrderEvent(c, r)                          # the event itself
        y ~ OrderEvent(Normal(loc, scale).to_event(1), r)     # its probability, c integrated out

    `cost` and `revenue` are each a tensor or a distribution with independent coordinates. If both
    are tensors the outcome is certain. If one is a distribution of a registered cost family, the
    probability has a closed form. Two distributions are possible in one case: the Gaussian costs
    of one alternative and a Gaussian revenue, whose difference is Gaussian again. An infinite
    revenue is allowed and gets gradient 0. An `InfiniteCost` bounds Pr(y = 1) away from 1 for
    every revenue. Log-probabilities keep full relative precision in both tails; they are computed
    in float64 and returned in the dtype of the arguments. They go through the transforms of
    `torch.func`, for which `vmap` needs validation to be off, as for torch's own distributions.

    Source: paper, equation (py_on_zr) in appendix D.2, for one alternative; the minimum inside a
    maximum of Sill (1997) for several.

    :param cost: tensor `[..., K]` or `[..., G, K]`, or a distribution with that event shape, or
        what a story's site gave (`base.Left`).
    :param revenue: tensor or distribution that broadcasts against it.
    :param cost_event_dim: 1 for `[K]`, 2 for `[G, K]`. A distribution determines it; for two
        tensors it is 1 by default.
    :raises ValueError: for a random revenue without a closed form, and for too few or too many
        dimensions.
    :raises TypeError: for a cost family that is not registered, such as a distribution whose
        coordinates are not independent.
    """

    def log_prob_for_loss(self, value: Tensor) -> Tensor:
        """`log_prob` for a training, of logistic costs in float32 where all parameters are.

        The error of the logarithm is a few ulp of float32 times the largest standardised revenue,
        and relative where it is not 0; where a product nears its smallest number it is `log_prob`.
        """
        single = self.standard is LOGISTIC and not in_transform() and torch.is_grad_enabled()
        steepness = getattr(self.base_dist, "steepness", None)  # of members
        parameters = self._parameters(torch.float32, steepness) if single else ()
        if any(p.dtype != torch.float32 for p in parameters[4:] if p is not None) or not single:
            return self.log_prob(value)
        self._check(value)
        log_p, p = log_probability(value, *parameters)
        if (p < SMALLEST_SINGLE).any():
            return self.log_prob(value)
        return log_p.expand(broadcast_shapes(value.shape, self.batch_shape))

    def given_cost(self, cost: Tensor) -> OrderEvent:
        """The event itself, for a draw of the costs."""
        return self.replaced(cost, self.revenue)

    def given_revenue(self, revenue: Tensor) -> OrderEvent:
        """The event for a draw of a random revenue."""
        return self.replaced(self.cost, revenue)

    def marginalize(
        self, cost: TorchDistribution, revenue: TorchDistribution | None = None
    ) -> OrderEvent:
        """The event with its costs integrated out.

        :param cost: the distribution of the costs.
        :param revenue: the distribution of the revenue, if it is integrated out as well.
        """
        return self.replaced(cost, self.revenue if revenue is None else revenue)

    def replaced(self, cost: Any, revenue: Any) -> OrderEvent:
        """The event of these arguments; the values of tensors are not checked again."""
        new = OrderEvent(cost, revenue, cost_event_dim=self.cost_event_dim, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def difference(self) -> OrderEvent:
        """The same event as c - r < 0, for a random revenue; infinite costs stay infinite."""
        difference = self.base_dist.to_event(1)
        if self.logits is not None:
            difference = InfiniteCost(difference, self.logits)
        return OrderEvent(difference, self.point)

    def log_probs(self) -> tuple[Tensor, Tensor]:
        """log Pr(y = 0) and log Pr(y = 1), each of shape `batch_shape`."""
        log_zero, log_one = self.log_probs64()
        return log_zero.to(self.dtype), log_one.to(self.dtype)

    def cost_posterior(self, y: Tensor) -> CostPosterior:
        """p(c | y), exact; the event must have a random cost and a known revenue."""
        return CostPosterior(self, y, validate_args=self._validate_args)

    def revenue_posterior(self, y: Tensor) -> RevenuePosterior:
        """p(r | y), exact, for a random cost and a random revenue."""
        return RevenuePosterior(self, y, validate_args=self._validate_args)


class GuessedEvent(BinaryOutcome, EventOutcome):
    """y = 1 if an order event occurs, and otherwise still with the guess rate g = sigmoid(logits).

    Pr(y = 1) = g + (1 - g) Pr(c < r): the lower end of a psychometric function, whose upper end an
    `InfiniteCost` sets: with both it is g + (1 - g) (1 - p0) F, so that the lapse rate of the field
    is (1 - g) p0 (Wichmann and Hill 2001).

    :param event: `OrderEvent` of a cost distribution and a revenue tensor, or of two tensors.
    :param logits: log-odds of the guess rate, broadcasting against the event's batch shape.
    """

    arg_constraints = {"logits": constraints.real}
    computed = ("guessed64",)

    def __init__(
        self, event: OrderEvent, logits: Tensor, *, validate_args: bool | None = None
    ) -> None:
        self.logits = logits
        super().__init__(event, validate_args=validate_args)

    def given_cost(self, cost: Tensor) -> GuessedEvent:
        """1 where the costs stay below the revenue, else a guess."""
        return self._of(self.event.given_cost(cost))

    def log_prob64(self, value: Tensor) -> Tensor:
        """log Pr(y = value) in float64."""
        log_zero, log_one = self.event.log_probs64()
        logits = self.logits.double()
        happened = torch.logaddexp(logsigmoid(logits), logsigmoid(-logits) + log_one)
        return torch.where(value > 0.5, happened, logsigmoid(-logits) + log_zero)

    def prediction64(self) -> Tensor:
        """Pr(y = 1), float64, without gradients; it rises with the probability of the event."""
        return self.guessed64 + (1.0 - self.guessed64) * self.event.probability64()

    @cached_property
    def guessed64(self) -> Tensor:
        """The guess rate."""
        return torch.sigmoid(self.logits.double())

    def probabilities64(self) -> tuple[Tensor, Tensor]:
        """Pr(y = 0) and Pr(y = 1) in float64, with gradients."""
        zero, one = self.event.probabilities64()
        return (1.0 - self.guessed64) * zero, self.guessed64 + (1.0 - self.guessed64) * one

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


def integrates_over(cost: Any, revenue: Any) -> bool:
    """Whether `OrderEvent(cost, revenue)` has a closed form for this random revenue.

    It is E_k of the paper's section 3.4, and it exists for Gaussian costs of one alternative and a
    Gaussian revenue with independent coordinates. It does not for a revenue that is shared by
    several alternatives or correlated, nor for a transformed Gaussian.
    """
    try:
        OrderEvent(cost, revenue)
    except (TypeError, ValueError):
        return False
    return True
