"""Counts of events over an exposure, at a rate that rises with the order event."""

from __future__ import annotations

import copy
import math

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import EventOutcome
from pyro_gcm.distributions.costs import InfiniteCost, finite_part
from pyro_gcm.distributions.order_event import OrderEvent
from pyro_gcm.distributions.products import coarse, on_grid

#: Size of the logarithm of a rate, at most, so that means and their products are numbers.
_FARTHEST = 600.0


def log_count_prob(count: Tensor, log_mean: Tensor, dispersion: Tensor | None) -> Tensor:
    """log Pr(N = count) of a negative binomial count with variance mean + dispersion * mean^2.

    :param count, log_mean: float64, of any shapes that broadcast.
    :param dispersion: 1e-4 or more, below which digits are lost; None for a Poisson count.
    """
    log_ways = -torch.lgamma(count + 1.0)
    if dispersion is None:
        return log_ways + count * log_mean - log_mean.exp()
    shape, log_odds = dispersion.reciprocal(), dispersion.log() + log_mean
    log_ways = log_ways + torch.lgamma(count + shape) - torch.lgamma(shape)
    # log(1 + odds) as a sum of exponentials, which keeps the digits of small odds.
    log_total = torch.logaddexp(torch.zeros_like(log_odds), log_odds)
    return log_ways + count * log_odds - (count + shape) * log_total


class EventCount(EventOutcome):
    """The number N of events within an exposure e, as the pair (N, e) with a known e.

    Events come at a rate that rises with every revenue, and N >= k exactly if the k-th of them
    comes within e, so that the exposure is one more revenue::

        log rate = loc + spread * Phi^-1(Pr(c < r))
        N ~ Poisson(e * rate * g),    g ~ Gamma(1 / dispersion, 1 / dispersion) or 1

    N is then a negative binomial count with variance mean + dispersion * mean^2. It is
    stochastically ordered in the revenues and in e, as Pr(N >= k) rises with both. Where costs may
    be infinite (`InfiniteCost`) no event ever comes with that probability: zeros are inflated. The
    rate is a function of the distribution of the costs, as the quantile of `ThresholdQuantile`, so
    that of a draw of them only that it is infinite tells anything of N.

    :param event: `OrderEvent` of a cost distribution [K] and a revenue tensor; without alternatives
        where costs may be infinite.
    :param loc: log of the rate where the event has probability 1/2, [...], in 1 / unit of e.
    :param spread: factor of the probit, > 0.
    :param dispersion: variance of g, > 0; None for a Poisson count.
    """

    arg_constraints = {"loc": constraints.real, "spread": constraints.positive}
    support = constraints.independent(constraints.nonnegative, 1)
    computed = ("dispersion",)
    #: Of draws, and of `cdf`; values of `log_prob` have their own.
    exposure: Tensor | float = 1.0

    def __init__(
        self,
        event: OrderEvent,
        loc: Tensor,
        spread: Tensor,
        dispersion: Tensor | None = None,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.spread, self.is_mixed = loc, spread, dispersion is not None
        self.dispersion = torch.zeros_like(loc) if dispersion is None else dispersion.double()
        super().__init__(event, (2,), validate_args=validate_args)

    def _depend_on(self, event: OrderEvent, cost: Tensor | None) -> torch.Size:
        #: The event of finite costs, and the log-odds of others or None.
        self.finite, self.logits = event.given_finite(), event.logits
        return super()._depend_on(event, cost)

    def over(self, exposure: Tensor) -> EventCount:
        """The same over another exposure, [...]."""
        new = copy.copy(self)
        new.exposure = exposure.double()
        return new

    def log_rate64(self) -> Tensor:
        """The logarithm of the rate where events come, float64, with gradients."""
        log_rate = self.finite.probit64() * self.spread.double() + self.loc.double()
        return log_rate.clamp(-_FARTHEST, _FARTHEST)

    def _rising_rate64(self) -> Tensor:
        """The rate where events come, in steps that rise with every revenue.

        Its logarithm is on a grid whose steps are larger than what `exp` errs by.
        """
        log_rate = self.finite.rising_probit64() * self.spread.double() + self.loc.double()
        return on_grid(log_rate.clamp(-_FARTHEST, _FARTHEST)).exp()

    def prediction64(self) -> Tensor:
        """The mean number of events in a unit of exposure, in steps that rise with revenues."""
        rate = self._rising_rate64()
        return rate if self.logits is None else rate * torch.sigmoid(-self.logits.double())

    def expected(self) -> Tensor:
        """The mean number of events in a unit of exposure, [...], with gradients."""
        rate = self.log_rate64().exp()
        if self.logits is not None:
            rate = rate * torch.sigmoid(-self.logits.double())
        return rate.to(self.dtype).expand(self.batch_shape)

    def _log_prob_if_any(self, count: Tensor, exposure: Tensor) -> Tensor:
        log_mean = self.log_rate64() + exposure.log()
        return log_count_prob(count, log_mean, self.dispersion if self.is_mixed else None)

    def _never(self) -> Tensor | None:
        """Whether the costs are infinite, [...], where they are known."""
        return None if self.cost is None else self.cost.isinf().any(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """log Pr(N = n) for values (n, e), [..., 2], of the broadcast shape of [...]."""
        self._check(value)
        count, exposure = value.double().unbind(-1)
        log_p = self._log_prob_if_any(count, exposure)
        if self.logits is not None:
            never, log_zero = self._never(), torch.where(count == 0.0, 0.0, -math.inf)
            if never is not None:
                log_p = torch.where(never, log_zero, log_p)
            else:
                logits = self.logits.double()
                log_p = logsigmoid(-logits) + log_p
                both = torch.logaddexp(logsigmoid(logits), log_p)
                log_p = torch.where(count == 0.0, both, log_p)
        return self._wide(log_p.to(self.dtype))

    @torch.no_grad()
    def cdf(self, count: Tensor) -> Tensor:
        """Pr(N <= count) over `exposure`, [...], float64, with the costs integrated out.

        It falls in revenues and exposure but for rounding, 1e-15 at most.
        """
        from scipy import special

        at = count.double().floor()
        mean = coarse(self._rising_rate64() * self.exposure)
        n, m, d = torch.broadcast_tensors(at.clamp(min=0.0), mean, self.dispersion)
        n, m, d = (part.cpu().numpy() for part in (n, m, d))
        if self.is_mixed:
            found = special.betainc(1.0 / d, n + 1.0, 1.0 / (1.0 + d * m))
        else:  # torch's errs by 2e-10
            found = special.gammaincc(n + 1.0, m)
        below = torch.as_tensor(found, device=mean.device)
        if self.logits is not None:
            never = torch.sigmoid(self.logits.double())
            below = never + (1.0 - never) * below
        return below.masked_fill(at < 0.0, 0.0)

    def cost_posterior(self, y: Tensor) -> TorchDistribution:
        """p(c | y): of costs only that they are infinite depends on y, and then it is 0."""
        self._check(y)
        count, exposure = y.double().unbind(-1)
        cost = self.event.cost.expand(broadcast_shapes(self.batch_shape, count.shape))
        if self.logits is None:
            return cost
        log_none = self._log_prob_if_any(torch.zeros_like(count), exposure)
        logits = torch.where(count > 0.0, -math.inf, self.logits.double() - log_none)
        logits = logits.to(self.dtype)
        return InfiniteCost(finite_part(cost), logits, validate_args=self._validate_args)

    @torch.no_grad()
    def draw_rate(self, cost: Tensor, y: Tensor | None = None) -> Tensor:
        """Draws of rate * g, [...], given y = (n, e) where it is given; 0 for infinite costs.

        From Gamma(a, b) with a = 1 / dispersion and b = a / rate, or Gamma(a + n, b + e).

        :param cost: draws of the costs, given y where it is given, [..., K].
        """
        rate = self.log_rate64().exp().expand(cost.shape[: -self.event.cost_event_dim])
        if self.is_mixed:
            shape, inverse = self.dispersion.reciprocal(), (self.dispersion * rate).reciprocal()
            if y is not None:
                count, exposure = y.double().unbind(-1)
                shape, inverse = shape + count, inverse + exposure
            gamma = torch._standard_gamma(shape.expand(rate.shape).contiguous())
            rate = gamma / inverse
        return rate if self.logits is None else rate.masked_fill(cost.isinf().any(-1), 0.0)

    def rate_given(self, y: Tensor) -> Tensor:
        """The mean of rate * g given y = (n, e), [...], with the costs integrated out, float64."""
        count, exposure = y.double().unbind(-1)
        rate = self.log_rate64().exp()
        if self.is_mixed:
            rate = (1.0 + self.dispersion * count) / (self.dispersion * exposure + 1.0 / rate)
        if self.logits is None:
            return rate
        log_none = self._log_prob_if_any(torch.zeros_like(count), exposure)
        some = torch.where(count > 0.0, 1.0, torch.sigmoid(log_none - self.logits.double()))
        return some * rate

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of (N, e), of shape `sample_shape + batch_shape + (2,)`."""
        cost = self.cost
        if cost is None:
            cost = self.event.cost.expand(self.batch_shape).sample(sample_shape)
        shape = sample_shape + self.batch_shape + self.event.cost_shape
        mean = self.draw_rate(cost.expand(shape)) * self.exposure
        count = torch.poisson(mean)
        exposure = torch.as_tensor(self.exposure, dtype=count.dtype, device=count.device)
        return torch.stack([count, exposure.expand(count.shape)], -1)
