"""Increasing splines of revenues, and of an axis, with knots at quantiles of the training rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm._utils.validation import number, positive, positive_int
from pyro_gcm.distributions.numerics import on_grid
from pyro_gcm.distributions.products import aligned, planes
from pyro_gcm.nets.revenue_maps import PositiveLinear

#: Scale of `squash`: within it a standardised revenue hardly changes.
_LONG = 4.0
#: Beyond it a squashed revenue is constant, and not the quotient of infinities.
_FAR = 1e30


@recorded("nets.PiecewiseLinear")
class PiecewiseLinear(nn.Module):
    """h_gk(r) = sum_m [w_gkm r_m + sum_j v_gkmj ramp_mj(r_m)] with positive weights w and v.

    ramp_mj increases from 0 to 1 between two neighbouring knots of revenue m, so each output is a
    sum of increasing linear splines. It suits effects that come in steps and counts with long
    tails. `GCM.learn_units`, which `fit` calls, places the knots at quantiles of the training rows,
    or at every value if there are few; before that they are quantiles of a standard normal. The
    ramps are standardised like columns of data.

    :param r_dim: number of revenues m.
    :param event_shape: (K,) or (G, K), the event shape of the costs.
    :param knots: number of ramps for each revenue.
    :param min_rows: training rows between two neighbouring knots, and above the last one.
    :param squash: whether the linear term is that of r / (1 + |r| / 4), which long tails cannot
        dominate.
    :param flat: leave the linear term out, so that h is constant beyond the last knot.
    :param smallest_scale: lower bound on the scale by which a ramp is standardised.
    :param ramp_weight: mean of the initial weights of the ramps; those of the linear term then have
        mean 1/m. By default all have mean 1 / (number of terms).
    """

    knots: Tensor
    slopes: Tensor

    def __init__(
        self,
        r_dim: int,
        event_shape: Sequence[int],
        knots: int = 64,
        *,
        min_rows: int = 1,
        squash: bool = False,
        flat: bool = False,
        smallest_scale: float = 0.0,
        ramp_weight: float | None = None,
    ) -> None:
        super().__init__()
        r_dim, size = positive_int("r_dim", r_dim), positive_int("knots", knots)
        self.min_rows, self.squash, self.flat = positive_int("min_rows", min_rows), squash, flat
        self.smallest_scale = number("smallest_scale", smallest_scale, 0.0)
        probabilities = torch.linspace(0.0, 1.0, size + 3)[1:-1]
        quantiles = torch.special.ndtri(probabilities)
        self.register_buffer("knots", quantiles.repeat(r_dim, 1))  # [m, J + 1]
        self.register_buffer("slopes", 1.0 / self.knots.diff())  # [m, J], 0 between equal knots
        self.units = Standardizer(r_dim * size)
        self.linear = PositiveLinear(r_dim * (size + (not flat)), event_shape)
        if ramp_weight is not None:
            ramp_weight = positive("ramp_weight", ramp_weight)
            self.linear.start_around(ramp_weight, slice(0 if flat else r_dim, None))
            self.linear.start_around(1.0 / r_dim, slice(0, 0 if flat else r_dim))

    def learn(self, r: Tensor) -> None:
        """Place the knots at quantiles of rows [n, m] of inputs of `forward`; NaN is ignored."""
        rows, size = r.to(self.knots), self.knots.shape[1]
        placed = [padded_knots(column, size, self.min_rows) for column in rows.unbind(1)]
        self.knots.copy_(torch.stack(placed))
        self.slopes.copy_(slopes_between(self.knots))
        self.units.learn(self._ramps(rows))
        self.units.scale.clamp_(min=self.smallest_scale)

    def _ramps(self, r: Tensor) -> Tensor:
        return ramps(r, self.knots, self.slopes).flatten(-2)

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., (G,) K]."""
        spline = self.units(self._ramps(r))
        return self.linear(spline if self.flat else torch.cat([self._line(r), spline], dim=-1))

    def _line(self, r: Tensor) -> Tensor:
        if not self.squash:
            return r
        # Each step rises with the one before, which a quotient of two that rise need not.
        wide = r.double().clamp(-_FAR, _FAR)
        below = wide < 0.0
        size = _LONG - _LONG / (1.0 + torch.where(below, -wide, wide) / _LONG)
        return torch.where(below, -size, size).to(r.dtype)


@recorded("nets.LearnsLast")
class LearnsLast(nn.Sequential):
    """Increasing maps after each other, the last of which learns from the rows that reach it."""

    def learn(self, r: Tensor) -> None:
        """Show the last map rows [n, m] of inputs of the first."""
        *before, last = self.children()
        for part in before:
            r = part(r)
        last.learn(r)  # type: ignore[operator]


def quantile_knots(column: Tensor, size: int, min_rows: int = 1) -> Tensor:
    """Increasing knots at quantiles of the rows, or at every value if there are few.

    The count of a value is limited to that of one knot, so that a frequent value takes one knot and
    leaves the others to the remaining values.

    :param column: rows [n].
    :param size: the most knots, at least 2.
    :param min_rows: rows from every knot up to the next one, and from the last one on.
    :returns: [at most size], in the dtype of the column.
    """
    values, counts = column.unique(return_counts=True)
    if min_rows > 1:
        kept = _with_enough_rows(counts, min_rows)
        ends = counts.cumsum(0)[torch.cat([kept[1:], kept.new_tensor([len(counts)])]) - 1]
        values, counts = values[kept], ends.diff(prepend=ends.new_zeros(1))
    if len(values) <= size:
        return values
    weight = counts.double().clamp(max=len(column) / size).cumsum(0)
    step = torch.arange(size, device=weight.device)
    targets = weight[0] + (weight[-1] - weight[0]) * step / (size - 1)
    place = (torch.searchsorted(weight, targets) - step).cummax(0).values + step
    return values[torch.minimum(place, len(values) - size + step)]


def _with_enough_rows(counts: Tensor, min_rows: int) -> Tensor:
    """Places of the values that are kept, the first among them."""
    before = [0, *counts.cumsum(0).tolist()]  # rows below each value, and all rows
    kept, total = [0], before[-1]
    while True:
        place = bisect_left(before, before[kept[-1]] + min_rows)
        if place >= len(counts) or total - before[place] < min_rows:
            return torch.tensor(kept, device=counts.device)
        kept.append(place)


def padded_knots(column: Tensor, size: int, min_rows: int = 1) -> Tensor:
    """`quantile_knots` [size], the last of which is repeated if there are fewer."""
    knots = quantile_knots(column, size, min_rows)
    return torch.cat([knots, knots[-1:].expand(size - len(knots))])


def slopes_between(knots: Tensor) -> Tensor:
    """1 / distance of neighbouring knots [..., J + 1], 0 where they are equal, [..., J]."""
    width = knots.diff()
    return torch.where(width > 0.0, 1.0 / width, 0.0)


def ramps(values: Tensor, knots: Tensor, slopes: Tensor) -> Tensor:
    """Ramps from 0 to 1 between neighbouring knots of each column, [..., m] -> [..., m, J].

    :param knots: [m, J + 1]; `slopes`: [m, J], from `slopes_between`.
    """
    low, high = knots[:, :-1], knots[:, 1:]
    inside = torch.minimum(torch.maximum(values.unsqueeze(-1), low), high)
    return (inside - low) * slopes


@recorded("nets.AxisMap")
class AxisMap(nn.Module):
    """m_gk(s) = a_gk s + sum_j v_gkj sigmoid((s - knot_j) / width_j) with a_gk > `smallest_slope`.

    All v_gkj are positive, so that m is smooth, increases at least as fast as `smallest_slope` and
    runs from -inf to inf: what the costs of a time or of a threshold are compared with (paper,
    Lemma 1), where a bounded map would leave no proper distribution. The knots are quantiles of the
    training rows, and the width of each is the distance to its neighbours.

    :param event_shape: shape of what is returned for a number: that of a revenue map.
    :param knots: number J of bends; 0 for a straight line.
    :param smallest_slope: lower bound on the slope, above 0.
    """

    knots: Tensor
    widths: Tensor

    def __init__(
        self, event_shape: Sequence[int], knots: int = 8, *, smallest_slope: float = 0.05
    ) -> None:
        super().__init__()
        self.event_shape = tuple(event_shape)
        size = positive_int("knots", knots, minimum=0)
        self.smallest_slope = positive("smallest_slope", smallest_slope)
        places = torch.special.ndtri(torch.linspace(0.0, 1.0, size + 2, dtype=torch.float64)[1:-1])
        self.register_buffer("knots", places.to(torch.get_default_dtype()))
        self.register_buffer("widths", _widths(places).to(self.knots))
        self.linear = PositiveLinear(1 + size, event_shape)
        self.linear.start_around(0.7, slice(0, 1))
        self.linear.start_around(0.3 / max(1, size), slice(1, None))

    @torch.no_grad()
    def learn(self, values: Tensor) -> None:
        """Place the knots at quantiles of rows [n, 1] of inputs of `forward`; NaN is ignored."""
        size = len(self.knots)
        if not size:
            return
        found = quantile_knots(values[:, 0].double(), size + 2)
        inner = found[1:-1] if len(found) > 2 else found
        # Rows of few values have fewer knots, which are repeated.
        places = inner[torch.linspace(0, len(inner) - 1, size, device=inner.device).round().long()]
        self.knots.copy_(places)
        self.widths.copy_(_widths(places))

    def forward(self, position: Tensor) -> Tensor:
        """[..., 1] -> [..., *event_shape], float64."""
        shift, _ = self.along(self.weights(), position[..., 0], len(self.event_shape))
        return shift

    def weights(self) -> Tensor:
        """a and v, [*event_shape, 1 + J], float64."""
        lowest = torch.zeros(1 + len(self.knots), dtype=torch.float64, device=self.knots.device)
        lowest[0] = self.smallest_slope
        return self.linear.weight.double() + lowest

    def along(self, weights: Tensor, position: Tensor, event_dim: int) -> tuple[Tensor, Tensor]:
        """The map and its slope at positions [...], each [..., *event], float64.

        :param weights: [..., *event, 1 + J], such as those of one member for every position.
        :param event_dim: number of dimensions of the event.
        """
        at, *gates = self.gates(position.reshape(*position.shape, *(1,) * event_dim))
        slope, *bends = weights.unbind(-1)
        shift = slope * at
        for weight, gate, width in zip(bends, gates, self.widths.double(), strict=True):
            shift = shift + weight * gate
            slope = slope + weight * (gate * (1.0 - gate) / width)
        return shift, slope.expand(shift.shape)

    def gates(self, position: Tensor) -> list[Tensor]:
        """Return the functions that a and v weigh, at positions [...]: 1 + J tensors, float64."""
        at = on_grid(position)
        bends = zip(self.knots.double(), self.widths.double(), strict=True)
        return [at, *(torch.sigmoid((at - knot) / width) for knot, width in bends)]


class AxisOfDraws:
    """An `AxisMap` with the weights of given draws.

    :param weights: [..., *event, 1 + J], see `AxisMap.along`.
    """

    def __init__(self, axis: AxisMap, weights: Tensor, event_dim: int) -> None:
        self.axis, self.weights, self.event_dim = axis, weights, event_dim

    def __call__(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """The map and its slope."""
        return self.axis.along(self.weights, position, self.event_dim)

    def planes(self, position: Tensor) -> Tensor:
        """The map alone, coordinates first, [(G) K, ...]; all of them share the gates."""
        first, *gates = self.axis.gates(position)
        own = planes(self.weights, self.weights.shape[-self.event_dim - 1 :])
        own = aligned(own, position[None])[0].unflatten(0, (-1, 1 + len(gates)))
        slope, *weights = own.unbind(1)
        shift = slope * first
        for weight, gate in zip(weights, gates, strict=True):
            shift = shift + weight * gate
        return shift


def _widths(knots: Tensor) -> Tensor:
    """Half the distance between the neighbours of each knot, not below a tenth of the mean."""
    if len(knots) < 2:
        return torch.ones_like(knots)
    gaps = knots.diff()
    padded = torch.cat([gaps[:1], gaps, gaps[-1:]])
    widths = 0.5 * (padded[:-1] + padded[1:])
    return widths.clamp(min=max(0.1 * float(widths.mean()), 1e-3))
