"""The two sides of an order event: a cost and a revenue, each a tensor or a distribution."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyro.distributions as dist
import torch
from torch import Tensor

from pyro_gcm.distributions.families import base_distribution, cost_family


class Side(NamedTuple):
    """A cost or a revenue as an order event uses it."""

    base_dist: Any  # the univariate distribution of its coordinates; None for a tensor
    like: Tensor  # the tensor itself, or a parameter, for dtype and device
    shape: torch.Size
    event_dim: int  # 0 for a tensor, which does not determine it


def side(name: str, value: Any) -> Side:
    """What `OrderEvent` takes from its argument `name`.

    :raises TypeError: for what is neither a tensor nor a distribution of a registered family.
    :raises ValueError: for another event shape than [K] or [G, K], or dependent coordinates.
    """
    if isinstance(value, Tensor):
        return Side(None, value, value.shape, 0)
    if not isinstance(value, torch.distributions.Distribution):
        raise TypeError(f"{name} must be a tensor or a distribution, got {type(value).__name__}")
    event_dim = len(value.event_shape)
    if event_dim not in (1, 2):
        raise ValueError(
            f"{name} has event_dim {event_dim}, expected 1 for [K] or 2 for [G, K]; "
            "use .to_event(1) or .to_event(2)"
        )
    base = base_distribution(value)
    cost_family(type(base))  # registered
    parameter: Tensor = getattr(base, next(iter(base.arg_constraints)))
    return Side(base, parameter, value.batch_shape + value.event_shape, event_dim)


def gaussian_difference(cost: Any, revenue: Any) -> Any:
    """The distribution of c - r for independent Gaussian c and r (E_k in the paper's IGCM)."""
    for base in (cost, revenue):
        if not isinstance(base, torch.distributions.Normal):
            raise ValueError(
                "a random revenue has a closed form for Gaussian cost and Gaussian revenue only, "
                f"got {type(cost).__name__} and {type(revenue).__name__}: sample the revenue"
            )
    scale = torch.hypot(cost.scale.double(), revenue.scale.double())
    return dist.Normal(cost.loc.double() - revenue.loc.double(), scale)
