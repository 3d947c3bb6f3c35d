"""Increasing linear splines of the revenues, with knots at quantiles of the training rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyro_gcm._standardizer import Standardizer
from pyro_gcm._validation import positive_int
from pyro_gcm.nets.revenue_maps import PositiveLinear


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
    """

    knots: Tensor
    slopes: Tensor

    def __init__(self, r_dim: int, event_shape: Sequence[int], knots: int = 64) -> None:
        super().__init__()
        r_dim, size = positive_int("r_dim", r_dim), positive_int("knots", knots)
        probabilities = torch.linspace(0.0, 1.0, size + 3)[1:-1]
        quantiles = torch.special.ndtri(probabilities)
        self.register_buffer("knots", quantiles.repeat(r_dim, 1))  # [m, J + 1]
        self.register_buffer("slopes", 1.0 / self.knots.diff())  # [m, J], 0 between equal knots
        self.units = Standardizer(r_dim * size)
        self.linear = PositiveLinear(r_dim * (1 + size), event_shape)

    def learn(self, r: Tensor) -> None:
        """Place the knots at quantiles of rows [n, m] of inputs of `forward`; NaN is ignored."""
        rows = r.to(self.knots)
        self.knots.copy_(torch.stack([self._placed(column) for column in rows.unbind(1)]))
        width = self.knots.diff()
        self.slopes.copy_(torch.where(width > 0.0, 1.0 / width, 0.0))
        self.units.learn(self._ramps(rows))

    def _placed(self, column: Tensor) -> Tensor:
        """Knots of one revenue: different values, of which the last is repeated if necessary."""
        size = self.knots.shape[1]
        rows = column[~column.isnan()].double()
        values, counts = rows.unique(return_counts=True)
        if len(values) > size:
            # Quantiles of the rows. The count of a value is limited to that of one knot, so that a
            # frequent value takes one knot and leaves the others to the remaining values.
            weight = counts.double().clamp(max=len(rows) / size).cumsum(0)
            step = torch.arange(size, device=weight.device)
            targets = weight[0] + (weight[-1] - weight[0]) * step / (size - 1)
            place = (torch.searchsorted(weight, targets) - step).cummax(0).values + step
            values = values[torch.minimum(place, len(values) - size + step)]
        padding = values[-1:].expand(size - len(values))
        return torch.cat([values, padding]).to(self.knots)

    def _ramps(self, r: Tensor) -> Tensor:
        """Ramps of the revenues, [..., m] -> [..., m J]."""
        low, high = self.knots[:, :-1], self.knots[:, 1:]
        inside = torch.minimum(torch.maximum(r.unsqueeze(-1), low), high)
        return ((inside - low) * self.slopes).flatten(-2)

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., (G,) K]."""
        return self.linear(torch.cat([r, self.units(self._ramps(r))], dim=-1))
