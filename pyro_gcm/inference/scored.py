"""The reader of training: latent sites drawn from the guide, log p / q, the outcome's distribution.

It calls the story as Pyro's handlers do, without their milliseconds of Python a step, and evaluates
nothing twice: a site that the guide draws from the story's own distribution has p / q = 1.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from pyro_gcm._utils.tensors import broadcast_shapes
from pyro_gcm.inference.noise import Noise
from pyro_gcm.inference.reading import Plan, Reader, of


class Scored(Reader):
    """log p / q of the sites of a batch, by name, [..., N, B], as the story is read.

    :param plan: of the objective.
    :param noise: what drives draws.
    :param particles: number N of draws of a row.
    :param temperature: factor on the log-densities of the latent sites.
    :param analytic: whether log p - log q is replaced by minus a KL divergence where that is known.
    :param dreg: whether draws of the guide are prepared for the doubly reparametrised gradient.
    """

    def __init__(
        self,
        model: Any,
        plan: Plan,
        noise: Noise,
        particles: int,
        *,
        temperature: float = 1.0,
        analytic: bool = False,
        dreg: bool = False,
    ) -> None:
        super().__init__(model, plan)
        self.noise, self.particles, self.temperature = noise, particles, temperature
        self.analytic, self.dreg = analytic, dreg
        #: log p - log q of latent sites, and log p of observed ones.
        self.terms: dict[str, Tensor] = {}
        #: log-probabilities of the values of finite sites, along leading dimensions.
        self.finite: Tensor | None = None
        self.finite_sites = 0
        #: The distributions of latent sites of the guide, q.
        self.q: dict[str, Any] = {}
        #: Draws that the doubly reparametrised gradient weighs.
        self.weighed: list[Tensor] = []
        #: log p - log q of the sites that all rows share, of a single number.
        self.log_shared: Tensor | float = 0.0
        self.p_y: Any = None
        self._drawn: dict[str, Tensor] = {}

    def read(self, x: Tensor, r: Tensor, y: Tensor, c: Tensor | None = None) -> Scored:
        """The guide and then the story of a batch."""
        if self.model.shared_sites():
            self.model.guide_shared(self._share_guided)
            self.shared = self.model.shared(self.share)
        self.x, self.r, self.shape = x, r, (self.particles, len(x))
        self.may_miss = c is not None  # then y may be NaN
        self.model.guide_story(self.guided, x, r, y)
        self.model.story(self, x, r, y, c)
        return self

    def _share_guided(self, name: str, q: Any) -> Tensor:
        """One line of the guide of the sites that all rows share: one draw for all particles."""
        q = of(q)
        self.q[name], self.known_shared[name] = q, q.rsample()
        return self.known_shared[name]

    def share(self, name: str, p: Any) -> Tensor:
        """The guide's draw, whose log p - log q counts once for the whole data set."""
        value = self.known_shared[name]
        self.log_shared = self.log_shared + of(p).log_prob(value) - self.q[name].log_prob(value)
        return value

    def guided(self, name: str, q: Any, *, own: bool = False, exact: bool = False) -> Tensor | None:
        """One line of the guide's story.

        :param own: whether q is the story's own distribution.
        :param exact: whether it is the one given the inputs, which the plan may have in its place.
        """
        if name in self.plan.hidden or name in self.plan.left:
            return None
        q, own = of(q), own or (exact and name in self.plan.exact)
        value = self._draw(name, q)
        if not own:
            if self.dreg:
                value = value.view_as(value)
                self.weighed.append(value)
            self.q[name] = q
        self._drawn[name] = value
        return value

    def latent(self, name: str, p: Any) -> Tensor:
        """The guide's draw; without one all values of a finite site, or a draw of its own."""
        value = self._drawn.get(name)
        if value is None:
            fn = self.distribution(name, p)
            return self._every(fn) if fn.has_enumerate_support else self._draw(name, fn)
        if name in self.q:
            ratio = self._log_ratio(self.q[name], self.distribution(name, p), value)
            self.terms[name] = self.temperature * ratio
        return value

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """The log-density of a site of the data."""
        self.terms[name] = of(p).log_prob(value)
        return value

    def outcome(self, p: Any, obs: Tensor) -> Any:
        """p(y | the sites), and the outcome."""
        self.p_y, self.y = of(p), obs
        return self.p_y

    @property
    def within(self) -> list[Tensor]:
        """log p / q of the sites before y that depend on the values of finite ones."""
        return [term for term in self.terms.values() if term.dim() > 2]

    @property
    def total(self) -> Tensor | float:
        """The sum of log p / q over all other sites before y, 0.0 where they cancel."""
        return sum((term for term in self.terms.values() if term.dim() <= 2), 0.0)

    def log_outcome(self) -> Tensor:
        """log p(y | the sites); an outcome that was not observed counts for nothing."""
        if not self.may_miss:
            log_p: Tensor = self.p_y.log_prob(self.y)
            return log_p
        return torch.where(self.y.isnan(), 0.0, self.p_y.log_prob(self.y.nan_to_num()))

    def _draw(self, name: str, q: Any) -> Tensor:
        if not q.has_rsample:
            raise ValueError(
                f"site '{name}' has no reparametrised sampler ({type(q).__name__}): the bound "
                "cannot be differentiated through it"
            )
        return self.noise.draw(q, tuple(broadcast_shapes(q.batch_shape, self.shape)))

    def _every(self, p: Any) -> Tensor:
        """The values [D, 1, .., 1, *event] of a site with a finite support."""
        support: Tensor = p.enumerate_support(expand=False)
        event = support.shape[support.dim() - len(p.event_shape) :]
        lead = (1,) * (2 + self.finite_sites)
        support = support.reshape(len(support), *lead, *event)
        log_p = p.log_prob(support)
        self.finite = log_p if self.finite is None else self.finite + log_p
        self.finite_sites += 1
        return support

    def _log_ratio(self, q: Any, p: Any, value: Tensor) -> Tensor:
        if self.analytic:
            try:
                return -kl_divergence(q, p)
            except NotImplementedError:
                pass
        log_q = q.log_prob(value)
        if self.dreg:  # the score out of the gradient
            score = q.log_prob(value.detach())
            log_q = log_q + (score.detach() - score)
        ratio: Tensor = p.log_prob(value) - log_q
        return ratio
