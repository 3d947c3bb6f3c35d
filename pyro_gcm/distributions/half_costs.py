"""Costs with a falling density from a lowest value on: what diminishing returns come from.

A cost is scale |e| - increment with a symmetric e, so that Pr(c < h) = 2 F((h + increment) / scale)
- 1 is concave in h wherever h >= 0. The increment, at least 0, keeps it above 0 at h = 0.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_gcm.distributions.base import Expandable
from pyro_gcm.distributions.families import register_cost_family
from pyro_gcm.distributions.numerics import LOG_2, ndtri_exp


class HalfCost(Expandable):
    """Base of the families: scale |e| - increment, for e of `whole` at loc 0 and scale 1.

    :param increment: at least 0, [...]; `scale`: above 0.
    """

    arg_constraints = {"increment": constraints.positive, "scale": constraints.positive}
    #: The symmetric distribution of e.
    whole: ClassVar[Any]

    def __init__(
        self, increment: Tensor, scale: Tensor, *, validate_args: bool | None = None
    ) -> None:
        self.increment, self.scale = torch.broadcast_tensors(increment, scale)
        super().__init__(self.increment.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From minus the increment on."""
        return constraints.greater_than_eq(-self.increment)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with a larger batch shape."""
        both = (value.expand(batch_shape) for value in (self.increment, self.scale))
        return type(self)(*both, validate_args=False)

    def _whole(self) -> Any:
        return self.whole(torch.zeros_like(self.scale), self.scale, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density at values [...], -inf below the support."""
        above = value + self.increment
        log_p = LOG_2 + self._whole().log_prob(above.clamp(min=0.0))
        return torch.where(above >= 0.0, log_p, -math.inf)

    @property
    def mean(self) -> Tensor:
        """The mean of |e| times scale, less the increment."""
        return self.scale * self.mean_of_one - self.increment

    #: The mean of |e|.
    mean_of_one: ClassVar[float]

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        drawn: Tensor = self._whole().sample(sample_shape)
        return drawn.abs() - self.increment

    # Of u >= 0, float64

    @staticmethod
    def log_cdf_of(u: Tensor) -> Tensor:
        """log Pr(|e| < u)."""
        raise NotImplementedError

    @staticmethod
    def log_survival_of(u: Tensor) -> Tensor:
        """log Pr(|e| >= u)."""
        raise NotImplementedError

    @staticmethod
    def quantile_of(log_p: Tensor, log_q: Tensor) -> Tensor:
        """The u of both."""
        raise NotImplementedError


class Exponential(HalfCost):
    """Costs whose e is Laplace: Pr(c < h) = 1 - exp(-u)."""

    whole, mean_of_one = dist.Laplace, 1.0

    @staticmethod
    def log_cdf_of(u: Tensor) -> Tensor:
        """log Pr(|e| < u)."""
        small = u < LOG_2
        low = (-torch.expm1(-u.clamp(max=LOG_2))).log()
        return torch.where(small, low, torch.log1p(-torch.exp(-u.clamp(min=LOG_2))))

    @staticmethod
    def log_survival_of(u: Tensor) -> Tensor:
        """log Pr(|e| >= u)."""
        return -u

    @staticmethod
    def quantile_of(log_p: Tensor, log_q: Tensor) -> Tensor:
        """The u of both."""
        return -log_q


class HalfLogistic(HalfCost):
    """Costs whose e is logistic: Pr(c < h) = tanh(u / 2)."""

    whole, mean_of_one = dist.Logistic, 2.0 * LOG_2

    @staticmethod
    def log_cdf_of(u: Tensor) -> Tensor:
        """log Pr(|e| < u)."""
        small = u < 1.0
        low = torch.tanh(0.5 * u.clamp(max=1.0)).log()
        tail = torch.exp(-u.clamp(min=1.0))
        return torch.where(small, low, torch.log1p(-2.0 * tail / (1.0 + tail)))

    @staticmethod
    def log_survival_of(u: Tensor) -> Tensor:
        """log Pr(|e| >= u)."""
        low = torch.log1p(-torch.tanh(0.5 * u.clamp(max=1.0)))
        return torch.where(u < 1.0, low, LOG_2 + logsigmoid(-u))

    @staticmethod
    def quantile_of(log_p: Tensor, log_q: Tensor) -> Tensor:
        """The u of both."""
        return torch.log1p(log_p.exp()) - log_q


class HalfNormal(HalfCost):
    """Costs whose e is normal: Pr(c < h) = erf(u / sqrt 2)."""

    whole, mean_of_one = dist.Normal, math.sqrt(2.0 / math.pi)

    @staticmethod
    def log_cdf_of(u: Tensor) -> Tensor:
        """log Pr(|e| < u)."""
        a = u * math.sqrt(0.5)
        low = torch.erf(a.clamp(max=0.5)).log()
        return torch.where(a < 0.5, low, torch.log1p(-torch.erfc(a.clamp(min=0.5))))

    @staticmethod
    def log_survival_of(u: Tensor) -> Tensor:
        """log Pr(|e| >= u)."""
        a = u * math.sqrt(0.5)
        low, far = a.clamp(max=0.5), a.clamp(min=0.5)
        high = torch.special.erfcx(far).log() - far * far
        return torch.where(a < 0.5, torch.log1p(-torch.erf(low)), high)

    @staticmethod
    def quantile_of(log_p: Tensor, log_q: Tensor) -> Tensor:
        """The u of both."""
        small = log_p < log_q
        low = math.sqrt(2.0) * torch.erfinv(torch.where(small, log_p, -1.0).exp())
        return torch.where(small, low, -ndtri_exp(torch.where(small, -1.0, log_q) - LOG_2))


#: The families by the symmetric ones whose halves they are.
HALVES: dict[Any, type[HalfCost]] = {
    half.whole: half for half in (Exponential, HalfLogistic, HalfNormal)
}


def _above(d: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    """u where it is above 0 and 1 elsewhere, and where that is."""
    u = (value.double() + d.increment.double()) / d.scale.double()
    inside = u > 0.0
    return torch.where(inside, u, 1.0), inside


def _log_cdf(d: Any, value: Tensor) -> Tensor:
    u, inside = _above(d, value)
    return torch.where(inside, d.log_cdf_of(u), -math.inf)


def _log_survival(d: Any, value: Tensor) -> Tensor:
    u, inside = _above(d, value)
    return torch.where(inside, d.log_survival_of(u), 0.0)


def _quantile(d: Any, log_p: Tensor, log_q: Tensor) -> Tensor:
    u: Tensor = d.scale.double() * d.quantile_of(log_p, log_q)
    return u - d.increment.double()


for _half in HALVES.values():
    register_cost_family(_half, _log_cdf, _log_survival, _quantile)
