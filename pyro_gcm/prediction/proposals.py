"""How proposals become draws: accepted in proportion to their likelihood, or by weights.

And how far weights can be relied on: their effective sample size and their Pareto shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm._utils.validation import ArrayLike, as_tensor
from pyro_gcm.prediction.draws import Draws, Rows

#: Errors of a log-evidence up to which the delta method is believed: 11 proposals that count.
_LARGEST_ERROR = 0.3
#: Fewer weights have less than six in their tail, to which no Pareto distribution is fitted.
MIN_PARTICLES = 30
#: Logarithm of the smallest float.
_SMALLEST = math.log(torch.finfo(torch.float64).tiny)
#: Proposals that are in memory at once, of all rows together: few enough for the processor's cache.
PROPOSALS_AT_ONCE = 1 << 15
#: Rejection gives up on a row that needs more proposals than this for each draw.
PROPOSALS_PER_DRAW = 128
#: Proposals of one row before it may be given up sooner: a part of z that has a share of
#: 1 / `PROPOSALS_PER_DRAW` stays unseen with probability exp(-16).
_PROPOSALS_TO_JUDGE = 16 * PROPOSALS_PER_DRAW


class Tally(NamedTuple):
    """What is known of the proposals for b rows; each tensor has shape [b].

    :param accepted: number of those that were, at most as many as draws are wanted.
    :param proposed: number of all of them, float64.
    :param rate: estimated probability that a proposal is accepted, and `rate_error` its relative
        standard error.
    """

    accepted: Tensor
    proposed: Tensor
    rate: Tensor
    rate_error: Tensor


def rejection(
    propose: Callable[[Rows, int], Draws],
    probability: Callable[[Draws, Rows], Tensor],
    rows: Rows,
    num_samples: int,
    num_weighted: int,
) -> tuple[Draws, Tally]:
    """`num_samples` accepted proposals of every row; a row that was given up repeats those it has.

    A row is given up when it has used up `PROPOSALS_PER_DRAW` proposals a draw, or sooner when it
    is sure to need more and would be left with fewer draws than importance resampling has
    effective ones.

    :param propose: (rows, number) -> draws of the latent variables.
    :param probability: (draws, rows) -> with which each is accepted, float64, [N, b].
    :param num_weighted: proposals that importance resampling would have.
    """
    count, allowed = len(rows.x), PROPOSALS_PER_DRAW * num_samples
    active = torch.arange(count, device=rows.x.device)
    accepted, counted = active * 0, torch.zeros(3, count, dtype=torch.float64, device=active.device)
    proposed, total, squares = counted  # of the probabilities
    # One proposal of every row stands in for its draws until one is accepted.
    first = propose(rows, 1).wide()
    kept = {name: value.repeat_interleave(num_samples, 0) for name, value in first.items()}
    # A row that accepts all proposals needs no more than these.
    sizes = torch.full_like(active, num_samples)
    while len(active):
        # Rows that need about as many are proposed for together.
        for part in sizes.argsort().split(max(1, PROPOSALS_AT_ONCE // num_samples)):
            index, size = active[part], min(int(sizes[part].max()), PROPOSALS_AT_ONCE // len(part))
            block = rows.take(index)
            draws = propose(block, size)
            p = probability(draws, block)
            accepts = torch.rand(p.shape, dtype=p.dtype, device=p.device) < p
            place = accepted[index] + accepts.cumsum(0) - 1
            source, column = (accepts & (place < num_samples)).nonzero(as_tuple=True)
            where = place[source, column], index[column]
            for name, values in draws.wide().items():
                kept[name][where] = values[source, column]
            accepted[index] = (accepted[index] + accepts.sum(0)).clamp(max=num_samples)
            counted[:, index] += torch.stack([torch.ones_like(p), p, p.square()]).sum(1)
        rate, equal_share = total / proposed, total.square() / (squares * proposed)
        error = ((1.0 / equal_share - 1.0).clamp(min=0.0) / proposed).sqrt()
        # Written so that NaN, where no proposal can be accepted, counts as hopeless.
        hopeful = rate * (1.0 + 5.0 * error) * PROPOSALS_PER_DRAW >= 1.0
        hopeful |= proposed < _PROPOSALS_TO_JUDGE
        hopeful |= allowed * rate > num_weighted * equal_share
        active = (hopeful & (accepted < num_samples) & (proposed < allowed)).nonzero()[:, 0]
        wanted = torch.fmin(1.1 * (num_samples - accepted) / rate + 8.0, 8.0 * proposed)
        sizes = torch.fmin(wanted, allowed - proposed)[active].ceil().long()
    short = ((accepted > 0) & (accepted < num_samples)).nonzero()[:, 0]
    if len(short):
        again = torch.rand(num_samples, len(short), device=short.device) * accepted[short]
        for values in kept.values():
            values[:, short] = values[again.long(), short]
    return Draws(num_samples, kept, {}), Tally(accepted, proposed, rate, error)


def if_small(error: Tensor) -> Tensor:
    """The error of a logarithm by the delta method, inf where the method has no meaning.

    It is never above 1, also where no proposal comes near the posterior.
    """
    return error.masked_fill(error > _LARGEST_ERROR, math.inf)


def worth(num_samples: int, proposals: Any) -> Any:
    """The effective sample size of draws that are resampled from proposals of so large an ess."""
    # The variance of a mean is that over the proposals and that of choosing from them.
    return 1.0 / (1.0 / num_samples + 1.0 / proposals)


def resampled(log_weights: Tensor, num_samples: int) -> Tensor:
    """Indices [S, b] of draws in proportion to their weights [N, b]."""
    return torch.multinomial(torch.softmax(log_weights.T, -1), num_samples, replacement=True).T


def pareto_k(log_weights: ArrayLike) -> Tensor:
    """Pareto shape k of the importance weights of every datum.

    A generalised Pareto distribution is fitted to the largest weights, min(N / 5, 3 sqrt(N)) of N.
    Weights have 1/k finite moments: below 0.5 their variance is finite, up to 0.7 importance
    sampling still works with a few thousand draws, above it its averages are not to be relied on.
    A small k is necessary, not sufficient: draws that never reached a mode cannot tell of it.

    Source: Vehtari et al. (2024), "Pareto smoothed importance sampling"; the fit is that of Zhang &
    Stephens (2009), with 10 more draws that say 0.5.

    :param log_weights: [N, B], N >= 30 draws for each of B data; -inf is a weight of 0.
    :returns: [B]. -inf where the weights in the tail are equal up to rounding, so that they are
        bounded; inf where there is nothing to fit: where fewer draws than the tail has weigh
        anything, or its lower part is tied.
    :raises ValueError: for another shape, fewer draws, NaN, or a weight of +inf.

    >>> light, heavy = (torch.linspace(0.001, 0.999, 999).log() * -k for k in (0.2, 1.5))
    >>> pareto_k(torch.stack([light, heavy, torch.zeros(999)], dim=1)) > 0.7
    tensor([False,  True, False])
    """
    log_weights = as_tensor("log_weights", log_weights)
    relative = _relative_to_largest(log_weights)
    particles = len(relative)
    if particles < MIN_PARTICLES:
        raise ValueError(
            f"log_weights must have at least {MIN_PARTICLES} draws a datum for a Pareto fit, got "
            f"{particles}"
        )
    tail = math.ceil(min(particles / 5, 3 * particles**0.5))
    cut, *ordered = relative.topk(tail + 1, 0).values.flip(0)
    k = _fitted_shape(torch.stack(ordered).exp() - cut.exp())
    # Below the smallest float a weight is 0 in the fit.
    k = torch.where(cut > _SMALLEST, k.nan_to_num(nan=math.inf), math.inf)
    k = k.masked_fill(ordered[0] >= -(torch.finfo(log_weights.dtype).eps ** 0.5), -math.inf)
    return k.to(log_weights.dtype)


def effective_sample_size(log_weights: ArrayLike) -> Tensor:
    """Kish's effective sample size, 1 / sum of the squared normalised weights, of every datum.

    From 1, where one draw has all the weight, to N, where they are equal.

    :param log_weights: [N, B]; -inf is a weight of 0.
    :returns: [B]; 0 where all weights are 0.
    :raises ValueError: for another shape, NaN, or a weight of +inf.

    >>> effective_sample_size(torch.tensor([[0.0, 0.0], [0.0, -torch.inf]]))
    tensor([2., 1.])
    """
    log_weights = as_tensor("log_weights", log_weights)
    weights = _relative_to_largest(log_weights).exp()
    ess = weights.sum(0).square() / weights.square().sum(0)
    return ess.nan_to_num(nan=0.0).to(log_weights.dtype)


def _relative_to_largest(tensor: Tensor) -> Tensor:
    """Checked log-weights in float64 whose largest is 0 for every datum; -inf stays."""
    if tensor.dim() != 2 or tensor.numel() == 0:
        raise ValueError(
            "log_weights must have shape [draws, data], at least one of each, got shape "
            f"{tuple(tensor.shape)}"
        )
    bad = tensor.isnan() | (tensor == math.inf)
    if bad.any():
        datum = int(bad.any(0).nonzero()[0, 0])
        raise ValueError(
            f"log_weights must be finite or -inf, got {int(bad.sum())} NaN or +inf entries, the "
            f"first in datum {datum}"
        )
    tensor = tensor.double()
    largest = tensor.amax(0).clamp(min=torch.finfo(tensor.dtype).min)  # where all weights are 0
    return tensor - largest


def _fitted_shape(excess: Tensor) -> Tensor:
    """The shape of a generalised Pareto distribution of columns [n, B] that increase from 0.

    A mean over a grid of its other parameter, with the profile likelihood as weights; NaN where a
    quarter of a column is 0.
    """
    n, points = len(excess), 30 + int(len(excess) ** 0.5)
    grid = 1.0 - (points / (torch.arange(points, device=excess.device) + 0.5).double()).sqrt()
    rates = 1.0 / excess[-1] + grid[:, None] / (3.0 * excess[int(n / 4 + 0.5) - 1])
    shapes = torch.stack([torch.log1p(-rate * excess).mean(0) for rate in rates])
    weights = torch.softmax(n * ((-rates / shapes).log() - shapes - 1.0), 0)
    k = torch.log1p(-(weights * rates).sum(0) * excess).mean(0)
    return (n * k + 5.0) / (n + 10.0)
