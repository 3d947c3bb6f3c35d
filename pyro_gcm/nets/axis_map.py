"""Increasing maps of one more revenue, a time or a threshold, from the line onto the whole line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from pyro_gcm._utils.options import shape_of
from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import positive, positive_int
from pyro_gcm.distributions.event_curve import AxisInPlanes
from pyro_gcm.distributions.event_planes import planes
from pyro_gcm.nets.piecewise_linear import quantile_knots
from pyro_gcm.nets.revenue_maps import PositiveLinear


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
        self.event_shape = shape_of("event_shape", event_shape)
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
        at = position.double()
        bends = zip(self.knots.double(), self.widths.double(), strict=True)
        return [at, *(torch.sigmoid((at - knot) / width) for knot, width in bends)]


class AxisOfDraws(AxisInPlanes):
    """An `AxisMap` with the weights of given draws.

    :param weights: [..., *event, 1 + J], see `AxisMap.along`.
    """

    def __init__(self, axis: AxisMap, weights: Tensor, event_dim: int) -> None:
        self.axis, self.weights, self.event_dim = axis, weights, event_dim

    def __call__(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """The map and its slope."""
        return self.axis.along(self.weights, position, self.event_dim)

    def planes(self, position: Tensor) -> Iterator[Tensor]:
        """The map alone; the gates, which all coordinates share, are computed once."""
        gates = self.axis.gates(position)
        for own in planes(self.weights, self.weights.shape[-self.event_dim - 1 :]).split(
            len(gates)
        ):
            shift = own[0] * gates[0]
            for weight, gate in zip(own[1:], gates[1:], strict=True):
                shift.add_(weight * gate)
            yield shift


def _widths(knots: Tensor) -> Tensor:
    """Half the distance between the neighbours of each knot, not below a tenth of the mean."""
    if len(knots) < 2:
        return torch.ones_like(knots)
    gaps = knots.diff()
    padded = torch.cat([gaps[:1], gaps, gaps[-1:]])
    widths = 0.5 * (padded[:-1] + padded[1:])
    return widths.clamp(min=max(0.1 * float(widths.mean()), 1e-3))
