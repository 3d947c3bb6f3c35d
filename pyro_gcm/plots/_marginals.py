"""One coordinate of p(c | x): its density, distribution function and range."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from pyro_gcm._utils.bisection import smallest_reaching
from pyro_gcm.distributions import InfiniteCost, cost_family
from pyro_gcm.distributions.costs import finite_part
from pyro_gcm.distributions.families import base_distribution, tail_log_probs
from pyro_gcm.distributions.joint import LatentMixture


class Marginal:
    """The distribution of one cost of one row, a mixture over N draws of z.

    :param mixture: p(c | x) with batch shape [1].
    :param index: index of the cost in the event shape, (k,) or (g, k).
    """

    def __init__(self, mixture: LatentMixture, index: tuple[int, ...]) -> None:
        self.component, self._alternative = mixture.component, index[0]
        self._flat = int(np.ravel_multi_index(index, mixture.event_shape))
        self.weights = mixture.log_weights[:, 0].double().exp()  # [N]
        units = (v.double().expand(mixture.event_shape) for v in (mixture.loc, mixture.scale))
        self.loc, self.scale = (unit.reshape(-1)[self._flat] for unit in units)
        self._finite_part = finite_part(self.component)
        self._base = base_distribution(self._finite_part)
        self._quantile = cost_family(type(self._base)).quantile

    @property
    def finite(self) -> Tensor:
        """Pr(c < inf | z), [N]."""
        if not isinstance(self.component, InfiniteCost):
            return torch.ones_like(self.weights)
        finite = torch.sigmoid(-self.component.logits[:, 0].double())  # [N] or [N, G]
        return finite if finite.dim() == 1 else finite[:, self._alternative]

    def density(self, points: Tensor) -> Tensor:
        """p(c | z, c < inf) at points [P], [P, N]."""
        value = self._expanded(points)
        inside = self._base.support.check(value)
        # Outside the support, where log_prob raises an error, it is evaluated at the median.
        half = torch.full_like(value, -math.log(2.0))
        value = torch.where(inside, value, self._quantile(self._base, half, half))
        density = torch.where(inside, self._base.log_prob(value).exp(), 0.0)
        return self._selected(density) / self.scale

    def below(self, points: Tensor) -> Tensor:
        """Pr(c < point | z, c < inf) at points [P], [P, N]."""
        log_below, _ = tail_log_probs(self._finite_part, self._expanded(points))
        return self._selected(log_below.exp())

    def range(self, tail: float) -> tuple[float, ...]:
        """The quantiles `tail` and 1 - `tail` of the cost given that it is finite."""
        weights = self.weights * self.finite
        weights = weights / weights.sum()

        def cdf(points: Tensor) -> Tensor:
            return self.below(points) @ weights

        start = self.loc[None], self.scale[None]
        return tuple(float(smallest_reaching(cdf, p, *start)) for p in (tail, 1.0 - tail))

    def _expanded(self, points: Tensor) -> Tensor:
        """Points [P] in the units of the components, for all draws and costs, [P, N, 1, (G,) K]."""
        shape = *self.component.batch_shape, *self.component.event_shape
        points = (points.double() - self.loc) / self.scale
        return points.reshape(-1, *(1,) * len(shape)).expand(-1, *shape)

    def _selected(self, values: Tensor) -> Tensor:
        """Values [P, N] of this cost, from [P, N, 1, (G,) K]."""
        return values.double().flatten(2)[..., self._flat]
