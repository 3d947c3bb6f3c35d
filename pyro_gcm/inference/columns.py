"""Distributions of the columns of x and r in the units of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro.distributions as dist
import torch

from pyro_gcm.distributions import LazyDistribution
from pyro_gcm.nets import Standardizer


def in_units(
    standard: Callable[[], Any], batch_shape: torch.Size, units: Standardizer
) -> LazyDistribution:
    """The distribution of standardised columns `standard()` in the units of the data."""

    def build() -> Any:
        affine = dist.transforms.AffineTransform(units.loc, units.scale, event_dim=1)
        return dist.TransformedDistribution(standard(), [affine])

    return LazyDistribution(build, batch_shape, units.loc.shape, units.dtype)


def columns_in_units(lazy: Any) -> Any:
    """What `in_units` made, with the columns as a batch dimension, so that each can be masked."""
    if not isinstance(lazy, LazyDistribution):
        raise ValueError(
            "x and r may have missing values only where the model draws them, not from a "
            f"{type(lazy).__name__}"
        )
    built: Any = lazy.built
    affine = dist.transforms.AffineTransform(built.transforms[0].loc, built.transforms[0].scale)
    return dist.TransformedDistribution(independent_columns(built.base_dist), [affine])


def by_columns(fn: Any) -> Any:
    """A distribution as a product over its columns, where `in_units` made it and it is one."""
    if not isinstance(fn, LazyDistribution):
        return fn
    try:
        return columns_in_units(fn).to_event(1)
    except ValueError:
        return fn


def independent_columns(standard: Any) -> Any:
    """The univariate distribution of the columns of a decoder, as a batch dimension."""
    base = standard
    while isinstance(base, torch.distributions.Independent):
        base = base.base_dist
    if base.event_shape:
        raise ValueError(
            f"missing values need a decoder with independent columns, got {type(base).__name__}"
        )
    return base
