"""Further objectives for Pyro: the paper's loss, and sums over rows with weights."""

from __future__ import annotations

from typing import Any

import pyro.poutine as poutine
import torch
from pyro.infer import Trace_ELBO, TraceEnum_ELBO, TraceMeanField_ELBO
from torch import Tensor
from torch.distributions import kl_divergence

from pyro_gcm.distributions.order_event import OrderEvent, integrates_over
from pyro_gcm.inference.dreg import sample_sites
from pyro_gcm.inference.elbo import RowELBO, importance_weighted
from pyro_gcm.inference.reading import Program


class EnumeratedWeightedELBO(RowELBO, TraceEnum_ELBO):
    """The bound of `ImportanceWeightedELBO` where the program also has finite sites to sum out.

    A weight is that of a draw of the guide's sites, sum_m p(y, m, z_n) / q(z_n) over the values m.
    """

    alpha = 0.0
    _get_trace = TraceEnum_ELBO._get_trace

    def row_losses(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """Minus the bound of every row, [B]."""
        ((trace, of_guide),) = self._get_traces(model, guide, args, kwargs)
        log_w = _summed_out(self, trace, of_guide)
        return -importance_weighted(log_w.reshape(-1, log_w.shape[-1]))


class PaperLoss(RowELBO):
    """Objective "paper" of `IGCM` (section 3.4), from draws z_n ~ q(z|x) and k_m ~ q(k|x, r).

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

    def row_losses(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """The loss of every row, [B]."""
        ((program, q),) = self._get_traces(model, guide, args, kwargs)
        kernel, outcome = q.nodes["k"], program.nodes["y"]
        p_y = over_kernel(outcome["fn"], kernel["value"], kernel["fn"])
        as_told = p_y is outcome["fn"]
        log_y = outcome["log_prob"] if as_told else p_y.log_prob(outcome["value"])
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
        log_mean_y, log_mean_r = (importance_weighted(torch.atleast_2d(v)) for v in (log_y, log_r))
        return divergence - log_mean_y - log_mean_r


def over_kernel(p_y: Any, k: Tensor, q_k: Any) -> Any:
    """p(y | z) under q(k) where that has a closed form, otherwise p(y | z, k) as it is.

    :param k: a draw, which has to enter the order event as it is.
    """
    if isinstance(p_y, OrderEvent) and p_y.revenue is k and integrates_over(p_y.cost, q_k):
        return OrderEvent(p_y.cost, q_k)
    return p_y


def _kl(q: Any, p: Any) -> Tensor:
    """KL[q || p] for normal p with independent coordinates and normal q of any covariance."""
    if isinstance(q, torch.distributions.MultivariateNormal):
        scale = p.base_dist.scale
        p = torch.distributions.MultivariateNormal(p.base_dist.loc, scale_tril=scale.diag_embed())
    return kl_divergence(q, p)


# Rows with weights, through Pyro

#: Bounds that are linear in the log-densities of a row, which `poutine.scale` multiplies.
_LINEAR = (Trace_ELBO, TraceMeanField_ELBO)


def check_weighable(bound: Any) -> None:
    """Raise ValueError for an ELBO of Pyro whose rows cannot have weights."""
    if type(bound) not in _LINEAR and not hasattr(bound, "row_losses"):
        raise ValueError(
            f"elbo={type(bound).__name__} cannot be used with sample_weight, since the share of a "
            "row in its loss is not known: use one of the names of elbo, or give it a method "
            "row_losses(program, guide, *data) that returns the losses of the rows, [B]"
        )


def weighted_loss(
    bound: Any, program: Any, guide: Any, data: list[Tensor], weights: Tensor
) -> Tensor:
    """The weighted sum over the rows of minus a bound, as a tensor to differentiate.

    :param data: what program and guide take; `weights`: [B], above 0.
    """
    if type(bound) in _LINEAR:
        heavy = poutine.scale(program, scale=weights), poutine.scale(guide, scale=weights)
        return bound.differentiable_loss(*heavy, *data)
    return (weights * bound.row_losses(program, guide, *data)).sum()


def _summed_out(bound: Any, trace: Any, of_guide: Any) -> Tensor:
    """The bound of every row and particle, [..., B], with the values of finite sites summed out."""
    log_p: Any = sum(site["log_prob"] for site in sample_sites(trace))
    log_q: Any = sum(site["log_prob"] for site in sample_sites(of_guide))
    values = tuple(range(-log_p.dim(), -int(bound.max_plate_nesting)))
    return torch.logsumexp(log_p - log_q, values)
