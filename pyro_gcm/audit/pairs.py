"""Pairs r <= r' in the product order: the proposals of the searches.

All revenues are *oriented* here: a column in which predictions should decrease is negated, so that
the prediction at the second element of a pair should never be smaller. Negation is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
#: A function of x [B, x_dim] and r [B, r_dim] to predictions [B], with the type that they had.
Call = Callable[[Array, Array], tuple[Array, Any]]
_MIN_STEPS, _MAX_STEPS = 64, 4096  # of the grid of a column
#: Number of pairs that are proposed at once.
_BLOCK = 4096


class Pairs(NamedTuple):
    """n pairs of oriented revenues `low` <= `high`, both [n, m], and the rows [n] of their x."""

    rows: npt.NDArray[np.int64]
    low: Array
    high: Array

    def take(self, index: Any) -> Pairs:
        """The pairs at an index, a slice or a mask."""
        return Pairs(*(part[index] for part in self))


#: Predicts both ends of pairs, counts them and returns their drops f(low) - f(high), [n].
Drops = Callable[[Pairs], Array]
#: The worst pairs so far, with their drops.
Worst = Callable[[], tuple[Pairs, Array]]


class Space:
    """The search space: oriented rows, bounds [m], and indices `moving` of the varied columns.

    :param r: rows of data, [n, m].
    :param signs: +1, -1 or 0 (held fixed) for each column, [m].
    :param margin: fraction of the range by which it is extended at both ends.
    :param dtype: type to which the predictor's inputs are rounded.
    """

    def __init__(self, r: Array, signs: Array, margin: float, dtype: np.dtype[Any]) -> None:
        self.direction = np.where(signs < 0, -1.0, 1.0)
        self.r = r.astype(dtype).astype(np.float64) * self.direction
        self.dtype = dtype
        low, high = self.r.min(0), self.r.max(0)
        beyond = margin * (high - low)
        self.lower, self.upper = (
            bound.astype(dtype).astype(float) for bound in (low - beyond, high + beyond)
        )
        # Nothing is done with the 1 of a column without a range.
        self.span = np.where(self.upper > self.lower, self.upper - self.lower, 1.0)
        self.moving: npt.NDArray[np.int64] = np.flatnonzero((signs != 0) & (high > low))
        if not len(self.moving):
            raise ValueError(
                "r must vary in a column that is checked: all these columns are constant, or "
                f"increasing={signs.astype(int).tolist()} excludes them"
            )

    def inside(self, r: Array) -> Array:
        """Clip r to the bounds and round it to the predictor's type, which preserves order."""
        return np.clip(r, self.lower, self.upper).astype(self.dtype).astype(np.float64)

    def ulp(self, r: Array, column: Any = slice(None)) -> Array:
        """The distance to the next number; near 0 that of 2^-20 of the range."""
        size = np.maximum(np.abs(r), 2.0**-20 * self.span[column])
        return np.spacing(size.astype(self.dtype)).astype(np.float64)


def random_pairs(
    space: Space, count: int, rng: np.random.Generator, drops: Drops, *, anywhere: bool = False
) -> None:
    """Try pairs of a row and a random step up or down from it; every row comes equally often.

    Every varied column takes part with probability 1/2, and at least one does. Distances are
    log-uniform between one ulp and the whole range.

    :param anywhere: whether steps start at random points of the range instead of at the row's
        values, and are not shorter than 1e-5 of the range.
    """
    every_row = rng.permutation(max(count, len(space.r)))[:count] % len(space.r)
    for start in range(0, count, _BLOCK):
        rows = every_row[start : start + _BLOCK]
        r, n = space.r[rows], len(rows)
        moved = np.zeros(r.shape, dtype=bool)
        moved[:, space.moving] = rng.random((n, len(space.moving))) < 0.5
        moved[np.arange(n), space.moving[rng.integers(len(space.moving), size=n)]] |= ~moved.any(1)
        if anywhere:
            points = space.inside(space.lower + space.span * rng.random(r.shape))
            r[:, space.moving] = points[:, space.moving]
        shortest = 1e-5 * space.span if anywhere else space.ulp(r)
        step = moved * _log_uniform(rng, shortest, np.broadcast_to(space.span, r.shape))
        up = rng.random(n) < 0.5
        # At the end of the range only one direction is possible.
        up = np.where(up, (moved & (r < space.upper)).any(1), ~(moved & (r > space.lower)).any(1))
        low = np.where(up[:, None], r, space.inside(r - step))
        drops(Pairs(rows, low, np.where(up[:, None], space.inside(r + step), r)))


def grid_pairs(space: Space, count: int, rng: np.random.Generator, drops: Drops) -> None:
    """Try pairs of a row with one column at, or next to, neighbouring values of a grid.

    The grid contains the bounds and the quantiles of the column, or all its values if they are few
    or integers. It is finer if there are few rows for `count` pairs. Half of the pairs are whole
    steps. The others begin at one end of a step and are shorter: one ulp, or any length. If there
    are more than `count` pairs, a random sample is taken.
    """
    fine = int(np.clip(count // (2 * len(space.r) * len(space.moving)), _MIN_STEPS, _MAX_STEPS))
    grids = [_grid(space, column, fine) for column in space.moving]
    columns = np.repeat(space.moving, [len(grid) - 1 for grid in grids])
    below = np.concatenate([grid[:-1] for grid in grids])
    above = np.concatenate([grid[1:] for grid in grids])
    total = 2 * len(space.r) * len(columns)
    chosen = rng.choice(total, count, replace=False) if total > count else np.arange(total)
    for start in range(0, len(chosen), _BLOCK):
        rows, step = np.divmod(chosen[start : start + _BLOCK] // 2, len(columns))
        n, is_short = len(rows), chosen[start : start + _BLOCK] % 2 == 1
        column, left, right = columns[step], below[step], above[step]
        upwards, one_ulp = rng.random((2, n)) < 0.5
        ulp = space.ulp(np.where(upwards, left, right), column)
        length = np.where(one_ulp, ulp, _log_uniform(rng, ulp, right - left))
        left, right = (
            np.where(is_short & ~upwards, np.maximum(left, right - length), left),
            np.where(is_short & upwards, np.minimum(right, left + length), right),
        )
        low, high = space.r[rows], space.r[rows]
        low[np.arange(n), column], high[np.arange(n), column] = left, right
        drops(Pairs(rows, space.inside(low), space.inside(high)))


def worsened_pairs(
    space: Space, count: int, rng: np.random.Generator, drops: Drops, worst: Worst
) -> None:
    """Try steps anywhere, and then changes of the worst pairs so far that make them worse.

    One varied column of one end, or of both ends, takes a step of log-uniform length in a random
    direction. A step is accepted unless the drop gets smaller, so that the search crosses plateaus.
    """
    random_pairs(space, count - count // 2, rng, drops, anywhere=True)
    pairs, drop = worst()
    few = slice(max(1, count // 256))
    pairs, drop = pairs.take(few), drop[few]
    every = np.arange(len(drop))
    for _ in range(count // 2 // len(drop)):
        column = space.moving[rng.integers(len(space.moving), size=len(drop))]
        span = space.span[column]
        length = _log_uniform(rng, 1e-6 * span, span) * rng.choice([-1.0, 1.0], size=len(drop))
        end = rng.integers(3, size=len(drop))  # low, high, both
        low, high = pairs.low.copy(), pairs.high.copy()
        low[every, column] += length * (end != 1)
        high[every, column] += length * (end != 0)
        low, high = (space.inside(bound(low, high)) for bound in (np.minimum, np.maximum))
        trial = Pairs(pairs.rows, low, high)
        drop_of_trial = drops(trial)
        kept = (drop_of_trial >= drop)[:, None]
        low, high = np.where(kept, trial.low, pairs.low), np.where(kept, trial.high, pairs.high)
        pairs, drop = Pairs(pairs.rows, low, high), np.maximum(drop, drop_of_trial)


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


def _log_uniform(rng: np.random.Generator, shortest: Array, longest: Array) -> Array:
    """Random lengths between two, in the shape of the second."""
    share = rng.random(longest.shape)
    return np.asarray(shortest ** (1.0 - share) * longest**share)
