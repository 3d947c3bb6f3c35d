"""The parts of a model from what the user passed: a name or a module."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
from torch import nn

from pyro_gcm._validation import one_of
from pyro_gcm.models.responses import RESPONSES
from pyro_gcm.nets import (
    AmortizedGuide,
    Conditional,
    Identity,
    PositiveLinear,
    Probit,
    StandardNormal,
)

_REVENUE_MAPS = ("identity", "positive_linear", "probit")


def response_part(response: Any, x_dim: int, hidden: Any) -> Any:
    """The response that `response=` names or is."""
    if isinstance(response, nn.Module):
        return response
    one_of("response", response, list(RESPONSES))
    return RESPONSES[response](x_dim, hidden)


def prior_part(prior: Any, x_dim: int, z_dim: int, hidden: Any) -> nn.Module:
    """p(z|x) or p(z)."""
    if isinstance(prior, nn.Module):
        return prior
    one_of("prior", prior, ["conditional", "standard"])
    if prior == "standard":
        return StandardNormal(z_dim)
    return Conditional(dist.Normal, x_dim, (z_dim,), hidden)


def guide_part(guide: Any, reads_x: bool, x_dim: int, z_dim: int, hidden: Any) -> nn.Module | None:
    """q(z|x, r, y), or None where the prior itself is the guide."""
    if isinstance(guide, nn.Module):
        return guide
    guide = guide or ("prior" if reads_x else "amortised")
    one_of("guide", guide, ["prior", "amortised"])
    if guide == "amortised":
        return AmortizedGuide(x_dim, z_dim, hidden)
    if not reads_x:
        raise ValueError("guide='prior' with prior='standard' would never read x: use 'amortised'")
    return None


def revenue_map_part(
    revenue_map: Any, r_dim: int, cost_shape: tuple[int, ...], plain: bool
) -> nn.Module:
    """h, increasing; `plain` says that there is one alternative with a cost for each revenue."""
    if isinstance(revenue_map, nn.Module):
        return revenue_map
    one_of("revenue_map", revenue_map, _REVENUE_MAPS)
    if revenue_map == "positive_linear":
        return PositiveLinear(r_dim, cost_shape)
    if not plain:
        raise ValueError(
            f"revenue_map={revenue_map!r} needs one alternative with a cost for each of the "
            f"{r_dim} revenues, got costs of shape {cost_shape}: use 'positive_linear'"
        )
    return Identity() if revenue_map == "identity" else Probit()
