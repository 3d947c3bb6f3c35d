"""A distribution that is computed only when it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor


class LazyDistribution(TorchDistribution):
    """The distribution that `build()` returns, built at each draw and at each density.

    A program names the sites x and r whether or not they are trained. If `inference.conditional`
    hides them, the networks behind them never run. `expand` is that of Pyro and builds nothing.

    :param build: function without arguments that returns the distribution.
    :param batch_shape: its batch shape, or one to which it expands.
    :param event_shape: its event shape.
    :param dtype: of its densities, which are then computed in float64, so that they are the same
        for a value of every type; by default their own, which depends on that of the value.
    """

    arg_constraints: dict[str, Any] = {}
    has_rsample = True  # plates read it, and must not build the distribution for that

    def __init__(
        self,
        build: Callable[[], TorchDistribution],
        batch_shape: torch.Size,
        event_shape: torch.Size,
        dtype: torch.dtype | None = None,
    ) -> None:
        self._build, self._dtype = build, dtype
        super().__init__(torch.Size(batch_shape), torch.Size(event_shape), validate_args=False)

    @property
    def built(self) -> TorchDistribution:
        """The distribution itself, expanded to this batch shape."""
        return self._build().expand(self.batch_shape)

    @constraints.dependent_property
    def support(self) -> Any:
        """Support of the distribution itself."""
        return self.built.support

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density at `value`, of shape `sample_shape + batch_shape`."""
        log_p: Tensor = self.built.log_prob(value if self._dtype is None else value.double())
        return log_p.to(self._dtype)

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`.

        They are reparametrised if the distribution has reparametrised draws.
        """
        built = self.built
        rsample = built.rsample if built.has_rsample else built.sample
        draw: Tensor = rsample(torch.Size(sample_shape))
        return draw
