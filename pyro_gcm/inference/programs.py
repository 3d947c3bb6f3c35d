"""A story as a Pyro program and its guide: the rows' plate, and the sites that all rows share."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn
from torch.distributions import biject_to

from pyro_gcm.distributions.event_sides import Left
from pyro_gcm.inference.reading import Plan, Reached, Reader, of
from pyro_gcm.nets.conditional import positive

#: Spread of the guide of a site that all rows share, at the start.
_SCALE = 0.1


class Programmed(Reader):
    """Every line is a `pyro.sample`, for Pyro's handlers to make of it what they do.

    :param exact: plan whose sites have another distribution where x and r are inputs, which
        `inference.given_inputs` asks for.
    """

    def __init__(self, model: Any, plan: Plan, exact: Plan, x: Any, r: Any) -> None:
        super().__init__(model, plan, x, r)
        self.given_inputs = exact.exact

    def share(self, name: str, p: Any) -> Tensor:
        """A draw outside of the plate."""
        return pyro.sample(name, of(p))

    def latent(self, name: str, p: Any) -> Tensor:
        """A draw; a finite site is summed out by the bounds that do so."""
        fn = of(p)
        infer: Any = {"enumerate": "parallel"} if fn.has_enumerate_support else {}
        if name in self.given_inputs:
            infer["given_inputs"] = lambda: self.given_inputs[name](self)
        return pyro.sample(name, fn, infer=infer)

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """An observed site; an input is one whose density is masked out."""
        fn = of(p)
        infer: Any = {"_deterministic": True} if isinstance(fn, dist.MaskedDistribution) else {}
        return pyro.sample(name, fn, obs=value, infer=infer)

    def leave(self, name: str, p: Any) -> Left:
        """A cost: its distribution beside its draw, or alone where a handler hands it back."""
        left = super().leave(name, p)
        value = pyro.sample(name, left.fn)
        return value if isinstance(value, Left) else Left(name, left.fn, value)

    def outcome(self, p: Any, obs: Any) -> Any:
        """The outcome."""
        fn = self.model.response.site_distribution(of(p), separate=self.plan.averages)
        return pyro.sample("y", fn, obs=obs)

    def deterministic(self, name: str, value: Any) -> Tensor:
        """A deterministic site."""
        return pyro.deterministic(name, super().deterministic(name, value), event_dim=1)


class Guided(Reader):
    """A guide: the sites of the guide's story, then latent ones that it leaves out from their own.

    A site with a finite support is summed out, so that the guide has none, unless each of its
    values is trained on a likelihood of its own.
    """

    def share_guided(self, name: str, q: Any) -> Tensor:
        """One line of the guide of the sites that all rows share."""
        value: Tensor = pyro.sample(name, of(q))
        self.known_shared[name] = value
        return value

    def run(self, x: Tensor, r: Tensor, y: Tensor | None, sites: Any) -> Any:
        """Both.

        :param sites: names of the latent sites of the story.
        :returns: the value of the first site.
        """
        self.x, self.r = x, r
        self.model.guide_story(self.guided, x, r, y)
        self.open = set(sites) - set(self.values)
        if self.open:
            with suppress(Reached):
                self.tell(x, r, y)
        return next(iter(self.values.values()), None)

    def guide(self, name: str, q: Any, own: bool) -> Tensor:
        """A site of the guide."""
        self.values[name] = value = pyro.sample(name, of(q))
        return value

    def latent(self, name: str, p: Any) -> Any:
        """Return the guide's draw, or a draw from the story's distribution."""
        if name in self.values:
            return self.values[name]
        fn = self.distribution(name, p)
        finite = fn.has_enumerate_support
        if finite and not self.plan.averages:
            return fn.sample()
        infer: Any = {"enumerate": "parallel"} if finite else {}
        value = pyro.sample(name, fn, infer=infer)
        self.open.discard(name)
        if not self.open:
            self.values[name] = value
            raise Reached
        return value

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """The value: the program scores it."""
        return value

    def outcome(self, p: Any, obs: Any) -> None:
        """Ignore the outcome: a guide has no site y."""


class SharedSite(NamedTuple):
    """A site that all rows share, such as the effects of groups, in a model's `shared`.

    :param support: of its distribution.
    """

    name: str
    event_shape: torch.Size
    support: Any

    @property
    def latent(self) -> Any:
        """The number of elements and the event shape (`prediction.predicted.Latent`)."""
        return self.event_shape.numel(), self.event_shape

    def add_parameters(self, into: nn.ParameterDict, like: Tensor) -> None:
        """Location and spread of its guide, if they are not there yet."""
        for part in ("loc", "spread"):
            if f"{self.name}_{part}" not in into:
                into[f"{self.name}_{part}"] = nn.Parameter(like.new_zeros(self.event_shape))

    def guide(self, parameters: nn.ParameterDict) -> Any:
        """Independent normals, mapped to the support."""
        if self.support.is_discrete:
            raise ValueError(f"site '{self.name}' is discrete: override guide_shared")
        loc, spread = (parameters[f"{self.name}_{part}"] for part in ("loc", "spread"))
        normal = dist.Normal(loc, positive(spread, _SCALE))
        transform = biject_to(self.support)
        transform = getattr(transform, "base_transform", transform)  # of one coordinate
        if not (isinstance(transform, dist.transforms.ComposeTransform) and not transform.parts):
            normal = dist.TransformedDistribution(normal, [transform])
        return normal.to_event(len(self.event_shape))
