"""The search of an audit: proposed pairs are predicted, counted, and the worst of them kept."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from pyro_gcm._utils.validation import warn_user
from pyro_gcm.audit.pairs import Array, Call, Pairs, Space, grid_pairs, random_pairs, worsened_pairs
from pyro_gcm.audit.result import MonotonicityAudit, Witness

#: Ways to propose pairs of revenues between which a prediction may fall.
SEARCHES = ("random", "grid", "gradient")
#: Number of the worst pairs that are kept to be made worse.
_POOL = 1024
_KINDS = ["ties", "rounding", "violations", "rises"]


class Search:
    """The searches of one audit, whose pairs are predicted and counted together.

    :param call: a function of x and r to predictions and their type.
    :param x: rows of data, [n, x_dim].
    :param bar: a progress bar, updated by the number of pairs.
    """

    def __init__(
        self, call: Call, x: Array, space: Space, tolerance: float, batch_size: int, bar: Any
    ) -> None:
        self.call, self.x, self.space, self.bar = call, x, space, bar
        self.tolerance, self.batch_size = tolerance, batch_size
        self.lowest, self.highest = math.inf, -math.inf  # of all predictions
        nothing = np.empty((0, len(space.span)))
        self.pool = Pairs(np.empty(0, dtype=np.int64), nothing, nothing), np.empty(0)
        self.worst: tuple[str, Pairs, float, float] | None = None
        self.largest: dict[str, float] = {}  # drop of each search
        self.counts: list[Any] = []  # of pairs by search, kind, and exponent of the drop
        self.columns = np.zeros((3, len(space.moving)), dtype=np.int64)
        self.seen = np.zeros(len(x), dtype=bool)
        self.calls = 0, 0  # their number, and the rows of the largest

    def run(self, name: str, count: int, rng: np.random.Generator) -> None:
        """Try at most `count` pairs of one of `SEARCHES`."""
        self.name, self.rng, self.largest[name] = name, rng, 0.0
        worsened: Any = partial(worsened_pairs, worst=lambda: self.pool)
        propose = dict(zip(SEARCHES, (random_pairs, grid_pairs, worsened), strict=True))[name]
        propose(self.space, count, rng, self.drops)

    def drops(self, pairs: Pairs) -> Array:
        """Predict both ends of pairs, count them, keep the worst, and return their drops, [n]."""
        ends = np.concatenate([pairs.low, pairs.high])
        low, high = np.split(self._predict(np.tile(pairs.rows, 2), ends), 2)
        self.lowest = min(self.lowest, float(low.min()), float(high.min()))
        self.highest = max(self.highest, float(low.max()), float(high.max()))
        self.seen[pairs.rows] = True
        moved = (pairs.low < pairs.high)[:, self.space.moving]
        # A change can make both ends equal, which is not a pair; its drop is minus infinity.
        apart = np.asarray(moved.any(1))
        drop = np.where(apart, low - high, -np.inf)
        scale = np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
        bad = drop > self.tolerance * scale
        self._count(moved[apart], drop[apart], bad[apart])
        worst = int(np.argmax(np.where(bad, drop, -np.inf)))
        if bad.any() and (self.worst is None or drop[worst] > self.worst[2] - self.worst[3]):
            one = pairs.take(slice(worst, worst + 1))
            self.worst = self.name, one, float(low[worst]), float(high[worst])
        both = *self.pool[0], self.pool[1]
        every = [np.concatenate(part) for part in zip(both, (*pairs, drop), strict=True)]
        order = np.argsort(-every[-1], kind="stable")[:_POOL]
        *kept, kept_drop = (part[order] for part in every)
        self.pool = Pairs(*kept), kept_drop
        self.bar.update(len(drop))
        return drop

    def result(self, signs: Array, x_names: list[str], r_names: list[str]) -> MonotonicityAudit:
        """What was found, with a warning where small units may hide violations."""
        import pandas as pd

        counts = pd.concat(self.counts).groupby(level=[0, 1, 2]).sum().unstack("kind", fill_value=0)
        counts = counts.reindex(columns=_KINDS, fill_value=0)
        totals = counts.groupby("search").sum().reindex([*self.largest], fill_value=0)
        pairs, moving = totals.sum(axis=1), self.space.moving
        frame = totals[_KINDS[:3]].assign(
            rate=totals["violations"] / pairs.clip(lower=1), largest_drop=pd.Series(self.largest)
        )
        frame.insert(0, "pairs", pairs)
        drops = counts[["rounding", "violations"]]
        drops = drops[drops.sum(axis=1) > 0].reindex([*self.largest], level="search")
        moved, violations, alone = self.columns
        bounds = np.stack([self.space.lower, self.space.upper]) * self.space.direction + 0.0
        by_column = pd.DataFrame(
            {
                "column": [r_names[j] for j in moving],
                "low": bounds.min(0)[moving],
                "high": bounds.max(0)[moving],
                "pairs": moved,
                "violations": violations,
                "rate": violations / np.maximum(moved, 1),
                "violations_alone": alone,
            }
        )
        self._warn_of_small_units()
        return MonotonicityAudit(
            frame=frame.rename_axis("search").reset_index().rename_axis(columns=None),
            by_column=by_column,
            drops=drops.reset_index().rename_axis(columns=None),
            increasing=tuple(int(s) for s in signs),
            tolerance=self.tolerance,
            witness=self._witness(),
            rows=(int(self.seen.sum()), len(self.x)),
            calls=self.calls,
            x_names=tuple(x_names),
            r_names=tuple(r_names),
        )

    def _count(self, moved: Any, drop: Array, bad: Any) -> None:
        import pandas as pd

        self.largest[self.name] = float(drop.max(initial=self.largest[self.name]))
        of_bad = moved[bad]
        alone = of_bad[of_bad.sum(1) == 1]
        self.columns += [part.sum(0, dtype=np.int64) for part in (moved, of_bad, alone)]
        kind = np.select([bad, drop > 0, drop == 0], ["violations", "rounding", "ties"], "rises")
        size = np.where(drop > 0, np.minimum(drop, np.finfo(np.float64).max), 1.0)
        exponent = np.floor(4.0 * np.log10(size)).astype(int)
        table = pd.DataFrame({"search": self.name, "kind": kind, "exponent": exponent})
        self.counts.append(table.value_counts())

    def _witness(self) -> Witness | None:
        """The worst violation, with predictions of its ends in separate calls of one row."""
        if self.worst is None:
            return None
        search, (rows, low, high), at_low, at_high = self.worst
        x, direction = self.x[rows], self.space.direction
        alone_low, alone_high = (float(self.call(x, r * direction)[0][0]) for r in (low, high))
        scale = max(1.0, abs(alone_low), abs(alone_high))
        line = np.clip(low + np.linspace(0.0, 1.0, 101)[:, None] * (high - low), low, high)
        return Witness(
            row=int(rows[0]),
            x=x[0],
            r_low=low[0] * direction + 0.0,  # no -0.0
            r_high=high[0] * direction + 0.0,
            low=at_low,
            high=at_high,
            alone_low=alone_low,
            alone_high=alone_high,
            confirmed=alone_low - alone_high > self.tolerance * scale,
            search=search,
            segment=self.call(x.repeat(101, 0), line * direction)[0],
        )

    def _predict(self, rows: Any, r: Array) -> Array:
        """Predictions in twos of calls, one of log-uniform size, with rows at random places."""
        order, values = self.rng.permutation(len(r)), np.empty(len(r))
        for start in range(0, len(r), self.batch_size):
            part = order[start : start + self.batch_size]
            for some in np.split(part, [round(len(part) ** self.rng.random())]):
                if len(some):
                    values[some], _ = self.call(self.x[rows[some]], r[some] * self.space.direction)
                    self.calls = self.calls[0] + 1, max(self.calls[1], len(some))
        return values

    def _warn_of_small_units(self) -> None:
        """Warn if drops count as rounding only because max(1, abs(prediction)) is 1."""
        size, drop = max(abs(self.lowest), abs(self.highest)), max(self.largest.values())
        span = self.highest - self.lowest
        if self.tolerance * size < drop <= self.tolerance and span < 1e3 * self.tolerance:
            warn_user(
                f"predictions range from {self.lowest:.3g} to {self.highest:.3g} and decrease by "
                f"up to {drop:.3g}, which the tolerance of {self.tolerance:.2g} counts as "
                "rounding: use larger units, or pass a smaller tolerance"
            )
