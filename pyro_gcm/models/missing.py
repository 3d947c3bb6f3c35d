"""Values that were not observed: missing entries of x and r, and costs that were observed in part.

In a program, `PartlyObserved` turns a site with missing values into two, one for what is missing
and one for what is not. The functions below it do the same for predictions.
"""

from __future__ import annotations

import math
from typing import Any

import pyro
import torch
from torch import Tensor

from pyro_gcm._validation import ArrayLike, as_tensor, matrix, same_rows
from pyro_gcm.distributions import ObservedCost, OrderEvent, given_observed
from pyro_gcm.distributions.numerics import rounded_up
from pyro_gcm.inference.views import CostGuard
from pyro_gcm.models.column_units import columns_in_units, independent_columns
from pyro_gcm.nets import Standardizer
from pyro_gcm.sampling.base_samples import column_draws

# In the program


class PartlyObserved(CostGuard):
    """Handler inside a program whose observations of x, r, c or y are incomplete.

    - Site x or r, observed with NaN: site `x_missing` or `r_missing` draws the missing values, and
      the density of the site itself counts the observed ones only.
    - Site c, with observed costs: site `c_observed` is their density, and site c becomes
      p(c | c_observed).
    - Site y, observed with NaN beside observed costs: NaN does not count.

    :param c: observed costs [B, m] in the units of r, NaN for the others; or None.
    :param units: of the revenues.
    """

    def __init__(self, c: Tensor | None, units: Standardizer) -> None:
        super().__init__()
        self._observed_costs, self._units = c, units
        self._r: Any = None
        self._split = False

    def _pyro_sample(self, msg: Any) -> None:
        name, value, costs = msg["name"], msg["value"], self._observed_costs
        if name in ("x", "r") and value is not None and value.isnan().any():
            columns = columns_in_units(msg["fn"])
            # In float64 the density is the same for rows of every type.
            msg["value"] = draw_missing(name, columns, value.double())
            msg["fn"] = columns.mask(~value.isnan()).to_event(1)
        elif name == "c" and costs is not None and not self._split:
            self._split = True  # `uncollapse` has a second site c, after y
            units, cost = self._units, msg["fn"]
            pyro.sample("c_observed", ObservedCost(cost, units.loc, units.scale), obs=costs)
            known = _on_its_side(costs, self._r, units(self._r), units)
            msg["fn"] = given_observed(cost, known)
        elif name == "y" and costs is not None and value is not None:
            msg["mask"] = ~value.isnan() if msg["mask"] is None else msg["mask"] & ~value.isnan()
            msg["value"] = value.nan_to_num()
        super()._pyro_sample(msg)  # the guard sees the site as it is now

    def _pyro_post_sample(self, msg: Any) -> None:
        if msg["name"] == "r":
            self._r = msg["value"]
        super()._pyro_post_sample(msg)


def draw_missing(name: str, columns: Any, value: Tensor) -> Tensor:
    """Site `{name}_missing` for the NaN of value [B, d]; returns the completed value.

    In the program and in its guide the site has the same distribution, so that its densities
    cancel: missing values are integrated out by Monte Carlo (Mattei & Frellsen 2019, MIWAE).
    """
    missing = value.isnan()
    draw = pyro.sample(f"{name}_missing", columns.mask(missing).to_event(1))
    return torch.where(missing, draw, value)


# In predictions


def complete(standard: Any, value: Tensor, base: Tensor) -> tuple[Tensor, Tensor]:
    """Standardised `value` with draws in place of NaN, and the log-density of the rest."""
    missing = value.isnan()
    if not missing.any():
        filled = value.expand(*standard.batch_shape, -1)
        return filled, standard.log_prob(filled)
    columns = independent_columns(standard)
    filled = torch.where(missing, column_draws(columns, base), value)
    return filled, columns.log_prob(filled).masked_fill(missing, 0.0).sum(-1)


def event_given_observed(
    event: OrderEvent, c: Tensor, r: Tensor, units: Standardizer
) -> tuple[OrderEvent, Tensor]:
    """The event once some costs are known, and their log-density in the units of the data."""
    known = _on_its_side(c, r, event.revenue, units)
    log_density = ObservedCost(event.cost, units.loc, units.scale).log_prob(c)
    return OrderEvent(given_observed(event.cost, known), event.revenue), log_density


def costs_in_units(
    c: Tensor, below: Tensor, r: Tensor, observed: Tensor | None, units: Standardizer
) -> Tensor:
    """Draws of standardised costs in the units of r.

    Rounding does not move a draw across r, and observed costs stay as they are.

    :param c: draws [S, B, m].
    :param below: whether each of them is below its standardised revenue.
    """
    values = units.inverse(c)
    if observed is not None:
        values = torch.where(observed.isnan(), values, observed.to(values.dtype))
    lowest = rounded_up(r, values.dtype)  # the first number of this type that is not below r
    highest = torch.nextafter(lowest, lowest.new_tensor(-math.inf))
    return torch.where(below, torch.minimum(values, highest), torch.maximum(values, lowest))


def _on_its_side(c: Tensor, r: Tensor, revenue: Tensor, units: Standardizer) -> Tensor:
    """Standardised c on the side of `revenue` on which c is of r: rounding must not cross it."""
    standard, revenue = torch.broadcast_tensors(units(c).to(revenue.dtype), revenue)
    below = torch.minimum(standard, torch.nextafter(revenue, revenue.new_tensor(-math.inf)))
    sided = torch.where(c < r, below, torch.maximum(standard, revenue))
    return torch.where(r.isnan(), standard, sided)


# Checks


def checked_costs(c: ArrayLike, r: Tensor | None, y: Tensor | None, r_dim: int) -> Tensor:
    """Observed costs [B, r_dim], NaN for the others, that agree with r [B, r_dim] and y [B].

    y = 1 exactly if all c < r. Nor can a cost and the outcome be known where the revenue is not:
    together they bound it, and draws of what is missing, made without them, would have density 0.

    :raises ValueError: for another shape, and for costs that contradict y.
    """
    c = as_tensor("c", c)
    if c.dim() == 1 and r_dim == 1:
        c = c.unsqueeze(1)
    c = matrix("c", c, r_dim, "r_dim", None if r is None else r.device, missing=True)
    same_rows(c=c, **{name: v for name, v in (("r", r), ("y", y)) if v is not None})
    if r is None or y is None:
        return c
    boundless = (~c.isnan() & r.isnan()).any(-1) & ~y.isnan()
    if boundless.any():
        raise ValueError(
            f"c has values where r is missing in {int(boundless.sum())} rows whose y is known, the "
            f"first in row {int(boundless.nonzero()[0])}: make c or y NaN there"
        )
    unknown = c.isnan() | r.isnan()
    missed = (~unknown & (c >= r)).any(-1)
    sure = (~unknown & (c < r)).all(-1)
    wrong = ((y == 1) & missed) | ((y == 0) & sure)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"c contradicts y in {int(wrong.sum())} rows, the first in row {row}: "
            f"y = {y[row].item():g} with c = {c[row].tolist()} and r = {r[row].tolist()}; y is 1 "
            "exactly if c < r"
        )
    return c
