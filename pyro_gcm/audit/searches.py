"""The searches of an audit: they generate pairs, count them and keep the worst."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pyro_gcm.audit.pairs import Pairs, Space, grid_pairs, random_pairs
from pyro_gcm.audit.predictors import Array, Predictor
from pyro_gcm.audit.refine import climb, wander
from pyro_gcm.audit.result import Tally, Witness

#: Ways to search for pairs of revenues between which a prediction falls.
SEARCHES = ("random", "grid", "gradient")
#: Number of the worst pairs that are kept for refinement.
_POOL = 1024


class Searches:
    """The searches of one audit. Every pair goes through `drops`, which counts it.

    :param x: rows of data, [n, x_dim].
    :param signs: +1, -1 or 0 for each column of r, [r_dim].
    :param bar: a progress bar, updated by the number of pairs.
    """

    def __init__(
        self,
        predictor: Predictor,
        x: Array,
        signs: Array,
        space: Space,
        tolerance: float,
        batch_size: int,
        bar: Any,
    ) -> None:
        self.predictor, self.x, self.space, self.bar = predictor, x, space, bar
        self.tolerance, self.batch_size = tolerance, batch_size
        self.direction = np.where(signs < 0, -1.0, 1.0)
        self.tallies: list[Tally] = []
        self.lowest, self.highest = math.inf, -math.inf  # of all predictions
        self.pool: tuple[Pairs, Array] | None = None
        self.worst: tuple[str, Pairs, float, float] | None = None

    def __call__(self, search: str, count: int, rng: np.random.Generator) -> None:
        """Run one of `SEARCHES` with at most `count` pairs."""
        self.tallies.append(Tally(search, len(self.space.moving), self.tolerance))
        space, size = self.space, self.batch_size
        if search == "random":
            self._add(random_pairs(space, count, size, rng))
        elif search == "grid":
            self._add(grid_pairs(space, count, size, rng))
        elif self.predictor.derivative is not None:
            climb(space, count, size, rng, self._slope, self.drops)
        else:
            if self.pool is None:
                self._add(random_pairs(space, count - count // 2, size, rng))
                count //= 2
            assert self.pool is not None
            some = slice(max(1, min(_POOL, count // 64)))
            wander(space, count, self.pool[0].take(some), self.pool[1][some], rng, self.drops)

    def drops(self, pairs: Pairs) -> Array:
        """Count pairs, keep the worst, and return their drops f(low) - f(high), [n]."""
        parts = [
            self._drops(pairs.take(slice(start, start + self.batch_size)))
            for start in range(0, len(pairs), self.batch_size)
        ]
        return np.concatenate(parts)

    def witness(self) -> Witness | None:
        """The worst violation, with predictions of its ends in separate calls of one row."""
        if self.worst is None:
            return None
        search, pair, low, high = self.worst
        alone_low, alone_high = (
            float(self._predict(pair.rows, r)[0]) for r in (pair.low, pair.high)
        )
        scale = max(1.0, abs(alone_low), abs(alone_high))
        share = np.linspace(0.0, 1.0, 101)[:, None]
        line = np.clip(pair.low + share * (pair.high - pair.low), pair.low, pair.high)
        return Witness(
            row=int(pair.rows[0]),
            x=self.x[pair.rows[0]],
            r_low=pair.low[0] * self.direction + 0.0,  # no -0.0
            r_high=pair.high[0] * self.direction + 0.0,
            low=low,
            high=high,
            alone_low=alone_low,
            alone_high=alone_high,
            confirmed=alone_low - alone_high > self.tolerance * scale,
            search=search,
            segment=self._predict(pair.rows.repeat(101), line),
        )

    def _add(self, parts: Iterable[Pairs]) -> None:
        for part in parts:
            drop = self._drops(part)
            if self.pool is not None:
                before = self.pool[0]
                part = Pairs(
                    np.concatenate([before.rows, part.rows]),
                    np.concatenate([before.low, part.low]),
                    np.concatenate([before.high, part.high]),
                )
                drop = np.concatenate([self.pool[1], drop])
            order = np.argsort(-drop, kind="stable")[:_POOL]
            self.pool = part.take(order), drop[order]

    def _drops(self, pairs: Pairs) -> Array:
        # In calls of the same rows: a predictor may round a row by its place in a call.
        low, high = self._predict(pairs.rows, pairs.low), self._predict(pairs.rows, pairs.high)
        moved = (pairs.low < pairs.high)[:, self.space.moving]
        self.lowest = min(self.lowest, float(low.min()), float(high.min()))
        self.highest = max(self.highest, float(low.max()), float(high.max()))
        # Refinement can make both ends equal, which is not a pair; its drop is minus infinity.
        apart = np.asarray(moved.any(1))
        drop = np.where(apart, low - high, -np.inf)
        self.bar.update(len(drop))
        if not apart.any():
            return drop
        bad = apart.copy()
        bad[apart] = self.tallies[-1].add(moved[apart], low[apart], high[apart])
        worst = int(np.argmax(np.where(bad, drop, -np.inf)))
        if bad.any() and (self.worst is None or drop[worst] > self.worst[2] - self.worst[3]):
            one = pairs.take(slice(worst, worst + 1))
            self.worst = self.tallies[-1].search, one, float(low[worst]), float(high[worst])
        return drop

    def _predict(self, rows: Any, r: Array) -> Array:
        return self._in_parts(self.predictor, rows, r)

    def _slope(self, rows: Any, r: Array) -> Array:
        assert self.predictor.derivative is not None
        return self._in_parts(self.predictor.derivative, rows, r) * self.direction

    def _in_parts(self, function: Callable[[Array, Array], Array], rows: Any, r: Array) -> Array:
        """Evaluate a function of x and r with at most `batch_size` rows at a time."""
        parts = [slice(i, i + self.batch_size) for i in range(0, len(r), self.batch_size)]
        return np.concatenate([function(self.x[rows[p]], r[p] * self.direction) for p in parts])
