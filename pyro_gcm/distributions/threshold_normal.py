"""Continuous outcomes, and quantiles of them, whose order event is behind a Gaussian threshold."""

from __future__ import annotations

from functools import cached_property

import pyro.distributions as dist
import torch
from pyro.distributions import AsymmetricLaplace, TorchDistribution, constraints
from torch import Tensor

from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import EventOutcome
from pyro_gcm.distributions.numerics import ndtr, normal_log_tails
from pyro_gcm.distributions.order_event import OrderEvent
from pyro_gcm.distributions.posteriors import (
    LOWER_TRUNCATED,
    UPPER_TRUNCATED,
    CostPosterior,
    truncated_sample,
)

_SMALLEST_LEVEL = 1e-6


class ThresholdNormal(EventOutcome):
    """y ~ N(mu_y, scale^2) with Pr(y > t) = Pr(c < r) for an independent t ~ N(mu_t, sigma_t^2).

    The paper's response for continuous y (appendix D.3): the order event is 1{y > t}, and

        mu_y = sqrt(scale^2 + sigma_t^2) * Phi^-1(Pr(c < r)) + mu_t.

    With the costs integrated out y is Gaussian. Given a draw of them (`given_cost`) the event is
    known, and y is that Gaussian conditioned on its side of t, an extended skew normal
    (Azzalini and Capitanio 2014); its average over the costs is the Gaussian again.

    :param event: `OrderEvent` of a cost distribution and a revenue tensor.
    :param threshold_loc: mu_t, in the units of y; broadcasts against the event's batch shape.
    :param threshold_scale: sigma_t > 0.
    :param scale: sigma_y > 0.
    :param equal_weights: whether in the gradient of `log_prob`, with the costs integrated out, the
        mean of every row counts the same, as in least squares, and not with 1 / scale^2, as the
        likelihood has it (the beta-NLL of Seitzer et al. 2022 with beta = 1). The value stays the
        log-density.
    """

    arg_constraints = {
        "threshold_loc": constraints.real,
        "threshold_scale": constraints.positive,
        "scale": constraints.positive,
    }
    support = constraints.real
    computed = ("spread64",)

    def __init__(
        self,
        event: OrderEvent,
        threshold_loc: Tensor,
        threshold_scale: Tensor,
        scale: Tensor,
        *,
        equal_weights: bool = False,
        validate_args: bool | None = None,
    ) -> None:
        self.threshold_loc, self.threshold_scale, self.scale = threshold_loc, threshold_scale, scale
        self.equal_weights = equal_weights
        super().__init__(event, validate_args=validate_args)

    def prediction64(self) -> Tensor:
        """What a prediction averages: mu_y, in steps that rise with every revenue."""
        return self.event.rising_probit64() * self.spread64 + self.threshold_loc.double()

    def _mean64(self) -> Tensor:
        """mu_y, the mean with the costs integrated out, with gradients (paper, appendix D.3)."""
        return self.event.probit64() * self.spread64 + self.threshold_loc.double()

    def cost_posterior(self, y: Tensor) -> CostPosterior:
        """p(c | y): the event has probability Phi((y - mu_t) / sigma_t) once y is known."""
        loc, scale = self.threshold_loc, self.threshold_scale
        outcome = ndtr((y.double() - loc.double()) / scale.double())
        logs, validate = normal_log_tails(y, loc, scale), self._validate_args
        return CostPosterior(self.event, outcome, log_outcome=logs, validate_args=validate)

    @property
    def _dtype(self) -> torch.dtype:
        """The dtype of y, whose units may need more digits than the event."""
        return torch.promote_types(self.event.dtype, self.threshold_loc.dtype)

    @cached_property
    def spread64(self) -> Tensor:
        """The scale of y and of the threshold together."""
        return torch.hypot(self.scale.double(), self.threshold_scale.double())

    def _occurred(self) -> Tensor:
        assert self.cost is not None
        return self.event.given_cost(self.cost).mean

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density at `value`, of the broadcast shape of `value` and `batch_shape`."""
        self._check(value)
        mean, scale = self._mean64(), self.scale.double()
        if self.equal_weights and self.cost is None and mean.requires_grad:
            weight = scale.detach().square()
            known = mean.detach()
            mean = known + (mean - known) * (weight / weight.mean())
        normal = dist.Normal(mean, scale, validate_args=self._validate_args)
        log_p = normal.log_prob(value.double())
        if self.cost is not None:
            occurred = self._occurred()
            sides = normal_log_tails(value, self.threshold_loc, self.threshold_scale)
            log_side = torch.where(occurred > 0.5, *sides)
            log_p = log_p + log_side - self.event.log_prob(occurred).double()
        return log_p.to(self.event.dtype)

    def _check_no_cost(self) -> None:
        if self.cost is not None:
            raise NotImplementedError("given the costs y has a density and draws alone")

    def cdf(self, value: Tensor) -> Tensor:
        """Pr(y <= value) with the costs integrated out, in float64."""
        self._check_no_cost()
        return ndtr((value.double() - self.prediction64()) / self.scale.double())

    @property
    def mean(self) -> Tensor:
        """Mean of y with the costs integrated out, mu_y."""
        self._check_no_cost()
        return self._mean64().to(self._dtype).expand(self.batch_shape)

    @property
    def variance(self) -> Tensor:
        """Variance of y with the costs integrated out, scale^2."""
        self._check_no_cost()
        return self.scale.square().expand(self.batch_shape)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of y, of shape `sample_shape + batch_shape`."""
        shape = self._extended_shape(sample_shape)
        mean = self._mean64().expand(shape)
        scale = self.scale.double()
        if self.cost is None:
            return torch.normal(mean, scale.expand(shape)).to(self._dtype)
        # y - t is Gaussian and, given the event, truncated at 0; y given y - t is Gaussian.
        gap = dist.Normal(mean - self.threshold_loc.double(), self.spread64)
        log_below, log_above = normal_log_tails(torch.zeros_like(mean), gap.loc, gap.scale)
        sides = torch.where(self._occurred().expand(shape) > 0.5, LOWER_TRUNCATED, UPPER_TRUNCATED)
        d = truncated_sample(gap, log_below, log_above, sides)
        share = (scale / self.spread64) ** 2
        noise = scale * self.threshold_scale.double() / self.spread64
        draw = torch.normal(mean + share * (d - gap.loc), noise.expand(shape))
        return draw.to(self._dtype)


class ThresholdQuantile(EventOutcome):
    """An outcome whose log-density is minus the pinball loss at a monotone quantile curve.

        log p(y) = -rho_level((y - mu) / scale) + const,   rho_r(d) = r d_+ + (1 - r) (-d)_+,
        mu = spread * Phi^-1(Pr(c < h(level))) + mu_t

    (paper, section 4.1 for the loss and appendix D.3 for mu): an asymmetric Laplace density. The
    quantile is a functional of the distribution of the costs, and y is independent of a draw of
    them: `given_cost` and `marginalize` return the distribution as it is, and p(c | y) = p(c).

    :param event: `OrderEvent` of a cost distribution and the mapped quantile level.
    :param threshold_loc: mu_t, in the units of y.
    :param spread: factor of the probit, > 0.
    :param level: quantile level in (0, 1), shape `batch_shape`.
    :param scale: the unit of the pinball loss, > 0.
    :raises ValueError: for a spread or a level outside of its range.
    """

    arg_constraints = {
        "threshold_loc": constraints.real,
        "spread": constraints.positive,
        "level": constraints.unit_interval,
        "scale": constraints.positive,
    }
    support = constraints.real

    def __init__(
        self,
        event: OrderEvent,
        threshold_loc: Tensor,
        spread: Tensor,
        level: Tensor,
        scale: Tensor,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.threshold_loc, self.spread = threshold_loc, spread
        self.level, self.scale = level, scale
        super().__init__(event, validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """mu, the quantile."""
        dtype = torch.promote_types(self.event.dtype, self.threshold_loc.dtype)
        mean = self.event.probit64() * self.spread.double() + self.threshold_loc.double()
        return mean.to(dtype).expand(self.batch_shape)

    def prediction64(self) -> Tensor:
        """Return the quantile mu, which predictions average and which rises with the level."""
        return self.event.rising_probit64() * self.spread.double() + self.threshold_loc.double()

    @property
    def laplace(self) -> AsymmetricLaplace:
        """The density of y, with scale width / odds above mu and width * odds below."""
        level = self.level.clamp(_SMALLEST_LEVEL, 1.0 - _SMALLEST_LEVEL)
        odds = (level / (1.0 - level)).sqrt()
        width = self.scale / (level * (1.0 - level)).sqrt()
        return AsymmetricLaplace(self.loc, width, odds, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density at `value`, of the broadcast shape of `value` and `batch_shape`."""
        self._check(value)
        log_p = self.laplace.log_prob(value.double())  # the same for y of every type
        return self._wide(log_p.to(self.event.dtype))

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of y, of shape `sample_shape + batch_shape`."""
        return self.laplace.expand(self.batch_shape).sample(sample_shape)

    def given_cost(self, cost: Tensor) -> ThresholdQuantile:
        """The same distribution, because y depends on the costs' distribution only."""
        return self

    def marginalize(self, cost: TorchDistribution) -> ThresholdQuantile:
        """The same distribution."""
        return self

    def cost_posterior(self, y: Tensor) -> TorchDistribution:
        """p(c | y) = p(c)."""
        self._check(y)
        return self.event.cost.expand(broadcast_shapes(self.batch_shape, y.shape))
