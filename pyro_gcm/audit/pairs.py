"""Pairs r <= r' in the product order, from random steps and from steps on a grid.

All revenues are *oriented* here: a column in which predictions should decrease is negated, so that
the prediction at the second element of a pair should never be smaller. Negation is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_gcm.audit.predictors import Array

_MIN_STEPS, _MAX_STEPS = 64, 4096  # of the grid of a column


@dataclass(frozen=True)
class Pairs:
    """n pairs of oriented revenues `low` <= `high`, both [n, m], and the rows [n] of their x."""

    rows: npt.NDArray[np.int64]
    low: Array
    high: Array

    def take(self, index: Any) -> Pairs:
        """The pairs at an index, a slice or a mask."""
        return Pairs(self.rows[index], self.low[index], self.high[index])

    def __len__(self) -> int:
        return len(self.rows)


class Space:
    """The search space: oriented rows, bounds [m], and indices `moving` of the varied columns.

    :param r: rows of data, [n, m].
    :param signs: +1, -1 or 0 (held fixed) for each column, [m].
    :param margin: fraction of the range by which it is extended at both ends.
    :param dtype: dtype to which the predictor's inputs are rounded.
    """

    def __init__(self, r: Array, signs: Array, margin: float, dtype: np.dtype[Any]) -> None:
        self.r = r.astype(dtype).astype(np.float64) * np.where(signs < 0, -1.0, 1.0)
        self.dtype = dtype
        low, high = self.r.min(0), self.r.max(0)
        beyond = margin * (high - low)
        self.lower, self.upper = (
            bound.astype(dtype).astype(float) for bound in (low - beyond, high + beyond)
        )
        self.span = self.upper - self.lower
        self.moving: npt.NDArray[np.int64] = np.flatnonzero((signs != 0) & (high > low))
        if not len(self.moving):
            raise ValueError(
                "r must vary in a column that is checked: all these columns are constant, or "
                f"increasing={signs.astype(int).tolist()} excludes them"
            )

    def inside(self, r: Array) -> Array:
        """Clip r to the bounds and round it to the predictor's dtype, which preserves order."""
        return np.clip(r, self.lower, self.upper).astype(self.dtype).astype(np.float64)

    def ordered(self, rows: Any, low: Array, high: Array) -> Pairs:
        """Pairs inside the bounds; coordinates with low > high are set to their midpoint."""
        middle = 0.5 * (low + high)
        cross = low > high
        low, high = np.where(cross, middle, low), np.where(cross, middle, high)
        return Pairs(rows, self.inside(low), self.inside(high))


def random_pairs(space: Space, count: int, size: int, rng: np.random.Generator) -> Iterator[Pairs]:
    """Yield pairs of a row and a random step up or down from it, `size` pairs at a time.

    Every varied column takes part with probability 1/2, and at least one does. Distances are
    log-uniform between one ulp (near 0, that of 2^-20 of the range) and the whole range.
    """
    for start in range(0, count, size):
        n = min(size, count - start)
        rows = rng.integers(len(space.r), size=n)
        r = space.r[rows]
        moved = np.zeros(r.shape, dtype=bool)
        moved[:, space.moving] = rng.random((n, len(space.moving))) < 0.5
        moved[np.arange(n), space.moving[rng.integers(len(space.moving), size=n)]] |= ~moved.any(1)
        ulp = np.spacing(np.maximum(np.abs(r), 2.0**-20 * space.span).astype(space.dtype))
        share = rng.random(r.shape)
        span = np.where(space.span > 0, space.span, 1.0)
        step = moved * ulp.astype(np.float64) ** (1.0 - share) * span**share
        up = rng.random(n) < 0.5
        # At the end of the range only one direction is possible.
        up = np.where(up, (moved & (r < space.upper)).any(1), ~(moved & (r > space.lower)).any(1))
        low = np.where(up[:, None], r, space.inside(r - step))
        high = np.where(up[:, None], space.inside(r + step), r)
        yield Pairs(rows, low, high)


def grid_pairs(space: Space, count: int, size: int, rng: np.random.Generator) -> Iterator[Pairs]:
    """Yield pairs of a row with one column at neighbouring values of a grid, `size` at a time.

    The grid contains the bounds and the quantiles of the column, or all its values if they are few
    or integers. It is finer if there are few rows for `count` pairs. If the grid has more than
    `count` pairs, a random sample is taken.
    """
    size_of_grid = count // (len(space.r) * len(space.moving))
    grids = [
        _grid(space, column, int(np.clip(size_of_grid, _MIN_STEPS, _MAX_STEPS)))
        for column in space.moving
    ]
    steps = np.array([len(grid) - 1 for grid in grids])
    total = len(space.r) * int(steps.sum())
    chosen = rng.choice(total, count, replace=False) if total > count else np.arange(total)
    ends = steps.cumsum()
    for start in range(0, len(chosen), size):
        rows, step = np.divmod(chosen[start : start + size], ends[-1])
        which = np.searchsorted(ends, step, side="right")
        low, high = space.r[rows].copy(), space.r[rows].copy()
        for place, (column, grid) in enumerate(zip(space.moving, grids, strict=True)):
            here = np.flatnonzero(which == place)
            k = step[here] - (ends[place] - steps[place])
            low[here, column], high[here, column] = grid[k], grid[k + 1]
        yield Pairs(rows, low, high)


def _grid(space: Space, column: int, steps: int) -> Array:
    values = np.unique(space.r[:, column])
    integers = (values == np.round(values)).all()
    if len(values) > steps and not integers:
        values = np.quantile(space.r[:, column], np.linspace(0.0, 1.0, steps + 1))
    elif len(values) < steps and not integers:
        # With few values, the intervals between them are refined.
        values = np.concatenate([values, np.linspace(values[0], values[-1], steps + 1)])
    ends = space.lower[column], space.upper[column]
    grid = np.concatenate([values, ends]).astype(space.dtype)
    return np.unique(grid.astype(np.float64))
