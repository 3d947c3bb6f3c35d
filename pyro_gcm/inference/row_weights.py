"""Rows that count differently: their weights, and bounds as weighted sums over the rows."""

from __future__ import annotations

from typing import Any

import pyro.poutine as poutine
import torch
from pyro.infer import RenyiELBO, Trace_ELBO, TraceEnum_ELBO, TraceMeanField_ELBO
from torch import Tensor

from pyro_gcm._utils.validation import ArrayLike, vector
from pyro_gcm.inference.elbo import ImportanceWeightedELBO
from pyro_gcm.inference.pooled_elbo import PooledELBO

#: Bounds that are linear in the log-densities of a row, which `poutine.scale` multiplies.
_LINEAR = (Trace_ELBO, TraceMeanField_ELBO)
_ENUMERATING = (TraceEnum_ELBO, PooledELBO)


def checked_weights(sample_weight: ArrayLike, rows: int) -> Tensor:
    """Weights of the rows in float64, the largest of them 1, on the CPU.

    :raises ValueError: unless there is a finite weight of at least 0 for every row, not all 0.
    """
    weights = vector("sample_weight", sample_weight, torch.device("cpu")).double()
    if len(weights) != rows:
        raise ValueError(
            f"sample_weight must have a weight for each of the {rows} rows, got {len(weights)}"
        )
    if (weights < 0.0).any():
        first = int((weights < 0.0).nonzero()[0])
        raise ValueError(
            f"sample_weight must be at least 0, got {float(weights[first]):g} in row {first}"
        )
    if not weights.any():
        raise ValueError("sample_weight must have a weight above 0, got only 0")
    return weights / weights.amax()


def weighed(
    columns: dict[str, Tensor], sample_weight: ArrayLike | None
) -> tuple[dict[str, Tensor], Tensor | None]:
    """The rows of positive weight and these weights, or None where they are equal."""
    if sample_weight is None:
        return columns, None
    weights = checked_weights(sample_weight, len(columns["x"]))
    kept = weights.nonzero()[:, 0]
    if len(kept) < len(weights):
        columns = {name: column[kept] for name, column in columns.items()}
    equal = bool((weights[kept] == weights[kept[0]]).all())
    return columns, None if equal else weights[kept]


def in_parts(weights: Tensor, parts: tuple[Tensor, Tensor], dtype: torch.dtype) -> Tensor:
    """Weights with a mean of 1 over the rows of each part, [n].

    :param weights: above 0, of the first rows; further rows count equally.
    :param parts: row indices of the training part and of the validation part.
    :param dtype: of the result, in which no weight becomes 0.
    """
    whole = weights.new_ones(sum(map(len, parts)))
    whole[: len(weights)] = weights
    for part in parts:
        if len(part):
            whole[part] /= whole[part].mean()
    return whole.to(dtype).clamp(min=torch.finfo(dtype).tiny)


def weighable(bound: Any) -> Any:
    """The bound, or one of the same value, whose rows can have weights.

    :raises ValueError: for a bound of another kind.
    """
    if type(bound) is RenyiELBO:
        of_particles = bound.vectorize_particles and bound.num_particles > 1
        return ImportanceWeightedELBO(
            bound.num_particles,
            bound.alpha,
            max_plate_nesting=bound.max_plate_nesting - of_particles,
            vectorize_particles=bound.vectorize_particles,
        )
    if type(bound) in _LINEAR + _ENUMERATING or hasattr(bound, "row_losses"):
        return bound
    raise ValueError(
        f"elbo={type(bound).__name__} cannot be used with sample_weight, since the share of a row "
        "in its loss is not known: use one of the names of elbo, or give it a method row_losses("
        "program, guide, *data) that returns the losses of the rows, [B]"
    )


def weighted_loss(
    bound: Any, program: Any, guide: Any, data: list[Tensor], weights: Tensor
) -> Tensor:
    """The weighted sum over the rows of minus a bound, as a tensor to differentiate.

    :param bound: a `weighable` one.
    :param data: what program and guide take; `weights`: [B], above 0.
    """
    if type(bound) in _LINEAR:
        heavy = poutine.scale(program, scale=weights), poutine.scale(guide, scale=weights)
        loss: Tensor = bound.differentiable_loss(*heavy, *data)
        return loss
    losses = _enumerated_losses if type(bound) in _ENUMERATING else type(bound).row_losses
    return (weights * losses(bound, program, guide, *data)).sum()


def _enumerated_losses(bound: Any, program: Any, guide: Any, *data: Tensor) -> Tensor:
    """Minus the bound of every row, [B], where one site is summed out.

    Pyro's own sum takes no weights but a single number.
    """
    losses = []
    for trace, of_guide in bound._get_traces(program, guide, data, {}):
        log_p: Any = sum(site["log_prob"] for site in _samples(trace))
        log_q: Any = sum(site["log_prob"] for site in _samples(of_guide))
        values = tuple(range(-log_p.dim(), -int(bound.max_plate_nesting)))
        finite = [s for s in _samples(of_guide) if s["infer"].get("_enumerate_dim") is not None]
        if finite:
            pooling = bound.pooling if isinstance(bound, PooledELBO) else 0.0
            mean = (log_q.exp() * (log_p - log_q)).sum(values)
            rows = (1.0 - pooling) * mean + pooling * torch.logsumexp(log_p, values)
        else:
            rows = torch.logsumexp(log_p - log_q, values)
        losses.append(-rows.reshape(-1, rows.shape[-1]).mean(0))
    return torch.stack(losses).mean(0)


def _samples(trace: Any) -> list[Any]:
    return [site for site in trace.nodes.values() if site["type"] == "sample"]
