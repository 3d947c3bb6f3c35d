"""Sites that all rows share, such as the effects of groups, and their guide."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor, nn
from torch.distributions import biject_to

from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm.inference.reading import of
from pyro_gcm.nets.networks import positive

#: Spread of the guide of a site that all rows share, at the start.
_SCALE = 0.1
_Independent = type(constraints.independent(constraints.real, 0))


def sites_of(model: Any) -> dict[str, SharedSite]:
    """The sites that all rows share, whose guide gets its parameters."""
    sites = {}

    def line(name: str, p: Any) -> Tensor:
        folded = len((p := of(p)).batch_shape)
        p = p.to_event(folded)
        sites[name] = SharedSite(name, p.event_shape, p.support, folded)
        sites[name].add_parameters(model.shared_guide, model.base_samples.samples)
        return p.sample()

    with torch.no_grad(), Randomness(0, model.device).in_use():
        model.shared(line)
    return sites


class SharedSite(NamedTuple):
    """A site that all rows share, such as the effects of groups, in a model's `shared`.

    :param support: of its distribution.
    :param folded: dimensions of the batch that its line has, which are one event here.
    """

    name: str
    event_shape: torch.Size
    support: Any
    folded: int = 0

    @property
    def is_binary(self) -> bool:
        """Whether all of its values are 0 or 1."""
        support = self.support
        while isinstance(support, _Independent):
            support = support.base_constraint
        return isinstance(support, type(constraints.boolean))

    @property
    def free_shape(self) -> torch.Size:
        """The shape of what is mapped to the support."""
        if self.support.is_discrete:
            return self.event_shape
        shape: torch.Size = biject_to(self.support).inverse_shape(self.event_shape)
        return shape

    def add_parameters(self, into: nn.ParameterDict, like: Tensor) -> None:
        """Location and spread of its guide, if they are not there yet."""
        parts = (
            ("loc",) if self.is_binary else () if self.support.is_discrete else ("loc", "spread")
        )
        for part in parts:
            if f"{self.name}_{part}" not in into:
                into[f"{self.name}_{part}"] = nn.Parameter(like.new_zeros(self.free_shape))

    def guide(self, parameters: nn.ParameterDict) -> Any:
        """Independent normals, mapped to the support; independent probabilities of what is 1."""
        if self.support.is_discrete and not self.is_binary:
            raise ValueError(
                f"site '{self.name}', which all rows share, is discrete and not binary: override "
                "guide_shared, or give it the probabilities of its values as a site"
            )
        loc = parameters[f"{self.name}_loc"]
        if self.is_binary:
            return StraightThroughBernoulli(logits=loc).to_event(loc.dim())
        normal = dist.Normal(loc, positive(parameters[f"{self.name}_spread"], _SCALE))
        normal, transform = normal.to_event(loc.dim()), biject_to(self.support)
        plain = getattr(transform, "base_transform", transform)
        if isinstance(plain, dist.transforms.ComposeTransform) and not plain.parts:
            return normal  # on the whole line
        return dist.TransformedDistribution(normal, [transform])


class StraightThroughBernoulli(dist.Bernoulli):
    """Zeros and ones whose gradient is that of a relaxed draw (Bengio et al. 2013).

    It is biased: with one draw a step there is no better one of so small a variance.
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Draws [*sample_shape, *batch_shape], of a relaxed Bernoulli at temperature 1 / 2."""
        u = torch.rand(self._extended_shape(sample_shape), device=self.logits.device)
        return self._hard(u.to(self.logits).clamp(1e-6, 1.0 - 1e-6))

    def icdf(self, u: Tensor) -> Tensor:
        """The draw that a uniform number stands for."""
        return self._hard(u)

    def _hard(self, u: Tensor) -> Tensor:
        soft = torch.sigmoid(2.0 * (self.logits + u.logit()))
        return (soft > 0.5).to(soft) + soft - soft.detach()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same with another batch shape."""
        return StraightThroughBernoulli(logits=self.logits.expand(batch_shape))
