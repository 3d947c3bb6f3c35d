"""Quantiles of a continuous outcome as an order event of the quantile level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro.distributions import AsymmetricLaplace, TorchDistribution
from torch import Tensor

from pyro_gcm._utils.tensors import broadcast_shapes
from pyro_gcm.distributions.event_planes import EventPlanes
from pyro_gcm.distributions.order_event import OrderEvent
from pyro_gcm.distributions.parameter_types import an_event, tensors
from pyro_gcm.distributions.threshold_normal import line_reader, threshold_mean

_SMALLEST_LEVEL = 1e-6


class ThresholdQuantile(AsymmetricLaplace):
    """An outcome whose log-density is minus the pinball loss at a monotone quantile curve.

        log p(y) = -rho_level((y - mu) / scale) + const,   rho_r(d) = r d_+ + (1 - r) (-d)_+,
        mu = spread * Phi^-1(Pr(c < h(level))) + mu_t

    (paper, section 4.1 for the loss and appendix D.3 for mu). The quantile is a functional of the
    distribution of the costs, and y is independent of a draw of them: `given_cost` and
    `marginalize` return the distribution as it is, and p(c | y) = p(c).

    :param event: `OrderEvent` of a cost distribution and the mapped quantile level.
    :param threshold_loc: mu_t, in the units of y.
    :param spread: factor of the probit, > 0.
    :param level: quantile level in (0, 1), shape `batch_shape`.
    :param scale: the unit of the pinball loss, > 0.
    :raises ValueError: for a spread or a level outside of its range.
    """

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
        an_event(event)
        tensors(threshold_loc=threshold_loc, spread=spread, level=level, scale=scale)
        if self._validate_args if validate_args is None else validate_args:
            if not (spread > 0).all():
                raise ValueError(f"spread must be positive, got values from {spread.min():g}")
            if not ((level >= 0) & (level <= 1)).all():
                raise ValueError("level must lie in [0, 1]")
        self.event, self.threshold_loc, self.spread = event, threshold_loc, spread
        dtype = torch.promote_types(event.dtype, threshold_loc.dtype)
        shape = broadcast_shapes(event.batch_shape, threshold_loc.shape, spread.shape)
        level = level.clamp(_SMALLEST_LEVEL, 1.0 - _SMALLEST_LEVEL)
        # The scale of AsymmetricLaplace is width / odds above mu and width * odds below.
        odds = (level / (1.0 - level)).sqrt()
        width = scale / (level * (1.0 - level)).sqrt()
        like = threshold_loc.to(dtype).expand(shape)
        super().__init__(like, width, odds, validate_args=validate_args)
        self._mean: Tensor | None = None  # predictions do not need it

    @property
    def loc(self) -> Tensor:
        """mu, the quantile."""
        if self._mean is None:
            mean = threshold_mean(self.event, self.threshold_loc, self.spread)
            dtype = torch.promote_types(self.event.dtype, self.threshold_loc.dtype)
            self._mean = mean.to(dtype).expand(self.batch_shape)
        return self._mean

    @loc.setter
    def loc(self, value: Tensor) -> None:
        self._mean = value

    def expand(self, batch_shape: Any, _instance: Any = None) -> ThresholdQuantile:
        """The same distribution with a larger batch shape."""
        new = self._get_checked_instance(ThresholdQuantile, _instance)
        for name in ("event", "threshold_loc", "spread"):
            setattr(new, name, getattr(self, name))
        return super().expand(batch_shape, _instance=new)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density at `value`, of the broadcast shape of `value` and `batch_shape`."""
        log_p: Tensor = super().log_prob(value.double())  # the same for y of every type
        return log_p.to(self.event.dtype)

    def prediction64(self) -> Tensor:
        """What a prediction averages: the quantile mu, which rises with the level."""
        return threshold_mean(self.event, self.threshold_loc, self.spread)

    def plane_reader(self, rows: slice) -> Callable[[EventPlanes], Tensor]:
        """`prediction64` of some rows as a function of the event in planes."""
        return line_reader(self.threshold_loc, self.spread, rows)

    def given_cost(self, cost: Tensor) -> ThresholdQuantile:
        """The same distribution, because y depends on the costs' distribution only."""
        return self

    def marginalize(self, cost: TorchDistribution) -> ThresholdQuantile:
        """The same distribution."""
        return self

    def cost_posterior(self, y: Tensor) -> TorchDistribution:
        """p(c | y) = p(c)."""
        if self._validate_args:
            self._validate_sample(y)
        assert not isinstance(self.event.cost, Tensor)
        return self.event.cost.expand(broadcast_shapes(self.batch_shape, y.shape))
