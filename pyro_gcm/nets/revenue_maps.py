"""Increasing maps of the revenues, and of an axis; costs are compared with their outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions.transforms import Transform

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm.distributions.products import coarse, on_grid
from pyro_gcm.nets.networks import kept, linear
from pyro_gcm.nets.tabular_features import padded_knots, quantile_knots, ramps, slopes_between

#: Scale of `squash`: within it a standardised revenue hardly changes.
_LONG = 4.0
#: Beyond it a squashed revenue is constant, and not the quotient of infinities.
_FAR = 1e30


@recorded("nets.PositiveLinear")
class PositiveLinear(nn.Module):
    """h_gk(r) = sum_m P(W)_gkm r_m with P(W) = softplus(10 W) / 10 (paper, appendix E.1).

    The weights are non-negative, so every output is non-decreasing in every revenue.

    :param r_dim: number of revenues m.
    :param event_shape: (K,) or (G, K), the event shape of the costs.
    """

    def __init__(self, r_dim: int, event_shape: Sequence[int]) -> None:
        super().__init__()
        self.event_shape = tuple(event_shape)
        # Random weights around 1/m, which make the alternatives different.
        self.raw_weight = nn.Parameter(torch.empty(*self.event_shape, r_dim))
        self.start_around(1.0 / max(1, r_dim), slice(None))

    @torch.no_grad()
    def start_around(self, mean: float, columns: slice) -> None:
        """Random weights between 0 and twice their mean for some of the inputs."""
        raw = self.raw_weight[..., columns]
        start = torch.rand(raw.shape) * 2.0 * mean
        raw.copy_(torch.log(torch.expm1(10.0 * start.clamp(min=1e-3))) / 10.0)

    @property
    def weight(self) -> Tensor:
        """The weights P(W), [(G,) K, m]."""
        return nn.functional.softplus(self.raw_weight, beta=10.0)

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., (G,) K]; in training rows [B, m] are side by side in memory."""
        if torch.is_grad_enabled() and r.dim() == 2:
            mapped = (self.weight.flatten(0, -2) @ r.T).T
        else:
            mapped = linear(r, kept(self, lambda: self.weight.flatten(0, -2)))
        return mapped.reshape(*r.shape[:-1], *self.event_shape)


@recorded("nets.Probit")
class Probit(nn.Module):
    """h(r) = Phi^-1(r) for revenues such as quantile levels; 0 and 1 map to -inf and inf.

    Levels, and those above 1/2 by their distances from 1, are rounded relatively (`coarse`).
    """

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., m]."""
        level, lower = r.double(), r < 0.5
        x = torch.special.ndtri(coarse(torch.where(lower, level, 1.0 - level)))
        return torch.where(lower, x, -x).to(r.dtype)


@recorded("nets.Sigmoid")
class Sigmoid(nn.Module):
    """h(r) = 1 / (1 + exp(-r)), the bounded map of the paper, appendix C.

    A cost above 1 exceeds h(r) for every revenue, so the probability need not tend to 1. It is
    computed in float64 on a grid of inputs (`on_grid`), between which rounding cannot make it fall.
    """

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., m], in (0, 1)."""
        return torch.sigmoid(on_grid(r)).to(r.dtype)


@recorded("nets.Bijection")
class Bijection(nn.Module):
    """An increasing bijection of one variable, given as a torch transform, for every revenue.

    It is computed in float64 on a grid of inputs (`on_grid`), between which rounding cannot make it
    fall. Tensors inside the transform are not moved to another device.

    :param transform: a transform such as `SigmoidTransform()`, `ExpTransform()` or a
        `ComposeTransform`. A model checks at some revenues that it does not fall.

    >>> Bijection(torch.distributions.transforms.ExpTransform())(torch.zeros(2))
    tensor([1., 1.])
    """

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self.transform = transform

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., m]."""
        return self.transform(on_grid(r)).to(r.dtype)


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
        self.min_rows, self.squash, self.flat = min_rows, squash, flat
        self.smallest_scale = smallest_scale
        probabilities = torch.linspace(0.0, 1.0, knots + 3)[1:-1]
        quantiles = torch.special.ndtri(probabilities)
        self.register_buffer("knots", quantiles.repeat(r_dim, 1))  # [m, J + 1]
        self.register_buffer("slopes", 1.0 / self.knots.diff())  # [m, J], 0 between equal knots
        self.units = Standardizer(r_dim * knots)
        self.linear = PositiveLinear(r_dim * (knots + (not flat)), event_shape)
        if ramp_weight is not None:
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
        if torch.is_grad_enabled():  # ramps are from 0 to 1, and need no float64
            spline = self._ramps(r).sub_(self.units.loc).div_(self.units.scale)
        else:
            spline = self.units(self._ramps(r))
        return self.linear(spline if self.flat else torch.cat([self._line(r), spline], dim=-1))

    def _line(self, r: Tensor) -> Tensor:
        if not self.squash:
            return r
        if torch.is_grad_enabled():
            return _LONG * nn.functional.softsign(r / _LONG)
        # Each step rises with the one before, which a quotient of two that rise need not.
        wide = r.double().clamp(-_FAR, _FAR)
        below = wide < 0.0
        size = _LONG - _LONG / (1.0 + torch.where(below, -wide, wide) / _LONG)
        return torch.where(below, -size, size).to(r.dtype)


@recorded("nets.SequentialMap")
class SequentialMap(nn.Sequential):
    """Increasing maps after each other, the last of which learns from the rows that reach it."""

    def learn(self, r: Tensor) -> None:
        """Show the last map rows [n, m] of inputs of the first."""
        *before, last = self.children()
        for part in before:
            r = part(r)
        last.learn(r)  # type: ignore[operator]


def member_map(
    r_dim: int,
    map_shape: tuple[int, ...],
    *,
    levels: bool = False,
    seed: int = 0,
    **options: Any,
) -> nn.Module:
    """The increasing maps of all members: squashed revenues and splines of a few ramps.

    :param levels: whether the revenue is a quantile level, whose probit the splines are of.
    :param seed: of the initial weights, which are others than those of the encoder.
    :param options: of `PiecewiseLinear`.
    """
    options = {"knots": 24, "min_rows": 20, "smallest_scale": 0.05, "ramp_weight": 0.02} | options
    options["squash"] = not levels
    with Randomness(seed + 1).in_use():
        splines = PiecewiseLinear(r_dim, map_shape, **options)
    return SequentialMap(Probit(), splines) if levels else splines


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
        self.smallest_slope = smallest_slope
        places = torch.special.ndtri(torch.linspace(0.0, 1.0, knots + 2, dtype=torch.float64)[1:-1])
        self.register_buffer("knots", places.to(torch.get_default_dtype()))
        self.register_buffer("widths", _widths(places).to(self.knots))
        self.linear = PositiveLinear(1 + knots, event_shape)
        self.linear.start_around(0.7, slice(0, 1))
        self.linear.start_around(0.3 / max(1, knots), slice(1, None))

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
        dims = len(self.event_shape)
        return self.with_weights(self.weights(), dims, position[..., 0])[0]

    def weights(self) -> Tensor:
        """a and v, [*event_shape, 1 + J], float64."""
        lowest = torch.zeros(1 + len(self.knots), dtype=torch.float64, device=self.knots.device)
        lowest[0] = self.smallest_slope
        return self.linear.weight.double() + lowest

    def with_weights(
        self, weights: Tensor, event_dim: int, position: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The map with other weights and its slope at positions [...], each [..., *event], float64.

        :param weights: [..., *event, 1 + J], such as those of one member for every position.
        :param event_dim: number of dimensions of the event.
        """
        at = on_grid(position.reshape(*position.shape, *(1,) * event_dim))
        slope, *bends = weights.unbind(-1)
        shift = slope * at
        for weight, knot, width in zip(
            bends, self.knots.double(), self.widths.double(), strict=True
        ):
            gate = torch.sigmoid((at - knot) / width)
            shift = shift + weight * gate
            slope = slope + weight * (gate * (1.0 - gate) / width)
        return shift, slope.expand(shift.shape)


def _widths(knots: Tensor) -> Tensor:
    """Half the distance between the neighbours of each knot, not below a tenth of the mean."""
    if len(knots) < 2:
        return torch.ones_like(knots)
    gaps = knots.diff()
    padded = torch.cat([gaps[:1], gaps, gaps[-1:]])
    widths = 0.5 * (padded[:-1] + padded[1:])
    return widths.clamp(min=max(0.1 * float(widths.mean()), 1e-3))
