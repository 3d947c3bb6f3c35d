"""Columns of which some values are missing: drawn where they are, observed where they are not."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from pyro_gcm.nets import Standardizer


def in_units(standard: Any, standardizer: Standardizer) -> Any:
    """A distribution of standardised columns in the units of the data."""
    affine = dist.transforms.AffineTransform(standardizer.loc, standardizer.scale, event_dim=1)
    return dist.TransformedDistribution(standard, [affine])


def columns_in_units(standard: Any, standardizer: Standardizer) -> Any:
    """The same with the columns as a batch dimension, so that each can be masked."""
    affine = dist.transforms.AffineTransform(standardizer.loc, standardizer.scale)
    return dist.TransformedDistribution(_columns(standard), [affine])


def _columns(standard: Any) -> Any:
    base = standard
    while isinstance(base, torch.distributions.Independent):
        base = base.base_dist
    if base.event_shape:
        raise ValueError(
            f"missing values need a decoder with independent columns, got {type(base).__name__}"
        )
    return base


def draw_missing(name: str, columns: Any, value: Tensor) -> Tensor:
    """Site `{name}_missing` for the NaN of value [B, d]; returns the completed value.

    In the program and in its guide the site has the same distribution, so that its densities
    cancel: the missing values are integrated out by Monte Carlo (Mattei & Frellsen 2019, MIWAE).
    """
    missing = value.isnan()
    draw = pyro.sample(f"{name}_missing", columns.mask(missing).to_event(1))
    return torch.where(missing, draw, value)


def observe_partly(name: str, columns: Any, value: Tensor) -> Tensor:
    """Sites `{name}_missing` and `name`, whose density counts the observed values alone."""
    filled = draw_missing(name, columns, value)
    completed: Tensor = pyro.sample(name, columns.mask(~value.isnan()).to_event(1), obs=filled)
    return completed


def column_draws(standard: Any, noise: Tensor) -> Tensor:
    """Draws of independent columns, driven by standard normal noise that broadcasts to them."""
    base = _columns(standard)
    if isinstance(base, torch.distributions.Normal):
        return base.loc + base.scale * noise
    draws: Tensor = base.icdf(torch.special.ndtr(noise))
    return draws


def complete(standard: Any, value: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Standardised `value` with draws in place of NaN, and the log-density of what was there."""
    missing = value.isnan()
    if not missing.any():
        filled = value.expand(*standard.batch_shape, -1)
        return filled, standard.log_prob(filled)
    filled = torch.where(missing, column_draws(standard, noise), value)
    log_p = _columns(standard).log_prob(filled).masked_fill(missing, 0.0)
    return filled, log_p.sum(-1)
