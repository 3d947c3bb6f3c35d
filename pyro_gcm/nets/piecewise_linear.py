"""Increasing linear splines of the revenues, with knots at quantiles of the training rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyro_gcm._utils.options import number
from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm._utils.tensors import without_products
from pyro_gcm._utils.validation import positive, positive_int
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

    @without_products
    def _line(self, r: Tensor) -> Tensor:
        if not self.squash:
            return r
        # In float64, since rounding in the type of r could make neighbours fall.
        wide = r.double().clamp(-_FAR, _FAR)
        squashed: Tensor = wide / (1.0 + wide.abs() / _LONG)
        return squashed.to(r.dtype)


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

    :param column: rows [n]; NaN is ignored.
    :param size: the most knots, at least 2.
    :param min_rows: rows from every knot up to the next one, and from the last one on.
    :returns: [at most size], in the dtype of the column.
    """
    rows = column[~column.isnan()]
    values, counts = rows.unique(return_counts=True)
    if min_rows > 1:
        kept = _with_enough_rows(counts, min_rows)
        ends = counts.cumsum(0)[torch.cat([kept[1:], kept.new_tensor([len(counts)])]) - 1]
        values, counts = values[kept], ends.diff(prepend=ends.new_zeros(1))
    if len(values) <= size:
        return values
    weight = counts.double().clamp(max=len(rows) / size).cumsum(0)
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


@without_products
def ramps(values: Tensor, knots: Tensor, slopes: Tensor) -> Tensor:
    """Ramps from 0 to 1 between neighbouring knots of each column, [..., m] -> [..., m, J].

    :param knots: [m, J + 1]; `slopes`: [m, J], from `slopes_between`.
    """
    low, high = knots[:, :-1], knots[:, 1:]
    inside = torch.minimum(torch.maximum(values.unsqueeze(-1), low), high)
    return (inside - low) * slopes
