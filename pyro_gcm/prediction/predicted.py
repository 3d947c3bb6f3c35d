"""The reader of predictions: latent sites from noise, costs and outcome left as distributions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from pyro.distributions import MixtureOfDiagNormals
from torch import Tensor

from pyro_gcm._utils.torch_state import Randomness, evaluating
from pyro_gcm.inference.reading import Plan, Reached, Reader, of
from pyro_gcm.prediction.base_samples import driven_draws
from pyro_gcm.prediction.draws import Draws


class Latent(NamedTuple):
    """A latent site of a story.

    :param size: number of its coordinates, and `event_shape` their shape.
    :param values: number of its values where they are finitely many, else 0.
    :param parts: number of components of a mixture, else 0.
    """

    size: int
    event_shape: torch.Size
    values: int = 0
    parts: int = 0


class Dry(Reader):
    """Reads a story for one row, to learn which latent sites it has, in order."""

    def __init__(self, model: Any, plan: Plan, x: Tensor, r: Tensor) -> None:
        super().__init__(model, plan, x, r)
        self.latents: dict[str, Latent] = {}
        #: Distributions of the sites before the costs, as the story has them.
        self.told: dict[str, Any] = {}

    def latent(self, name: str, p: Any) -> Tensor:
        """Note the site, and draw it."""
        self.told[name] = fn = self.distribution(name, p)
        draw: Tensor = fn.sample()
        values = len(fn.enumerate_support(expand=False)) if fn.has_enumerate_support else 0
        parts = fn.locs.shape[-2] if isinstance(fn, MixtureOfDiagNormals) else 0
        self.latents[name] = Latent(fn.event_shape.numel(), fn.event_shape, values, parts)
        return draw

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """Note the site."""
        self.told[name] = of(p)
        return value

    def outcome(self, p: Any, obs: Any) -> None:
        """Ignore the outcome: only latent sites are read."""

    @classmethod
    def of(cls, model: Any, plan: Plan) -> Dry:
        """Read the model once, which collects its `latents` by name."""
        like: Any = {"device": model.device, "dtype": model.dtype}
        x, r = torch.zeros(1, model.x_dim, **like), torch.full((1, model.r_dim), 0.5, **like)
        reader = cls(model, plan, x, r)
        with torch.no_grad(), Randomness(0, model.device).in_use(), evaluating(model):
            reader.shared = model.shared(reader.share)
            reader.tell(x, r)
        return reader

    def share(self, name: str, p: Any) -> Tensor:
        """A draw."""
        return of(p).sample()


class Noise:
    """Independent draws from torch's generator.

    :param count: number of draws of every row.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def members(self, name: str) -> Tensor | None:
        """Draws [N, 1, K] of a site that is every member, and all count the same; else None."""
        return None

    def draw(self, name: str, q: Any) -> tuple[Tensor, Tensor | None]:
        """Draws [N, b, *event] of a site, and log-weights [N, b] or None."""
        return self.proposed(name, q), None

    def proposed(self, name: str, q: Any) -> Tensor:
        """Draws of a site from a proposal."""
        drawn = q.batch_shape[:1] == (self.count,) and len(q.batch_shape) > 1
        draws: Tensor = q.sample() if drawn else q.sample((self.count,))
        return draws if q.batch_shape else draws.unsqueeze(1)  # all rows share it


class FixedNoise(Noise):
    """Draws driven by the model's base samples, the same at every call.

    Finite sites take all of their values in turn, and components of a mixture equal shares.

    :param num_samples: requested number of draws; there are as many as all values, and all
        components, make a multiple of.
    :param latents: the latent sites of the story.
    """

    def __init__(self, model: Any, latents: Mapping[str, Latent], num_samples: int) -> None:
        # Not the model, which keeps this.
        self._places, self._samples = model.places, model.base_samples
        self._members = model.members if model.draws_equally else 0
        self._further: dict[str, int] = {}  # first coordinates of sites that have no place
        strata, self._stride, further = 1, {}, 0
        for name, site in latents.items():
            self._stride[name] = strata
            strata *= max(1, site.values) * max(1, site.parts)
            if name not in self._places and not site.values:
                self._further[name] = further
                further += site.size
        driven = any(not site.values for site in latents.values())
        self.strata = strata
        repeats = max(1, num_samples // strata) if driven else 1
        super().__init__(num_samples if strata == 1 else strata * repeats)

    def _number(self, name: str, count: int, like: Tensor) -> Tensor:
        """Which of so many values, or components, each draw has, [N]."""
        place = torch.arange(self.count, device=like.device)
        return place.div(self._stride[name], rounding_mode="floor") % count

    def members(self, name: str) -> Tensor | None:
        """Every member in turn, whatever x is."""
        if name != "z" or not self._members:
            return None
        samples = self._samples.samples
        every = torch.eye(self._members, dtype=samples.dtype, device=samples.device)
        if self.count > self._members:
            every = every[self._number(name, self._members, every)]
        return every.unsqueeze(1)

    def draw(self, name: str, q: Any) -> tuple[Tensor, Tensor | None]:
        """Draw a site from its share of the noise."""
        if q.has_enumerate_support:
            return self._every_value(name, q)
        if isinstance(q, MixtureOfDiagNormals):
            which = self._number(name, q.locs.shape[-2], q.locs)
            base = self._base(name, q)[torch.arange(self.count, device=which.device) // self.strata]
            loc, scale, logits = (
                part.index_select(dim, which).movedim(dim, 0)
                for part, dim in ((q.locs, -2), (q.coord_scale, -2), (q.probs, -1))
            )
            return loc + scale * base, logits.double().log()
        return self.proposed(name, q), None

    def _every_value(self, name: str, q: Any) -> tuple[Tensor, Tensor]:
        support: Tensor = q.enumerate_support(expand=False)
        values = support[self._number(name, len(support), support)]
        if len(q.batch_shape) > 1:  # it depends on other draws
            values = values[:, 0]
        shape = torch.broadcast_shapes(
            (self.count, *values.shape[1:]), (*q.batch_shape, *q.event_shape)
        )
        return values.expand(shape), q.log_prob(values).double()

    def proposed(self, name: str, q: Any) -> Tensor:
        """Propose draws of a site from its share of the noise."""
        return driven_draws(q, self._base(name, q), self._samples.seed)

    def _base(self, name: str, q: Any) -> Tensor:
        """Base samples [N, 1, d] of the coordinates of a site."""
        size, samples = q.event_shape.numel(), self._samples
        if name in self._further:
            return samples.further(self._further[name], size, self.count)
        first = self._places[name]
        return samples(self.count)[..., first : first + size]


class Predicted(Reader):
    """Draws of the latent sites of rows, from p(z|x) and the like, and p(y | the draws).

    Draws have log-weights where they do not come from the story's distributions given x. With
    known values the story is read once more for them, and has no weights.

    :param noise: what drives the draws; it may be left out where values are known.
    :param known: values of the latent sites by name, [N, b, *event], to be had in place of draws.
    :param separately: whether informed sites are drawn too, with weights of their own: y does not
        depend on them.
    :param until: a site at which the reading ends.
    """

    def __init__(
        self,
        model: Any,
        plan: Plan,
        noise: Noise | None = None,
        *,
        known: Mapping[str, Tensor] | None = None,
        separately: bool = False,
        until: str | None = None,
    ) -> None:
        super().__init__(model, plan)
        self.known = known or {}
        self.noise = noise or Noise(len(next(iter(self.known.values()))))
        self.separately, self.until = separately, until
        self.left: dict[str, Any] = {}
        self.p_y: Any = None
        self.log_weights: Tensor | None = None
        self.drawn: dict[str, Tensor] = {}
        self.separate: dict[str, Tensor] = {}
        self._log_separate: Any = 0.0

    def read(self, x: Tensor, r: Tensor | None) -> Draws:
        """Draws for rows x [b, x_dim] and r [b, r_dim]; without r of what does not depend on it."""
        self.x, self.r = x, r
        if r is None:
            given_r = {*self.plan.exact, *self.plan.proposals, "w", "r"} - {"z"}
            self.plan = replace(self.plan, hidden=(*self.plan.hidden, *given_r))
        if shared := self.model.shared_sites():
            self.known_shared |= {name: self.known[name] for name in shared if name in self.known}
            self.model.guide_shared(self._share_guided)
            self.shared = self.model.shared(self.share)
        with suppress(Reached):
            self.tell(x, r)
        weights = self.log_weights
        if weights is not None:
            weights = torch.log_softmax(weights, 0)
        separate = {name: (v, self._log_separate) for name, v in self.separate.items()}
        return Draws(self.noise.count, self.drawn, self.left, self.p_y, weights, separate)

    def _share_guided(self, name: str, q: Any) -> Tensor:
        """Draws of a site that all rows share from its fitted guide, one for each draw of a row."""
        if name not in self.known_shared:
            self.known_shared[name] = self.noise.proposed(name, of(q))
        self.drawn[name] = value = self.known_shared[name]
        return value

    def latent(self, name: str, p: Any) -> Any:
        """The known value, or draws from the proposal of the plan or the story's distribution."""
        informed = name in self.plan.informed
        if self.known:
            return self.known.get(name) if informed else self.known[name]
        if informed and not self.separately:
            return None
        propose, value, log_w = self.plan.proposals.get(name), self.noise.members(name), None
        if value is not None:
            pass
        elif propose is None:
            value, log_w = self.noise.draw(name, self.distribution(name, p))
        else:
            q = propose(self)
            value, log_w = self.noise.proposed(name, q), None
            if name not in self.plan.unweighted:
                log_w = self.distribution(name, p).log_prob(value) - q.log_prob(value)
        if log_w is not None:
            self._weigh(name, log_w)
        (self.separate if informed else self.drawn)[name] = value
        return value

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """The density of what was observed weighs the draws."""
        if not self.known and (name not in self.plan.informed or self.separate):
            self._weigh(name, of(p).log_prob(value.double()))
        return value

    def _weigh(self, name: str, log_w: Tensor) -> None:
        log_w = log_w.double()
        if name in self.plan.informed:
            self._log_separate = self._log_separate + log_w
        else:
            self.log_weights = log_w if self.log_weights is None else self.log_weights + log_w

    def leave(self, name: str, p: Any) -> Any:
        """A cost, whose distribution is a part of the draws; a known kernel is that value."""
        if name in self.known:
            self.values[name] = self.known[name]
            return self.known[name]
        self.left[name] = left = super().leave(name, p)
        if name == self.until:
            raise Reached
        return left

    def deterministic(self, name: str, value: Any) -> Tensor:
        """A function of the draws, which is kept with them where it differs between them."""
        if name in self.known:
            return self.known[name]
        found = super().deterministic(name, value)
        if found.dim() > 2:
            self.drawn[name] = found
        return found

    note = deterministic

    def outcome(self, p: Any, obs: Any) -> Any:
        """The distribution of the outcome."""
        self.p_y = of(p)
        return self.p_y
