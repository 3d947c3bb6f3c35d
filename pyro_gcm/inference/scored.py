"""The reader of training: latent sites drawn from the guide, log p / q, and the bound of each row.

It calls the story as Pyro's handlers do, without their milliseconds of Python a step, and evaluates
nothing twice: a site that the guide draws from the story's own distribution has p / q = 1.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from pyro.infer import RenyiELBO, TraceMeanField_ELBO
from torch import Tensor
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.revenue_posterior import coordinates
from pyro_gcm.inference import bounds
from pyro_gcm.inference.elbo import ImportanceWeightedELBO, importance_weighted, is_dreg
from pyro_gcm.inference.reading import Plan, Reader, of
from pyro_gcm.prediction.base_samples import column_draws, driven_draws


class Scored(Reader):
    """log p / q of the sites of a batch, by name, [..., N, B], as the story is read.

    :param plan: of the objective.
    :param bound: what is computed from them, of `num_particles` draws of a row.
    :param noise: what drives draws.
    :param of_members: weights of each member's loss for the rows, [K, 1, B], if there are any.
    """

    def __init__(
        self,
        model: Any,
        plan: Plan,
        bound: Any,
        noise: Noise,
        of_members: Tensor | None = None,
    ) -> None:
        super().__init__(model, plan)
        self.bound, self.noise, self.of_members = bound, noise, of_members
        #: Whether log p - log q is replaced by minus a KL divergence where that is known.
        self.analytic = isinstance(bound, TraceMeanField_ELBO)
        #: Whether draws of the guide are prepared for the doubly reparametrised gradient.
        self.dreg = is_dreg(bound) and torch.is_grad_enabled()
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

    def read(self, x: Tensor, r: Tensor, y: Tensor) -> Scored:
        """The guide and then the story of a batch."""
        if self.model.shared_sites():
            self.model.guide_shared(self._share_guided)
            self.shared = self.model.shared(self.share)
        self.x, self.r, self.shape = x, r, (self.bound.num_particles, len(x))
        self.model.guide_story(self.guided, x, r, y)
        self.model.story(self, x, r, y)
        return self

    # What becomes of a site

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

    def guide(self, name: str, q: Any, own: bool) -> Tensor:
        """A draw of the guide, and the distribution that its density comes from."""
        value = self._draw(name, q := of(q))
        if not own:
            if self.dreg:
                value = value.view_as(value)
                self.weighed.append(value)
            self.q[name] = q
        self.values[name] = value
        return value

    def latent(self, name: str, p: Any) -> Tensor:
        """The guide's draw; without one all values of a finite site, or a draw of its own."""
        if (value := self.values.get(name)) is None:
            fn = self.distribution(name, p)
            return self._every(fn) if fn.has_enumerate_support else self._draw(name, fn)
        if name in self.q:
            self.terms[name] = self._log_ratio(self.q[name], self.distribution(name, p), value)
        return value

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """The log-density of a site of the data."""
        self.terms[name] = of(p).log_prob(value)
        return value

    def outcome(self, p: Any, obs: Tensor) -> None:
        """p(y | the sites), and the outcome."""
        self.p_y, self.y = of(p), obs

    def _draw(self, name: str, q: Any) -> Tensor:
        if not q.has_rsample:
            raise ValueError(
                f"site '{name}' has no reparametrised sampler ({type(q).__name__}): the bound "
                "cannot be differentiated through it"
            )
        shape: tuple[int, ...] = self.shape
        if len(q.batch_shape) > 1:  # it depends on other draws
            shape = broadcast_shapes(q.batch_shape, shape)
        return self.noise.draw(q, shape)

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
        return p.log_prob(value) - log_q

    # The bound, a function of what was found

    def row_losses(self, rows: int) -> Tensor:
        """Minus the bound of every row, [B], with its share of the sites that all rows share.

        :param rows: of the whole data set, among which that share is divided.
        """
        bound, p_y, y = self.bound, self.p_y, self.y
        cancel = not self.terms and self.finite is None
        if isinstance(bound, bounds.PaperLoss):
            losses = self._paper_losses()
        elif cancel and isinstance(p_y, OrderEvent) and getattr(bound, "alpha", None) == 0.0:
            losses = -p_y.expand(self.shape).log_mean_prob(y)
        else:
            log_y, averages = p_y.log_prob(y), self.plan.averages
            log_selected = None if averages else self.model.response.log_selected(p_y, y)
            if log_selected is None:
                losses = -self._bound(log_y)
            else:  # given the row is in the data at all, on average over z
                log_selected = log_selected.to(log_y.dtype)
                losses = self._bound(log_selected) - self._bound(log_y + log_selected)
        return losses - self.log_shared / rows if self.known_shared else losses

    def _bound(self, log_y: Tensor) -> Tensor:
        """The bound of every row, [B], from the log-probability of its outcome."""
        within = [term for term in self.terms.values() if term.dim() > 2]  # depend on finite sites
        total: Any = sum((term for term in self.terms.values() if term.dim() <= 2), 0.0)
        if self.finite is not None:
            parts = torch.broadcast_tensors(self.finite, sum(within, log_y))
            log_p, log_y = (part.flatten(0, self.finite_sites - 1) for part in parts)
            averages = self.plan.averages
            share = log_p.exp() if self.of_members is None else log_p.exp() * self.of_members
            log_y = (share * log_y).sum(0) if averages else torch.logsumexp(log_p + log_y, 0)
        log_w: Tensor = (total + log_y).expand(self.shape)
        weighs = ImportanceWeightedELBO | RenyiELBO | bounds.EnumeratedWeightedELBO
        if not isinstance(self.bound, weighs):
            return log_w.mean(0)
        for value in self.weighed:
            if value.requires_grad:
                share = log_w.detach().softmax(0)
                value.register_hook(share.reshape(share.shape + (1,) * (value.dim() - 2)).mul)
        return importance_weighted(log_w, self.bound.alpha)

    def _paper_losses(self) -> Tensor:
        """The paper's loss for IGCM, whose parts are not those of one bound."""
        q_k, igcm = self.q["k"], cast(Any, self.model)
        p_y = bounds.over_kernel(self.p_y, self.values["k"], q_k)
        log_y = p_y.log_prob(self.y) + self.terms.get("z", 0.0)
        return self.bound.combined(log_y, self.terms["r"], q_k, igcm.k_dist(self.x))


class Noise:
    """Independent draws from torch's generator."""

    def new_batch(self, rows: int) -> None:
        """Prepare for the rows of a batch."""

    def draw(self, q: Any, shape: tuple[int, ...]) -> Tensor:
        """Reparametrised draws [N, B, ...] of a distribution of batch shape [B] or ()."""
        if isinstance(q, Independent) and q.batch_shape == shape[1:]:
            return q.rsample(shape[:1])
        return q.expand(shape).rsample()


class QuasiRandomNoise(Noise):
    """Randomised quasi-Monte Carlo: N points of a Sobol sequence, shifted anew for a row and step.

    The shifts come from a fixed pool, so that no quantile function runs in a step. The draws of a
    row are standard normal and marginally uniform over the shifts, so that the mean of a gradient
    over them is unbiased (up to the size of the pool), and its variance is that of more random
    draws. A site that no fixed noise can generate, such as a mixture, is drawn at random.

    Source: scrambling and shifts, Owen (1997) and Cranley & Patterson (1976).

    :param particles: N.
    :param dim: coordinates of all latent sites together.
    :param seed: of the sequence and of the shifts.
    :param like: a tensor of the device and dtype of the draws.
    """

    SHIFTS = 4096

    def __init__(self, particles: int, dim: int, seed: int, like: Tensor) -> None:
        engine = torch.quasirandom.SobolEngine(dim, scramble=True, seed=seed)
        points = engine.draw(particles, dtype=torch.float64)
        shifts = torch.rand(
            self.SHIFTS, 1, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        uniform = ((points + shifts) % 1.0).clamp(2.0**-54, 1.0 - 2.0**-53)
        self.pool = torch.special.ndtri(uniform).to(like)  # [shifts, N, dim]

    def new_batch(self, rows: int) -> None:
        """Choose a shift for every row."""
        chosen = torch.randint(len(self.pool), (rows,), device=self.pool.device)
        self.base, self.used = self.pool[chosen].transpose(0, 1), 0  # [N, B, dim]

    def draw(self, q: Any, shape: tuple[int, ...]) -> Tensor:
        """Draw from the next coordinates of the points."""
        first, end = self.used, self.used + q.event_shape.numel()
        draws = _driven(q, self.base[..., first:end])
        if draws is None:
            return super().draw(q, shape)
        self.used = end
        return draws


def _driven(q: Any, base: Tensor) -> Tensor | None:
    """Differentiable draws of a distribution driven by base samples; None where nothing does it."""
    coordinate = coordinates(q)
    if hasattr(q, "rsample_from") or isinstance(coordinate, Normal | MultivariateNormal):
        return driven_draws(q, base, seed=0)
    if coordinate.event_shape:
        return None
    try:  # in float64, in which no probability is rounded to 0 or 1
        base = base if q.event_shape else base[..., 0]
        return column_draws(coordinate, base.double()).to(base.dtype)
    except NotImplementedError:
        return None
