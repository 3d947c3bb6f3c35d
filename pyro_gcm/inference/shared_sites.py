"""Sites that all rows share, such as the effects of groups, and their guide."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyro.distributions as dist
import torch
from torch import Tensor, nn
from torch.distributions import biject_to

from pyro_gcm.nets.conditional import positive

_SCALE = 0.1  # at the start


class SharedSite(NamedTuple):
    """A site of a model's `shared`.

    :param support: of its distribution.
    """

    name: str
    event_shape: torch.Size
    support: Any

    @property
    def latent(self) -> Any:
        """What predictions need to know of it (`prediction.predicted.Latent`)."""
        return self.event_shape.numel(), self.event_shape

    def add_parameters(self, into: nn.ParameterDict, like: Tensor) -> None:
        """Location and spread of its guide, if they are not there yet."""
        for part in ("loc", "spread"):
            if f"{self.name}_{part}" not in into:
                into[f"{self.name}_{part}"] = nn.Parameter(like.new_zeros(self.event_shape))

    def guide(self, parameters: nn.ParameterDict) -> Any:
        """Independent normals, mapped to the support."""
        loc, spread = (parameters[f"{self.name}_{part}"] for part in ("loc", "spread"))
        transform = biject_to(self.support)
        normal = dist.Normal(loc, positive(spread, _SCALE))
        if self.support.is_discrete:
            raise ValueError(f"site '{self.name}' is discrete: override guide_shared")
        if not _is_identity(transform):
            normal = dist.TransformedDistribution(normal, [_elementwise(transform)])
        return normal.to_event(len(self.event_shape))


def _elementwise(transform: Any) -> Any:
    """The transform of one coordinate, of a support of independent ones."""
    base: Any = getattr(transform, "base_transform", transform)
    return base


def _is_identity(transform: Any) -> bool:
    base = _elementwise(transform)
    return isinstance(base, torch.distributions.ComposeTransform) and not base.parts
