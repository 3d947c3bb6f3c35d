"""Maximisation of the drop of a pair, by gradient ascent or by random steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyro_gcm.audit.pairs import Pairs, Space
from pyro_gcm.audit.predictors import Array

#: Derivative of the prediction by oriented r: rows [n] and r [n, m] -> [n, m].
Slope = Callable[[Any, Array], Array]
#: Counts pairs and returns their drops [n].
Drops = Callable[[Pairs], Array]


def climb(
    space: Space, count: int, size: int, rng: np.random.Generator, slope: Slope, drops: Drops
) -> None:
    """Projected gradient ascent of f(low) - f(high), starting from the most negative derivatives.

    Half of `count` is a scan of derivatives at (some of) the rows, and at rows whose varied columns
    are replaced by random values. Pairs start around the points with the most negative derivatives.
    Then low moves uphill and high moves downhill, with steps that grow after an improvement and are
    halved otherwise. Projection keeps low <= high and the bounds.
    """
    starts = max(1, count // 64)
    rows, points, slopes = _scan(space, max(count - count // 2, 1), size, rng, slope, starts)
    width = _log_uniform(rng, len(rows), 1e-5, 1e-1)
    falling = (slopes < 0) * space.span * width  # [S, m]
    # Where no derivative is negative, use the column with the smallest one.
    flattest = np.zeros_like(falling)
    column = space.moving[np.argmin(slopes[:, space.moving], 1)]
    flattest[np.arange(len(rows)), column] = (space.span[column]) * width[:, 0]
    falling = np.where((falling > 0).any(1, keepdims=True), falling, flattest)
    pairs = space.ordered(rows, points - falling, points + falling)
    drop = drops(pairs)
    step = width
    for _ in range(max(0, count // 2 // starts - 1)):
        ways = []
        for r, sign in ((pairs.low, 1.0), (pairs.high, -1.0)):
            uphill = np.zeros_like(r)
            uphill[:, space.moving] = (sign * slope(pairs.rows, r) * space.span)[:, space.moving]
            size_of = np.abs(uphill).max(1, keepdims=True)
            ways.append(uphill / np.where(size_of > 0, size_of, 1.0) * space.span)
        trial = space.ordered(pairs.rows, pairs.low + step * ways[0], pairs.high + step * ways[1])
        pairs, drop, better = _better(pairs, drop, trial, drops(trial))
        step = np.minimum(np.where(better[:, None], 1.5 * step, 0.5 * step), 0.5)


def wander(
    space: Space, count: int, pairs: Pairs, drop: Array, rng: np.random.Generator, drops: Drops
) -> None:
    """Random refinement of the worst pairs, for predictors without derivatives.

    One varied column of one end, or of both ends, takes a step of log-uniform length in a random
    direction. A step is accepted unless the drop gets smaller, so that the search crosses plateaus.
    """
    every = np.arange(len(pairs))
    for _ in range(count // len(pairs)):
        column = space.moving[rng.integers(len(space.moving), size=len(pairs))]
        length = _log_uniform(rng, len(pairs), 1e-6, 1.0)[:, 0] * space.span[column]
        length *= rng.choice([-1.0, 1.0], size=len(pairs))
        end = rng.integers(3, size=len(pairs))  # low, high, both
        low, high = pairs.low.copy(), pairs.high.copy()
        low[every, column] += length * (end != 1)
        high[every, column] += length * (end != 0)
        trial = space.ordered(pairs.rows, low, high)
        pairs, drop, _ = _better(pairs, drop, trial, drops(trial))


def _scan(
    space: Space, count: int, size: int, rng: np.random.Generator, slope: Slope, keep: int
) -> tuple[Any, Array, Array]:
    """The `keep` points with the most negative slopes: rows, r, derivatives times the range."""
    real = min(len(space.r), count // 2)
    order = rng.permutation(len(space.r))[:real]
    rows = np.concatenate([order, rng.integers(len(space.r), size=count - real)])
    best: tuple[Any, Array, Array] = rows[:0], space.r[:0], space.r[:0]
    for start in range(0, count, size):
        part = rows[start : start + size]
        points = space.r[part].copy()
        fresh = np.arange(start, start + len(part)) >= real
        uniform = rng.random((len(part), len(space.moving)))
        drawn = space.lower[space.moving] + uniform * space.span[space.moving]
        points[:, space.moving] = np.where(fresh[:, None], drawn, points[:, space.moving])
        points = space.inside(points)
        slopes = slope(part, points) * space.span
        new = part, points, slopes
        near, points, slopes = (np.concatenate(both) for both in zip(best, new, strict=True))
        order = np.argsort(slopes[:, space.moving].min(1), kind="stable")[:keep]
        best = near[order], points[order], slopes[order]
    held = np.ones(space.r.shape[1], dtype=bool)
    held[space.moving] = False
    best[2][:, held] = 0.0
    return best


def _better(pairs: Pairs, drop: Array, trial: Pairs, new: Array) -> tuple[Pairs, Array, Any]:
    """Keep, of each pair and its trial, the one with the larger drop; the trial on a tie."""
    kept = (new >= drop)[:, None]
    low, high = np.where(kept, trial.low, pairs.low), np.where(kept, trial.high, pairs.high)
    return Pairs(pairs.rows, low, high), np.maximum(new, drop), new > drop


def _log_uniform(rng: np.random.Generator, count: int, low: float, high: float) -> Array:
    return np.asarray(np.exp(rng.uniform(np.log(low), np.log(high), (count, 1))))
