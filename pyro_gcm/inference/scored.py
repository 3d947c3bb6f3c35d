"""The reader of training: latent sites drawn from the guide, log p / q, and the bound of each row.

It calls the story as Pyro's handlers do, without their milliseconds of Python a step, and evaluates
nothing twice: a site that the guide leaves out is drawn from the story's own distribution, and has
p / q = 1.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import pyro
import torch
from pyro.infer import TraceMeanField_ELBO
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.order_event import integrates_over
from pyro_gcm.inference.elbo import PaperLoss, TrainingPair, importance_weighted
from pyro_gcm.inference.reading import Plan, Reader, every_value, is_finite, of
from pyro_gcm.inference.views import ScaleSites
from pyro_gcm.prediction.base_samples import driven_draws, noise_shape


@functools.lru_cache(8)
def _points(count: int, size: int) -> Tensor:
    return torch.quasirandom.SobolEngine(size).draw(count, dtype=torch.float64)


def normal_noise(count: int, rows: int, first: int | None, size: int, like: Tensor) -> Tensor:
    """Standard normal noise [N, B, size], independent or by randomised quasi-Monte Carlo.

    Quasi-random draws of a row are the points of a Sobol sequence, all shifted by a random vector
    of its own (Cranley & Patterson 1976). Each draw is standard normal, so that a mean over them is
    unbiased, and its variance is that of several times as many independent draws.

    :param first: number of coordinates of the points that other sites have taken; None for
        independent draws.
    :param like: a tensor of the type and the device of the noise.
    """
    kind: Any = {"dtype": like.dtype, "device": like.device}
    if first is None:
        uniform = torch.rand(count, rows, size, **kind)
    else:
        points = _points(count, first + size)[:, None, first:].to(like)
        uniform = (points + torch.rand(rows, size, **kind)) % 1.0
    largest = 1.0 - torch.finfo(like.dtype).eps  # so that no quantile of a site is infinite
    centred = (2.0 * uniform - 1.0).clamp(-largest, largest)
    return math.sqrt(2.0) * torch.erfinv(centred)  # much faster than ndtri


class StoryLoss:
    """The loss of a batch that `Scored` finds under a bound.

    :param rows: of the whole data set.
    :param weighted: whether the last column of a batch is a factor on the loss of each row, [B], or
        on that of each member for it, [B, K].
    """

    def __init__(self, model: Any, plan: Plan, bound: Any, rows: int, weighted: bool) -> None:
        self.model, self.plan, self.bound = model, plan, bound
        self.rows, self.weighted, self.is_checked = rows, weighted, False

    def __call__(self, batch: list[Tensor]) -> Tensor:
        """The loss, summed over the rows; Pyro validates the first one."""
        *columns, weights = batch if self.weighted else (*batch, None)
        of_members = None if weights is None or weights.dim() == 1 else weights.T[:, None]
        with pyro.validation_enabled(not self.is_checked):
            read = Scored(self.model, self.plan, self.bound, of_members).read(*columns)
            losses = read.row_losses(self.rows)
        self.is_checked = True
        return losses.sum() if weights is None or weights.dim() > 1 else (weights * losses).sum()

    def score(self, batch: list[Tensor]) -> Tensor:
        """The loss of held-out rows; if z is a member, that of the averaged prediction.

        A member is trained on its own likelihood, but it is the average that is used, and that is
        best much later. Of rows with a weight for each member it is the average of those members
        whose weight is 0, which have left the row out.
        """
        *columns, weights = batch if self.weighted else (*batch, None)
        with pyro.validation_enabled(False):
            read = Scored(self.model, self.plan, self.bound).read(*columns)
            if not self.plan.averages or read.finite is None:
                losses = read.row_losses(self.rows)
            else:
                log_p = read.finite
                if weights is not None and weights.dim() == 2:
                    among = weights.T[:, None] == 0.0  # [K, 1, B]
                    log_p, weights = (among / among.sum(0)).log(), weights.mean(1)
                losses = self.model.response.averaged_loss(read.p_y, log_p, read.y)
        return losses.sum() if weights is None else (weights * losses).sum()


class Scored(Reader):
    """log p / q of the sites of a batch, by name, [..., N, B], as the story is read.

    :param plan: of the objective.
    :param bound: what is computed from them, of `num_particles` draws of a row.
    :param of_members: weights of each member's loss for the rows, [K, 1, B], if there are any.
    """

    def __init__(
        self, model: Any, plan: Plan, bound: Any, of_members: Tensor | None = None
    ) -> None:
        super().__init__(model, plan)
        self.bound, self.of_members = bound, of_members
        #: Whether log p - log q is replaced by minus a KL divergence where that is known.
        self.analytic = isinstance(bound, TraceMeanField_ELBO)
        #: Whether draws of the guide are prepared for the doubly reparametrised gradient.
        self.dreg = getattr(bound, "gradient", "") == "dreg" and torch.is_grad_enabled()
        #: log p - log q of latent sites, and log p of observed ones.
        self.terms: dict[str, Tensor] = {}
        #: log-probabilities of the values of finite sites, along leading dimensions.
        self.finite: Tensor | None = None
        self.finite_sites = 0
        #: The distributions that latent sites are drawn from: the guide's, q, or the story's own.
        self.q: dict[str, Any] = {}
        #: Number of coordinates of quasi-random points that sites have taken.
        self.coordinates = 0
        #: Draws that the doubly reparametrised gradient weighs.
        self.weighed: list[Tensor] = []
        #: log p - log q of the sites that all rows share, of a single number.
        self.log_shared: Tensor | float = 0.0

    def read(self, x: Tensor, r: Tensor, y: Tensor) -> Scored:
        """The guide and then the story of a batch."""
        self.read_shared()
        self.x, self.r, self.shape = x, r, (self.bound.num_particles, len(x))
        self.model.guide_story(self.guided, x, r, y)
        self.tell(x, r, y)
        return self

    # What becomes of a site

    def share_guided(self, name: str, q: Any) -> Tensor:
        """One line of the guide of the sites that all rows share: one draw for all particles."""
        q = of(q)
        self.q[name], self.known_shared[name] = q, q.rsample()
        return self.known_shared[name]

    def share(self, name: str, p: Any) -> Tensor:
        """The guide's draw, whose log p - log q counts once for the whole data set."""
        value = self.known_shared[name]
        self.log_shared = self.log_shared + self.of_all_rows(name, p).log_prob(value)
        self.log_shared = self.log_shared - self.q[name].log_prob(value)
        return value

    def guide(self, name: str, q: Any) -> Tensor:
        """A draw of the guide, and the distribution that its density comes from."""
        # With quasi-random draws the bound is tight for wide guides too, and nothing narrows them.
        value = self.draw(name, q := of(q), independent=True)
        if self.dreg:
            value = value.view_as(value)
            self.weighed.append(value)
        self.q[name], self.values[name] = q, value
        return value

    def latent(self, name: str, p: Any) -> Tensor:
        """The guide's draw; without one all values of a finite site, or a draw of its own."""
        if (value := self.values.get(name)) is None:
            model = self.model
            if name == "z" and model.members and model.draws_equally and not model.tells_own_story:
                z = torch.eye(model.members, dtype=model.dtype, device=model.device)[:, None, None]
                log_p = z.new_full((), -math.log(model.members))
                self.finite, self.finite_sites = log_p.expand(len(z), 1, self.shape[1]), 1
                return z
            fn = self.distribution(name, p)
            if is_finite(fn):
                return self._every(name, fn)
            self.q[name], self.values[name] = fn, self.draw(name, fn)
            return self.values[name]
        self.terms[name] = self._log_ratio(self.q[name], self.distribution(name, p), value)
        return value

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """The log-density of a site of the data."""
        self.terms[name] = self.log_density(p, value)
        return value

    def outcome(self, p: Any, obs: Tensor) -> None:
        """p(y | the sites), and the outcome."""
        self.p_y, self.y = of(p), obs

    def draw(self, name: str, q: Any, independent: bool = False) -> Tensor:
        """Differentiable draws [N, B, *event] of a site, quasi-random ones unless independent."""
        if not q.has_rsample:
            raise ValueError(
                f"site '{name}' has no reparametrised sampler ({type(q).__name__}): the bound "
                "cannot be differentiated through it"
            )
        (count, rows), size = self.shape, noise_shape(q).numel()
        first = None if independent else self.coordinates
        noise = normal_noise(count, rows, first, size, self.model.base_samples.samples)
        self.coordinates += 0 if independent else size
        try:
            return driven_draws(q, noise, rows)
        except NotImplementedError:  # such as a mixture
            drawn: Tensor = q.expand(broadcast_shapes(q.batch_shape, self.shape)).rsample()
            return drawn

    def _every(self, name: str, p: Any) -> Tensor:
        """The values of a site with a finite support, [D, 1, .., 1, B, *event]; of z in one row."""
        support = every_value(p)
        count, event, lead = len(support), support.shape[1:], (1,) * (1 + self.finite_sites)
        support = support.reshape(count, *lead, 1, *event)
        log_p = p.log_prob(support)
        self.finite = log_p if self.finite is None else self.finite + log_p
        self.finite_sites += 1
        return support if name == "z" else support.expand(count, *lead, self.shape[1], *event)

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
        p_y, y = self.p_y, self.y
        cancel = not self.terms and self.finite is None
        if isinstance(self.bound, PaperLoss):
            losses = self._paper_losses()
        elif cancel and isinstance(p_y, OrderEvent) and getattr(self.bound, "alpha", None) == 0.0:
            p_y = p_y if p_y.batch_shape == self.shape else p_y.expand(self.shape)
            losses = -p_y.log_mean_prob(y)
        else:
            is_event, averages = isinstance(p_y, OrderEvent), self.plan.averages
            log_y = p_y.log_prob_for_loss(y) if is_event else p_y.log_prob(y)
            log_selected = None if averages else self.model.response.log_selected(p_y, y)
            if log_selected is None:
                losses = -self._bound(log_y)
            else:  # given the row is in the data at all, on average over z
                log_selected = log_selected.to(log_y.dtype)
                losses = self._bound(log_selected) - self._bound(log_y + log_selected)
        return losses - self.log_shared / rows if self.known_shared else losses

    def log_weights(self, log_y: Tensor | None = None, averages: bool = False) -> Tensor:
        """log w of every particle and row, [N, B], with finite sites summed out.

        :param log_y: the log-probability of the outcomes, that of `outcome` by default.
        :param averages: whether the mean over finite sites is of logarithms.
        """
        log_y = self.p_y.log_prob(self.y) if log_y is None else log_y
        within = [term for term in self.terms.values() if term.dim() > 2]  # depend on finite sites
        total: Any = sum((term for term in self.terms.values() if term.dim() <= 2), 0.0)
        if self.finite is not None:
            parts = torch.broadcast_tensors(self.finite, sum(within, log_y))
            log_p, log_y = (part.flatten(0, self.finite_sites - 1) for part in parts)
            share = log_p.exp() if self.of_members is None else log_p.exp() * self.of_members
            log_y = (share * log_y).sum(0) if averages else torch.logsumexp(log_p + log_y, 0)
        return (total + log_y).expand(self.shape)

    def _bound(self, log_y: Tensor) -> Tensor:
        """The bound of every row, [B], from the log-probability of its outcome."""
        log_w = self.log_weights(log_y, self.plan.averages)
        if not hasattr(self.bound, "alpha"):  # of weights
            return log_w.mean(0)
        for value in self.weighed:
            if value.requires_grad:
                share = log_w.detach().softmax(0)
                value.register_hook(share.reshape(share.shape + (1,) * (value.dim() - 2)).mul)
        return importance_weighted(log_w, self.bound.alpha)

    def _paper_losses(self) -> Tensor:
        """The paper's loss of every row, whose parts are not those of one bound."""
        k, q_k, p_k, p_y = self.values["k"], self.q["k"], self.model.k_dist(self.x), self.p_y
        if isinstance(p_y, OrderEvent) and p_y.revenue is k and integrates_over(p_y.cost, q_k):
            p_y = OrderEvent(p_y.cost, q_k)  # E_k in closed form
        log_y = p_y.log_prob(self.y) + self.terms.get("z", 0.0)
        if isinstance(q_k, MultivariateNormal):
            loc, scale = p_k.base_dist.loc, p_k.base_dist.scale
            p_k = MultivariateNormal(loc, scale_tril=scale.diag_embed())
        losses = kl_divergence(q_k, p_k)
        losses = losses.mean(0) if losses.dim() > 1 else losses  # of a q(k) that reads z
        for log_p in (log_y, self.terms["r"]):
            losses = losses - importance_weighted(torch.atleast_2d(log_p))
        return losses


class PyroLoss:
    """The loss that an ELBO object of Pyro computes of the program and the guide of a pair.

    :param rows: of the whole data set.
    """

    def __init__(self, model: Any, pair: TrainingPair, bound: Any, rows: int) -> None:
        self.model, self.pair, self.bound, self.rows = model, pair, bound, rows
        self.is_checked = False
        #: What the programs announce to Pyro's store.
        self.announced: Any = {"params": {}, "constraints": {}}

    def __call__(self, batch: list[Tensor]) -> Tensor:
        """The loss, summed over the rows; Pyro validates the first one."""
        # RenyiELBO has no loss to differentiate.
        known = hasattr(self.bound, "differentiable_loss")
        return self._evaluated(batch, "differentiable_loss" if known else "loss_and_grads")

    def score(self, batch: list[Tensor]) -> Tensor:
        """The loss of held-out rows."""
        self.is_checked = True
        return self._evaluated(batch, "loss")

    def _evaluated(self, batch: list[Tensor], method: str) -> Tensor:
        """What a method of the bound returns; nothing of it is left in Pyro afterwards."""
        with (
            ScaleSites(len(batch[0]) / self.rows, self.model.shared_sites()),
            pyro.validation_enabled(not self.is_checked),
            pyro.get_param_store().scope(self.announced),
        ):
            self.is_checked = True
            return torch.as_tensor(getattr(self.bound, method)(*self.pair[:2], *batch))
