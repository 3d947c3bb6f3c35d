"""Costs that were seen for some rows and some coordinates, in the program and in predictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyro
import pyro.poutine as poutine
import torch
from torch import Tensor

from pyro_gcm._validation import ArrayLike, as_tensor, matrix, same_rows
from pyro_gcm.distributions import ObservedCost, OrderEvent, given_observed
from pyro_gcm.models.responses import Binary
from pyro_gcm.nets import Standardizer

if TYPE_CHECKING:
    from pyro_gcm.models.gcm import GCM


def observe_costs(cost: Any, c: Tensor, r: Tensor, units: Standardizer) -> Any:
    """Site `c_observed`, the density of the costs that were seen; returns p(c | c_seen).

    :param cost: p(c|z), for standardised costs of event shape [m].
    :param c: [B, m] in the units of the revenues r [B, m], NaN where a cost was not seen.
    """
    pyro.sample("c_observed", ObservedCost(cost, units.loc, units.scale), obs=c)
    return given_observed(cost, _on_its_side(c, r, units(r), units))


def observe_outcome(fn: Any, y: Tensor | None) -> Tensor:
    """Site `y`, whose density counts the outcomes that were seen."""
    if y is None:
        drawn: Tensor = pyro.sample("y", fn)
        return drawn
    is_seen: Any = ~y.isnan()
    with poutine.mask(mask=is_seen):
        seen: Tensor = pyro.sample("y", fn, obs=y.nan_to_num())
    return seen


def event_given_observed(
    event: OrderEvent, c: Tensor, r: Tensor, units: Standardizer
) -> tuple[OrderEvent, Tensor]:
    """The event once some costs are known, and their log-density in the units of the data."""
    known = _on_its_side(c, r, event.revenue, units)
    log_density = ObservedCost(event.cost, units.loc, units.scale).log_prob(c)
    return OrderEvent(given_observed(event.cost, known), event.revenue), log_density


def checked_costs(model: GCM, c: ArrayLike, r: Tensor | None, y: Tensor | None) -> Tensor:
    """What `GCM.check_costs` returns; see there."""
    if not isinstance(model.response, Binary):
        raise ValueError(
            f"c needs response='binary', got {type(model.response).__name__.lower()!r}"
        )
    if not model.costs_have_units:
        raise ValueError(
            "c needs revenue_map='identity', one alternative with a cost in the units of each "
            f"revenue; got {type(model.revenue_map).__name__}"
        )
    c = as_tensor("c", c)
    if c.dim() == 1 and model.r_dim == 1:
        c = c.unsqueeze(1)
    c = matrix("c", c, model.r_dim, "r_dim", missing=True)
    same_rows(c=c, **{name: v for name, v in (("r", r), ("y", y)) if v is not None})
    if y is not None and y.isnan().any() and getattr(model.z_guide, "reads_outcome", False):
        raise ValueError(
            "y has missing values, and the guide reads y: use guide='prior' or 'amortised'"
        )
    if r is not None and y is not None:
        _check_agreement(c.to(r.device), r, y)
    return c


def _check_agreement(c: Tensor, r: Tensor, y: Tensor) -> None:
    """An error for a row whose costs contradict its outcome: y = 1 exactly if all c < r.

    Nor can a cost and the outcome be known where the revenue is not: together they bound it, and
    draws of what is missing, made without them, would have density 0.
    """
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
        costs, revenues = c[row].tolist(), r[row].tolist()
        raise ValueError(
            f"c contradicts y in {int(wrong.sum())} rows, the first in row {row}: y = "
            f"{y[row].item():g} with c = {costs} and r = {revenues}; y is 1 exactly if c < r"
        )


def _on_its_side(c: Tensor, r: Tensor, revenue: Tensor, units: Standardizer) -> Tensor:
    """Standardised c on the side of `revenue` on which c is of r: rounding must not cross it."""
    standard, revenue = torch.broadcast_tensors(units(c).to(revenue.dtype), revenue)
    below = torch.minimum(standard, torch.nextafter(revenue, revenue.new_tensor(-math.inf)))
    sided = torch.where(c < r, below, torch.maximum(standard, revenue))
    return torch.where(r.isnan(), standard, sided)
