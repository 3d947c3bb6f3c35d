"""A distribution whose parameters are computed when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor


class Deferred(TorchDistribution):
    """The distribution `build()`, built on the first draw or density.

    The sites x and r of a program stand in it whether or not they are trained. When
    `inference.conditional` hides them, their networks are never run.

    :param build: function without arguments that returns the distribution.
    :param batch_shape: its batch shape.
    :param event_shape: its event shape.
    """

    arg_constraints: dict[str, Any] = {}
    has_rsample = True

    def __init__(
        self,
        build: Callable[[], TorchDistribution],
        batch_shape: torch.Size,
        event_shape: torch.Size,
    ) -> None:
        self._build = build
        super().__init__(torch.Size(batch_shape), torch.Size(event_shape), validate_args=False)

    @property
    def built(self) -> TorchDistribution:
        """The distribution itself, expanded to this batch shape."""
        return self._build().expand(self.batch_shape)

    @property
    def support(self) -> Any:
        """Support of the distribution itself."""
        return self.built.support

    def expand(self, batch_shape: Any, _instance: Any = None) -> Deferred:
        """The same distribution with a larger batch shape, still not built."""
        return Deferred(self._build, torch.Size(batch_shape), self.event_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density at `value`."""
        log_p: Tensor = self.built.log_prob(value)
        return log_p

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Reparametrised draws, or plain ones where the distribution has no others."""
        built = self.built
        draw: Tensor = (built.rsample if built.has_rsample else built.sample)(
            torch.Size(sample_shape)
        )
        return draw
