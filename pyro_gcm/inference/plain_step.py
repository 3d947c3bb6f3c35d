"""A training step without Pyro's handlers, from the same factors.

Pyro's handlers cost milliseconds of Python a step, and evaluate an encoder that the program and its
guide share twice. Here an objective is a function of its draws, which calls the model's `*_dist`
methods in the order of the program, and a bound is a function of log p / q. `fit` holds the first
step against Pyro's, in value and in gradient, and goes on without Pyro only if they agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from pyro.infer import Trace_ELBO, TraceEnum_ELBO, TraceMeanField_ELBO
from torch import Tensor

from pyro_gcm.distributions import OrderEvent, integrates_over
from pyro_gcm.inference.elbo import ImportanceWeightedELBO
from pyro_gcm.inference.log_weights import LogWeights
from pyro_gcm.inference.noise import Noise
from pyro_gcm.inference.paper_loss import PaperLoss
from pyro_gcm.inference.pooled_elbo import PooledELBO

#: One objective: it draws the latent sites, scores what is observed, and returns p(y | sites).
Terms = Callable[[LogWeights, Tensor, Tensor, Tensor], Any]


def latent_z(model: Any, weights: LogWeights, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
    """Draws of z, or all of its values."""
    if model.enumerates:
        return weights.summed_out(model.z_dist(x))
    prior = None if model.z_guide is None else model.z_dist(x)
    return weights.latent(model.z_guide_dist(x, r, y), prior)


def gcm_terms(model: Any, *, joint: bool = False, averages: bool = False) -> Terms:
    """log p(y | x, r), or the whole program, of a `GCM`.

    :param averages: whether the guide sums over a finite z too, with the weights of the prior.
    """

    def terms(weights: LogWeights, x: Tensor, r: Tensor, y: Tensor) -> Any:
        z = latent_z(model, weights, x, r, y)
        covariates, weights.averages = model.covariates(z, x), averages
        if joint:
            weights.observed(model.x_dist(z, x), x)
            q_w = model.w_guide_dist(covariates, model.r_standardizer(r))
            weights.observed(model.r_dist(weights.latent(q_w, model.w_dist()), covariates), r)
        return model.y_dist(model.c_dist(z, covariates), covariates, r)

    return terms


def igcm_terms(model: Any, *, generates: tuple[str, ...] = (), exact_kernel: bool = False) -> Terms:
    """An objective of an `IGCM`.

    :param generates: which of "x" and "r" the objective scores.
    :param exact_kernel: whether k is integrated out in closed form.
    """

    def terms(weights: LogWeights, x: Tensor, r: Tensor, y: Tensor) -> Any:
        z, covariates = latent_z(model, weights, x, r, y), model.x_standardizer(x)
        cost = model.c_dist(z, covariates)
        if exact_kernel:
            return OrderEvent(cost, model.k_given(x, r))
        p_k = None  # it cancels where the guide is that prior
        if generates:
            p_k = model.k_dist(x)
        elif model.k_guide is not None:
            p_k = model.k_given(x, r)
        k = weights.latent(model.k_guide_dist(x, r, y), p_k)
        if "x" in generates:
            weights.observed(model.x_dist(z, k, x), x)
        if "r" in generates:
            weights.observed(model.r_dist(k, covariates), r)
        return model.y_dist(cost, covariates, k, r)

    return terms


def paper_terms(model: Any) -> Terms:
    """The parts of `PaperLoss`, for `PaperLoss.combined`."""

    def terms(weights: LogWeights, x: Tensor, r: Tensor, y: Tensor) -> Any:
        z, covariates = latent_z(model, weights, x, r, y), model.x_standardizer(x)
        cost, q_k = model.c_dist(z, covariates), model.k_guide_dist(x, r, y)
        k = weights.noise.draw(q_k, weights.shape)
        event = model.y_dist(cost, covariates, k, r)
        if model.kernel_enters_as_it_is and integrates_over(cost, q_k):
            event = OrderEvent(cost, q_k)
        log_y = event.log_prob(y) + weights.total
        return log_y, model.r_dist(k, covariates).log_prob(r), q_k, model.k_dist(x)

    return terms


def bound_of(bound: Any, weights: LogWeights, p_y: Any, y: Tensor) -> Tensor:
    """The bound of every row, [B], from log p / q and the distribution of y."""
    is_iwae, draws = isinstance(bound, ImportanceWeightedELBO), bound.num_particles
    all_cancel = isinstance(weights.total, float)
    if is_iwae and bound.alpha == 0.0 and all_cancel and isinstance(p_y, OrderEvent):
        return p_y.expand(weights.shape).log_mean_prob(y)
    log_y = p_y.log_prob(y)
    if weights.finite is not None:
        pooled = bound.pooling if isinstance(bound, PooledELBO) else 1.0 - weights.averages
        log_y = _pooled(weights.finite, log_y, pooled)
    log_w = (weights.total + log_y).expand(weights.shape)
    if not is_iwae:
        return log_w.mean(0)
    for value in weights.values:
        if value.requires_grad:
            share = log_w.detach().softmax(0)
            value.register_hook(share.reshape(share.shape + (1,) * (value.dim() - 2)).mul)
    power = 1.0 - bound.alpha
    return (torch.logsumexp(power * log_w, 0) - math.log(draws)) / power


def _pooled(log_p: Tensor, log_y: Tensor, pooling: float) -> Tensor:
    """log of the mean over the values of a finite z, mean of the logs, or what is between them.

    :param log_p: log-probabilities of the values, and `log_y`: of y given each, along dimension 0.
    """
    parts = []
    if pooling > 0.0:
        parts.append(pooling * torch.logsumexp(log_p + log_y, 0))
    if pooling < 1.0:
        parts.append((1.0 - pooling) * (log_p.exp() * log_y).sum(0))
    return sum(parts[1:], parts[0])


BOUNDS = (
    ImportanceWeightedELBO,
    PaperLoss,
    PooledELBO,
    Trace_ELBO,
    TraceEnum_ELBO,
    TraceMeanField_ELBO,
)


def plain_loss(
    terms: Terms,
    bound: Any,
    noise: Noise,
    temperature: float,
    batch: list[Tensor],
    row_weights: Tensor | None = None,
) -> Tensor:
    """Minus the bound of a batch (x, r, y), summed over its rows.

    :param row_weights: factor on the bound of every row, [B].
    :raises NotImplementedError: for a guide without reparametrised draws.
    """
    x, r, y = batch
    weights = LogWeights(bound, noise, len(x), temperature)
    found = terms(weights, x, r, y)
    if isinstance(bound, PaperLoss):
        losses = bound.combined(*found)
    else:
        losses = -bound_of(bound, weights, found, y)
    return losses.sum() if row_weights is None else (row_weights * losses).sum()
