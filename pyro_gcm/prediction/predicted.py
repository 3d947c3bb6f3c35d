"""The readers of predictions and posteriors: latent sites from noise, or half from the guide.

Costs and outcome are left as distributions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from pyro.distributions import MixtureOfDiagNormals
from torch import Tensor

from pyro_gcm._utils.torch_state import Randomness, evaluating
from pyro_gcm.distributions import coordinates
from pyro_gcm.inference.reading import Plan, Reader, StopReading, every_value, is_finite, of
from pyro_gcm.inference.story_lines import check_batch
from pyro_gcm.prediction.base_samples import Latent, Noise, is_driven, noise_shape
from pyro_gcm.prediction.draws import Draws, Rows


class SiteReader(Reader):
    """Reads a story for three rows, to learn which latent sites it has, in order.

    :param guided: whether the guide's story is read before.
    """

    def __init__(self, model: Any, plan: Plan, *, guided: bool = False) -> None:
        like: Any = {"device": model.device, "dtype": model.dtype}
        with torch.no_grad(), Randomness(0, model.device).in_use(), evaluating(model):
            x, r = torch.randn(3, model.x_dim, **like), torch.rand(3, model.r_dim, **like)
            x = model.x_standardizer.inverse(x).to(x)
            if model.example is not None:
                x, r = (rows.to(**like) for rows in model.example)
            super().__init__(model, plan, x, r)
            #: Observed sites that weigh draws.
            self.observed: list[str] = []
            self.latents: dict[str, Latent] = {}
            #: Distributions of the sites before the costs, as the story has them.
            self.told: dict[str, Any] = {}
            #: Names of the sites of the guide.
            self.in_guide: set[str] = set()
            if guided:
                width = model.response.outcome_width
                y = torch.ones((len(x),) if width == 1 else (len(x), width), **like)
                model.guide_story(self.guided, self.x, r, y)
            self.shared = model.shared(self.share)
            self.tell(self.x, r)

    def guide(self, name: str, q: Any) -> Any:
        """Note the site, and draw it."""
        self.in_guide.add(name)
        return of(q).sample()

    def latent(self, name: str, p: Any) -> Tensor:
        """Note the site, and draw it."""
        self.told[name] = fn = self.distribution(name, p)
        check_batch(name, fn, len(self.x), 1)
        draw: Tensor = fn.sample()
        values = len(every_value(fn)) if is_finite(fn) else 0
        parts = fn.locs.shape[-2] if isinstance(fn, MixtureOfDiagNormals) else 0
        size = noise_shape(fn).numel()
        seeded = "" if values or parts or is_driven(fn, self.x) else type(coordinates(fn)).__name__
        self.latents[name] = Latent(size, fn.event_shape, values, parts, seeded)
        return draw.expand(len(self.x), *fn.event_shape)

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """Note the site."""
        self.told[name] = of(p)
        if name not in self.plan.informed:
            self.observed.append(name)
        return value

    def leave(self, name: str, p: Any) -> Any:
        """A cost, whose distribution is of these rows."""
        left = super().leave(name, p)
        check_batch(name, left.fn, len(self.x), 1)
        return left

    def outcome(self, p: Any, obs: Any) -> None:
        """Ignore the outcome: only latent sites are read."""

    def share(self, name: str, p: Any) -> Tensor:
        """A draw."""
        draw: Tensor = self.of_all_rows(name, p).sample()
        return draw


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
        self.read_shared()
        with suppress(StopReading):
            self.tell(x, r)
        weights = self.log_weights
        if weights is not None:
            weights = torch.log_softmax(weights, 0)
        apart = None
        if self.separate:
            apart = Draws(self.noise.count, self.separate, {}, log_weights=self._log_separate)
        return Draws(self.noise.count, self.drawn, self.left, self.p_y, weights, apart)

    def share_guided(self, name: str, q: Any) -> Tensor:
        """Draws of a site that all rows share from its fitted guide, one for each draw of a row."""
        if name not in self.known_shared:
            value = self.known.get(name)
            drawn = self.noise.proposed(name, of(q), 1) if value is None else value
            self.known_shared[name] = drawn
        self.drawn[name] = self.known_shared[name]
        return self.drawn[name]

    def latent(self, name: str, p: Any) -> Any:
        """The known value, or draws from the proposal of the plan or the story's distribution."""
        informed = name in self.plan.informed
        if self.known:
            return self.known.get(name) if informed else self.known[name]
        if informed and not self.separately:
            return None
        propose = self.plan.proposals.get(name)
        if propose is None:
            value, log_w = self.noise.draw(name, lambda: self.distribution(name, p), len(self.x))
        else:
            q = propose(self)
            value, log_w = self.noise.proposed(name, q, len(self.x)), None
            if name not in self.plan.unweighted:
                log_w = self.distribution(name, p).log_prob(value) - q.log_prob(value)
        if log_w is not None:
            self._weigh(name, log_w)
        (self.separate if informed else self.drawn)[name] = value
        return value

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """The density of what was observed weighs the draws."""
        if not self.known and (name not in self.plan.informed or self.separate):
            value = value.double() if value.is_floating_point() else value
            self._weigh(name, self.log_density(p, value))
        return value

    def _weigh(self, name: str, log_w: Tensor) -> None:
        log_w = log_w.double().expand(self.noise.count, len(self.x))
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
            raise StopReading
        return left

    def deterministic(self, name: str, value: Any) -> Tensor:
        """A function of the draws, which is kept with them where it differs between them."""
        if name in self.known:
            return self.known[name]
        found = super().deterministic(name, value)
        if found.dim() > 2:
            self.drawn[name] = found
        return found

    def outcome(self, p: Any, obs: Any) -> Any:
        """The distribution of the outcome, one for each draw also where y depends on none."""
        self.p_y = of(p)
        if len(self.p_y.batch_shape) < 2:
            self.p_y = self.p_y.expand((self.noise.count, *self.p_y.batch_shape))
        return self.p_y


class HalfGuided(Predicted):
    """Half of the draws from the guide q(z|x, r, y), with the weights of the mixture.

    As the other half is not, no weight is large however poor the guide: a defensive mixture
    (Hesterberg 1995, Owen & Zhou 2000).
    """

    def __init__(self, model: Any, plan: Plan, noise: Noise, rows: Rows) -> None:
        super().__init__(model, plan, noise, separately=True)
        self.from_guide: dict[str, Any] = {}
        self.half, self.row_count = self.noise.count // 2, len(rows.x)
        self.log_p: Any = 0.0
        self.log_q: Any = 0.0
        self.model.guide_story(self.guided, rows.x, rows.r, rows.y)

    def guide(self, name: str, q: Any) -> Tensor | None:
        """Draws of a site of the guide."""
        if name in self.plan.exact:
            return None
        q = of(q)
        draw = Noise(self.half).proposed(name, q, self.row_count)
        self.from_guide[name] = q, draw
        return draw

    def latent(self, name: str, p: Any) -> Any:
        """The draws of the story's distribution, half of them replaced by those of the guide."""
        if name not in self.from_guide:
            return super().latent(name, p)
        fn, (q, drawn) = self.distribution(name, p), self.from_guide[name]
        own = self.noise.proposed(name, fn, self.row_count)
        value = self.drawn[name] = torch.cat([own[self.half :], drawn])
        self.log_p = self.log_p + fn.log_prob(value).double()
        self.log_q = self.log_q + q.log_prob(value).double()
        return value

    def read(self, x: Tensor, r: Tensor | None) -> Draws:
        """Read the story as `Predicted.read` does, and add the weights of the mixture."""
        draws = super().read(x, r)
        if not self.from_guide:
            return draws
        share = self.half / self.noise.count
        parts = self.log_p + math.log1p(-share), self.log_q + math.log(share)
        return draws.reweighted(self.log_p - torch.logaddexp(*parts))
