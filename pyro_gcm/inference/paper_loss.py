"""The loss that the paper states for IGCM (section 3.4), for the record."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.infer import ELBO
from pyro.infer.enum import get_importance_trace
from pyro.poutine import Trace
from torch import Tensor
from torch.distributions import kl_divergence

from pyro_gcm.distributions.order_event import OrderEvent, integrates_over
from pyro_gcm.distributions.revenue_posterior import is_independent_normal


class PaperLoss(ELBO):
    """Objective "paper" of `IGCM`, from draws z_n ~ q(z|x) and k_m ~ q(k|x, r).

        L = - log 1/N sum_n E_k[Pr(y | z_n, k)] p(z_n) / q(z_n|x)
            - log 1/M sum_m p(r | k_m, x)
            + KL[q(k|x, r) || p(k)]

    Not a bound on log p(y, r | x): it takes the logarithm of two averages where the evidence has
    that of one, and adds a divergence that belongs to a bound without the second logarithm. E_k is
    in closed form where there is one (`integrates_over`), otherwise each z_n has a draw of k of its
    own. N = M = num_particles.

    :param num_particles: number of draws of z and of k.
    """

    def __init__(self, num_particles: int = 32) -> None:
        super().__init__(num_particles=num_particles, max_plate_nesting=1, vectorize_particles=True)

    def _get_trace(self, model: Any, guide: Any, args: Any, kwargs: Any) -> tuple[Trace, Trace]:
        traces: tuple[Trace, Trace] = get_importance_trace(
            "flat", self.max_plate_nesting, model, guide, args, kwargs
        )
        return traces

    def differentiable_loss(self, model: Any, guide: Any, *args: Any, **kwargs: Any) -> Tensor:
        """The loss summed over the rows, as a tensor to differentiate."""
        return self.row_losses(model, guide, *args, **kwargs).sum()

    def row_losses(self, model: Any, guide: Any, *args: Any, **kwargs: Any) -> Tensor:
        """The loss of every row, [B]."""
        ((program, q),) = self._get_traces(model, guide, args, kwargs)
        kernel = q.nodes["k"]
        response: Any = program.nodes["y"]["fn"]
        y = program.nodes["y"]["value"]
        log_y = program.nodes["y"]["log_prob"]
        if (
            isinstance(response, OrderEvent)
            and response.revenue is kernel["value"]
            and integrates_over(response.cost, kernel["fn"])
        ):
            costs: Any = response.cost
            log_y = response.marginalize(costs, kernel["fn"]).log_prob(y)
        log_y = log_y + program.nodes["z"]["log_prob"] - q.nodes["z"]["log_prob"]
        log_r = program.nodes["r"]["log_prob"]
        return self.combined(log_y, log_r, kernel["fn"], program.nodes["k"]["fn"])

    def combined(self, log_y: Tensor, log_r: Tensor, q_k: Any, p_k: Any) -> Tensor:
        """The loss of every row, [B], from its parts.

        :param log_y: log of E_k[Pr(y | z_n, k)] p(z_n) / q(z_n|x), [N, B], or [B] for N = 1.
        :param log_r: log p(r | k_m, x), likewise.
        :param q_k: q(k|x, r); `p_k`: p(k).
        """
        divergence = _kl(q_k, p_k)
        if divergence.dim() > 1:  # of a guide that was run in a plate of particles
            divergence = divergence.mean(0)
        return divergence - self._log_mean(log_y) - self._log_mean(log_r)

    def _log_mean(self, log_p: Tensor) -> Tensor:
        """Over the particles, [N, B] or, of a single one, [B]."""
        if log_p.dim() == 1:
            return log_p
        return torch.logsumexp(log_p, 0) - math.log(self.num_particles)

    @torch.no_grad()
    def loss(self, model: Any, guide: Any, *args: Any, **kwargs: Any) -> Tensor:
        """The loss, without a gradient."""
        return self.differentiable_loss(model, guide, *args, **kwargs)

    def loss_and_grads(self, model: Any, guide: Any, *args: Any, **kwargs: Any) -> Tensor:
        """The loss; its gradient is added to the parameters (for `pyro.infer.SVI`)."""
        loss = self.differentiable_loss(model, guide, *args, **kwargs)
        loss.backward(retain_graph=self.retain_graph)
        return loss.detach()


def _kl(q: Any, p: Any) -> Tensor:
    """KL[q || p] for normal p with independent coordinates and normal q of any covariance."""
    if not is_independent_normal(p):
        raise ValueError(
            "objective='paper' has KL[q(k|x, r) || p(k)] for a normal kernel_prior with "
            "independent coordinates alone"
        )
    if isinstance(q, torch.distributions.MultivariateNormal):
        scale = p.base_dist.scale
        p = torch.distributions.MultivariateNormal(p.base_dist.loc, scale_tril=scale.diag_embed())
    return kl_divergence(q, p)
