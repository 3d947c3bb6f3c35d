"""Features of a table for a network: scaled columns, levels, piecewise linear encodings."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.standardizer import Standardizer
from pyro_gcm.nets.networks import kept, linear

#: Lower bound on the spread of a feature of 0 and 1, so that a rare level is not a huge number.
_SMALLEST_SPREAD = 0.2
#: Where the smooth clip of a numeric column sets in, in robust standard deviations.
_CLIP = 3.0
#: A normal distribution has its quartiles this many standard deviations apart.
_QUARTILES = 1.35
#: Where a value is clipped as good as wholly, so that its square is finite.
_FAR = 1e6
#: How much of a ramp has to be behind a value for its step to be 1.
_WHOLE = 0.999


@recorded("nets.TabularFeatures")
class TabularFeatures(nn.Module):
    """Features of standardised covariates, learned from the training rows.

    - A column with two values is standardised as 0 and 1, with a spread of at least 0.2.
    - A numeric column is scaled by its median and quartiles and clipped smoothly, z / sqrt(1 +
      (z/3)^2) (RealMLP; Holzmueller et al. 2024). Beside it stand ramps from 0 to 1 between
      neighbouring quantiles (a piecewise linear encoding; Gorishniy et al. 2022), and a step at the
      end of each ramp, standardised likewise.
    - A group of 0/1 columns for the levels of an ordered variable has its cumulative columns, "at
      least the second level" and so on, as well.
    - A constant column is left out, unless all are.

    There is room for every feature that a column could have, so that the shapes of the weights
    behind it do not depend on the data; `active` says which of them `forward` returns. Before
    `learn` those are the unscaled columns.

    :param x_dim: number of columns d.
    :param bins: ramps of a numeric column, at most; 0 for none.
    :param steps: size of the steps, if a ramp has size 1; 0 for none.
    :param ordered: groups of indices of columns, the levels of each in their order.
    :raises ValueError: for a column in two groups, or one that there is not.

    >>> features = TabularFeatures(2, bins=4)
    >>> features.learn(torch.stack([torch.arange(20.0), torch.arange(20.0) % 2], 1))
    >>> features(torch.zeros(3, 2)).shape  # two columns, four ramps and four steps
    torch.Size([3, 10])
    """

    kept: Tensor
    numeric: Tensor
    sums: Tensor
    loc: Tensor
    scale: Tensor
    knots: Tensor
    slopes: Tensor
    ramp_loc: Tensor
    ramp_scale: Tensor

    def __init__(
        self,
        x_dim: int,
        bins: int = 16,
        *,
        steps: float = 0.5,
        ordered: Sequence[Sequence[int]] = (),
    ) -> None:
        super().__init__()
        self.x_dim, self.bins, self.steps = x_dim, bins, steps
        self.ordered = [[int(column) for column in group] for group in ordered]
        grouped = sorted(itertools.chain(*self.ordered))
        if len({*grouped}) < len(grouped) or not {*grouped} <= {*range(x_dim)}:
            raise ValueError(f"ordered must have columns below {x_dim} once, got {self.ordered}")
        cumulative = sum(len(group) - 1 for group in self.ordered)
        columns, kinds = self.x_dim + cumulative, 2 if steps else 1
        #: Features there is room for.
        self.capacity = columns + kinds * self.x_dim * self.bins
        self.register_buffer("kept", torch.arange(self.capacity) < self.x_dim)
        self.register_buffer("numeric", torch.zeros(self.x_dim, dtype=torch.bool))
        self.register_buffer("sums", torch.zeros(self.x_dim, cumulative))
        self.register_buffer("loc", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))
        self.register_buffer("knots", torch.zeros(self.x_dim, self.bins + 1))
        self.register_buffer("slopes", torch.zeros(self.x_dim, self.bins))
        self.register_buffer("ramp_loc", torch.zeros(kinds, self.x_dim, self.bins))
        self.register_buffer("ramp_scale", torch.ones(kinds, self.x_dim, self.bins))

    @property
    def active(self) -> Tensor:
        """Indices of the features that `forward` returns, [A]."""
        return self.kept.nonzero()[:, 0]

    @torch.no_grad()
    def learn(self, x: Tensor, units: Standardizer | None = None) -> None:
        """Learn from rows [n, d], a column at a time.

        :param units: what turns these rows into inputs of `forward`; nothing by default.
        """
        units = units or Standardizer(self.x_dim).to(x.device)
        kept = self.kept.new_zeros(self.capacity)
        ranges = torch.ones_like(self.loc)
        for j in range(self.x_dim):
            column = ((x[:, j] - units.loc[j]) / units.scale[j]).to(self.loc)
            low, high = column.amin(), column.amax()
            kept[j] = low < high
            self.numeric[j] = bool(((column > low) & (column < high)).any())
            ranges[j] = torch.where(low < high, high - low, 1.0)
            if self.numeric[j]:
                self._learn_numeric(j, column)
            else:
                mean, spread = column.mean(), column.std(correction=0) / ranges[j]
                self.loc[j] = mean
                self.scale[j] = ranges[j] * spread.clamp(min=_SMALLEST_SPREAD)
        self._learn_sums(x, units, ranges)
        columns = len(self.loc)
        kept[self.x_dim : columns] = self.scale[self.x_dim :] > 0.0
        self.scale[self.x_dim :].clamp_(min=_SMALLEST_SPREAD)
        # Steps of a ramp exist where the ramp does.
        wide = (self.slopes > 0.0) & self.numeric[:, None]
        kept[columns:] = wide.expand_as(self.ramp_loc).flatten()
        kept[0] |= ~kept.any()
        self.kept.copy_(kept)

    def _learn_numeric(self, j: int, column: Tensor) -> None:
        low, middle, high = _quartiles(column)
        self.loc[j] = middle
        self.scale[j] = (high - low) / _QUARTILES if high > low else column.std(correction=0)
        if self.bins:
            self.knots[j] = padded_knots(column, self.bins + 1)
            self.slopes[j] = slopes_between(self.knots[j])
            of_column = ramps(column[:, None], self.knots[j : j + 1], self.slopes[j : j + 1])[:, 0]
            for kind, values in enumerate(self._with_steps(of_column)):
                self.ramp_loc[kind, j] = values.mean(0)
                self.ramp_scale[kind, j] = values.std(0, correction=0).clamp(min=_SMALLEST_SPREAD)

    def _learn_sums(self, x: Tensor, units: Standardizer, ranges: Tensor) -> None:
        at = 0
        for group in self.ordered:
            level = ((x[:, group] - units.loc[group]) / units.scale[group]).to(self.loc)
            weight = 1.0 / ranges[group]
            for first in range(1, len(group)):
                values = (level[:, first:] * weight[first:]).sum(1)
                self.sums[group[first:], at] = weight[first:]
                self.loc[self.x_dim + at] = values.mean()
                self.scale[self.x_dim + at] = values.std(correction=0)
                at += 1

    def _with_steps(self, ramp: Tensor) -> list[Tensor]:
        return [ramp, (ramp >= _WHOLE).to(ramp.dtype)] if self.steps else [ramp]

    def forward(self, x: Tensor) -> Tensor:
        """Features [..., A] of standardised columns [..., d]."""
        numeric, index, parts = kept(self, self._choice)
        if self.sums.shape[1]:
            x = torch.cat([x, linear(x, self.sums.T)], -1)
        z = (x - self.loc) / self.scale
        features, all_numeric = [z], len(numeric) == z.shape[-1]
        if len(numeric):
            clipped = (z if all_numeric else z[..., numeric]).clamp(-_FAR, _FAR)
            clipped = clipped / (1.0 + (clipped / _CLIP).square()).sqrt()
            features = [clipped if all_numeric else z.index_copy(-1, numeric, clipped)]
        if parts:
            knots, slopes, *units = parts
            ramp = ramps(x if all_numeric else x[..., numeric], knots, slopes)
            for values, loc, factor in zip(
                self._with_steps(ramp), units[::2], units[1::2], strict=True
            ):
                features.append(((values - loc) * factor).flatten(-2))
        whole = torch.cat(features, -1)
        return whole if len(index) == whole.shape[-1] else whole[..., index]

    def _choice(self) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Indices of the numeric columns, and of the features among all that are computed.

        Third are knots, slopes, and location and factor of ramps and steps of numeric columns.
        """
        numeric = self.numeric.nonzero()[:, 0]
        found = self.kept[: len(self.loc)]
        parts: list[Tensor] = []
        if len(numeric) and self.bins:
            rest = self.kept[len(self.loc) :].view_as(self.ramp_loc)[:, numeric]
            found = torch.cat([found, rest.flatten()])
            parts = [self.knots[numeric], self.slopes[numeric]]
            for size, loc, scale in zip(
                (1.0, self.steps), self.ramp_loc, self.ramp_scale, strict=False
            ):
                parts += [loc[numeric], size / scale[numeric]]
        return numeric, found.nonzero()[:, 0], parts


def count_numeric(x: Tensor) -> int:
    """The number of columns of x [n, d] with more than two values."""
    return int(((x > x.amin(0)) & (x < x.amax(0))).any(0).sum())


def _quartiles(column: Tensor) -> Tensor:
    """The lower quartile, the median and the upper quartile."""
    ordered = column.sort().values
    place = torch.tensor([0.25, 0.5, 0.75], device=column.device) * (len(column) - 1)
    return ordered[place.round().long()]


# Knots at quantiles, and ramps between them


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
    low, high, values = knots[:, :-1], knots[:, 1:], values.unsqueeze(-1)
    if values.requires_grad:  # with the mean of both slopes at a knot, which `clamp` adds up
        inside = torch.minimum(torch.maximum(values, low), high)
    else:
        inside = values.clamp(low, high)
    return inside.sub_(low).mul_(slopes)
