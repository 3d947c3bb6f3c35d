"""Continuous outcomes whose order event is hidden behind a Gaussian threshold."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from pyro_gcm.distributions.cost_posterior import ABOVE, BELOW, CostPosterior, truncated_sample
from pyro_gcm.distributions.families import cost_family
from pyro_gcm.distributions.numerics import normal_log_tails, probit
from pyro_gcm.distributions.order_event import OrderEvent


def threshold_mean(event: OrderEvent, threshold_loc: Tensor, spread: Tensor) -> Tensor:
    """mu_y = spread * Phi^-1(Pr(c < r)) + mu_t, in float64 (paper, appendix D.3)."""
    log_zero, log_one = event.log_probs64()
    return spread.double() * probit(log_one, log_zero) + threshold_loc.double()


class ThresholdNormal(TorchDistribution):
    """y ~ N(mu_y, scale^2) with Pr(y > t) = Pr(c < r) for an independent t ~ N(mu_t, sigma_t^2).

    The paper's response for continuous y (appendix D.3): the order event is 1{y > t}, and

        mu_y = sqrt(scale^2 + sigma_t^2) * Phi^-1(Pr(c < r)) + mu_t.

    With `cost` left out the costs are integrated out and y is Gaussian. With a draw of the costs
    the event is known, and y is Gaussian conditioned on the side of t on which it lies (an extended
    skew normal); averaged over the costs that is the same Gaussian again.

    :param event: `OrderEvent` of a cost distribution and a revenue tensor.
    :param threshold_loc: mu_t, in the units of y; broadcasts against the event's batch shape.
    :param threshold_scale: sigma_t > 0.
    :param scale: sigma_y > 0.
    :param cost: a draw of the costs, or None.
    """

    arg_constraints: dict[str, Any] = {}
    support = constraints.real

    def __init__(
        self,
        event: OrderEvent,
        threshold_loc: Tensor,
        threshold_scale: Tensor,
        scale: Tensor,
        *,
        cost: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.event = event
        self.threshold_loc, self.threshold_scale, self.scale = threshold_loc, threshold_scale, scale
        self.cost = cost
        batch_shape = torch.broadcast_shapes(
            event.batch_shape,
            threshold_loc.shape,
            threshold_scale.shape,
            scale.shape,
            () if cost is None else cost.shape[: cost.dim() - event.cost_event_dim],
        )
        super().__init__(batch_shape, torch.Size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> ThresholdNormal:
        """The same distribution with a larger batch shape."""
        batch_shape = torch.Size(batch_shape)
        return ThresholdNormal(
            self.event.expand(batch_shape),
            self.threshold_loc,
            self.threshold_scale,
            self.scale,
            cost=self.cost,
            validate_args=self._validate_args,
        )

    def given_cost(self, cost: Tensor) -> ThresholdNormal:
        """p(y | c): y on its side of the threshold."""
        return ThresholdNormal(
            self.event,
            self.threshold_loc,
            self.threshold_scale,
            self.scale,
            cost=cost,
            validate_args=self._validate_args,
        )

    def marginalize(self, cost: TorchDistribution) -> ThresholdNormal:
        """p(y) with the costs, whose distribution `event` holds, integrated out."""
        return ThresholdNormal(
            self.event.marginalize(cost),
            self.threshold_loc,
            self.threshold_scale,
            self.scale,
            validate_args=self._validate_args,
        )

    def cost_posterior(self, y: Tensor) -> CostPosterior:
        """p(c | y): the event has probability Phi((y - mu_t) / sigma_t) once y is known."""
        return CostPosterior(
            self.event,
            torch.special.ndtr(self._above_threshold(y)),
            log_outcome=normal_log_tails(y, self.threshold_loc, self.threshold_scale),
            validate_args=self._validate_args,
        )

    def _above_threshold(self, y: Tensor) -> Tensor:
        return (y.double() - self.threshold_loc.double()) / self.threshold_scale.double()

    def _spread(self) -> Tensor:
        return torch.hypot(self.scale.double(), self.threshold_scale.double())

    def _mean64(self) -> Tensor:
        return threshold_mean(self.event, self.threshold_loc, self._spread())

    def _occurred(self) -> Tensor:
        assert self.cost is not None
        return self.event.given_cost(self.cost).mean

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density at `value`, of the broadcast shape of `value` and `batch_shape`."""
        if self._validate_args:
            self._validate_sample(value)
        normal = dist.Normal(self._mean64(), self.scale.double(), validate_args=self._validate_args)
        log_p = normal.log_prob(value.double())
        if self.cost is not None:
            sign = 2.0 * self._occurred() - 1.0
            log_side = torch.special.log_ndtr(sign * self._above_threshold(value))
            log_p = log_p + log_side - self.event.log_prob(self._occurred()).double()
        return log_p.to(self.event.dtype)

    def cdf(self, value: Tensor) -> Tensor:
        """Pr(y <= value) with the costs integrated out, float64."""
        return torch.special.ndtr((value.double() - self._mean64()) / self.scale.double())

    @property
    def mean(self) -> Tensor:
        """mu_y, the mean with the costs integrated out."""
        return self._mean64().to(self.event.dtype).expand(self.batch_shape)

    @property
    def variance(self) -> Tensor:
        """scale^2, the variance with the costs integrated out."""
        return self.scale.square().expand(self.batch_shape)

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Draws of y, of shape `sample_shape + batch_shape`."""
        shape = self._extended_shape(sample_shape)
        mean = self._mean64().expand(shape)
        scale = self.scale.double()
        if self.cost is None:
            return torch.normal(mean, scale.expand(shape)).to(self.event.dtype)
        # y - t is Gaussian and, given the event, truncated at 0; y given y - t is Gaussian.
        gap = dist.Normal(mean - self.threshold_loc.double(), self._spread())
        family = cost_family(dist.Normal)
        zero = torch.zeros_like(mean)
        log_below, log_above = family.log_tails(gap, zero)
        sides = torch.where(self._occurred().expand(shape) > 0.5, ABOVE, BELOW)
        d = truncated_sample(family, gap, log_below, log_above, sides)
        share = (scale / self._spread()) ** 2
        noise = scale * self.threshold_scale.double() / self._spread()
        draw = torch.normal(mean + share * (d - gap.loc), noise.expand(shape))
        return draw.to(self.event.dtype)
