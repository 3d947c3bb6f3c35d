"""The bounds that `fit` maximises, as functions of what a reading found: log p / q by site."""

from __future__ import annotations

from typing import Any

import torch
from pyro.infer import RenyiELBO, TraceMeanField_ELBO
from torch import Tensor

from pyro_gcm.distributions import OrderEvent, integrates_over
from pyro_gcm.inference.elbo import ImportanceWeightedELBO, importance_weighted
from pyro_gcm.inference.noise import Noise
from pyro_gcm.inference.paper_loss import PaperLoss
from pyro_gcm.inference.pooled_elbo import PooledELBO, pooled
from pyro_gcm.inference.reading import Plan
from pyro_gcm.inference.scored import Scored


def scored(model: Any, plan: Plan, bound: Any, noise: Noise, temperature: float = 1.0) -> Scored:
    """A reader for a bound, which `Scored.read` gives a batch."""
    return Scored(
        model,
        plan,
        noise,
        bound.num_particles,
        temperature=temperature,
        analytic=isinstance(bound, TraceMeanField_ELBO),
        dreg=getattr(bound, "gradient", "") == "dreg" and torch.is_grad_enabled(),
    )


def row_losses(bound: Any, reading: Scored, rows: int) -> Tensor:
    """Minus the bound of every row, [B], with its share of the sites that all rows share.

    :param rows: of the whole data set, among which that share is divided.
    """
    return _own_losses(bound, reading) - reading.log_shared / rows


def _own_losses(bound: Any, reading: Scored) -> Tensor:
    if isinstance(bound, PaperLoss):
        return _paper(bound, reading)
    p_y, y, total = reading.p_y, reading.y, reading.total
    is_iwae = isinstance(bound, ImportanceWeightedELBO | RenyiELBO)
    all_cancel = isinstance(total, float) and reading.finite is None
    if is_iwae and bound.alpha == 0.0 and all_cancel and isinstance(p_y, OrderEvent):
        return -p_y.expand(reading.shape).log_mean_prob(y)
    log_y, averages = reading.log_outcome(), reading.plan.averages
    log_selected = None if averages else reading.model.response.log_selected(p_y, y)
    if log_selected is not None:  # given the row is in the data at all, on average over z
        log_selected = log_selected.to(log_y.dtype)
        return row_bound(bound, reading, log_selected) - row_bound(
            bound, reading, log_y + log_selected
        )
    return -row_bound(bound, reading, log_y)


def row_bound(bound: Any, reading: Scored, log_y: Tensor) -> Tensor:
    """The bound of every row, [B], from the log-probability of its outcome."""
    if reading.finite is not None:
        averaged = 1.0 - reading.plan.averages
        pooling = bound.pooling if isinstance(bound, PooledELBO) else averaged
        parts = torch.broadcast_tensors(reading.finite, sum(reading.within, log_y))
        log_p, log_y = (part.flatten(0, reading.finite_sites - 1) for part in parts)
        log_y = pooled(log_p, log_y, pooling)
    log_w = (reading.total + log_y).expand(reading.shape)
    if not isinstance(bound, ImportanceWeightedELBO | RenyiELBO):
        return log_w.mean(0)
    for value in reading.weighed:
        if value.requires_grad:
            share = log_w.detach().softmax(0)
            value.register_hook(share.reshape(share.shape + (1,) * (value.dim() - 2)).mul)
    return importance_weighted(log_w, bound.alpha)


def _paper(bound: PaperLoss, reading: Scored) -> Tensor:
    """The paper's loss for IGCM, whose parts are not those of one bound."""
    event, q_k = reading.p_y, reading.q["k"]
    if isinstance(event, OrderEvent) and reading.model.kernel_enters_as_it_is:
        costs: Any = event.cost
        if integrates_over(costs, q_k):
            event = OrderEvent(costs, q_k)
    log_y = event.log_prob(reading.y) + reading.terms.get("z", 0.0)
    p_k = reading.model.k_dist(reading.x)
    return bound.combined(log_y, reading.terms["r"], q_k, p_k)
