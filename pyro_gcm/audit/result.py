"""What an audit found: counts by search and by column, and the worst pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm.audit.predictors import Array

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Witness:
    """The violation with the largest drop: r goes from `r_low` to `r_high`, the prediction falls.

    In a decreasing column `r_low` is the larger value: at `r_high` the prediction should be at
    least that at `r_low`. `low` and `high` are the predictions in the search; `alone_low` and
    `alone_high` those of the two rows each in a call by itself, which the drop has to survive to be
    `confirmed`. `segment` [101] are predictions at even steps along the line between them.
    """

    row: int
    x: Array
    r_low: Array
    r_high: Array
    low: float
    high: float
    alone_low: float
    alone_high: float
    confirmed: bool
    search: str
    segment: Array

    @property
    def drop(self) -> float:
        """By how much the prediction falls."""
        return self.low - self.high


@dataclass(frozen=True)
class MonotonicityAudit:
    """What `audit_monotonicity` found; the predictor `passed` if no pair was a violation.

    :ivar frame: a row a search: search, pairs, ties (equal predictions), rounding (drops within the
        tolerance), violations (larger ones), rate (violations / pairs), largest_drop (0 if none).
        Only the rate of "random" estimates a probability: the other searches look for the worst.
    :ivar by_column: a row a column of r that was moved: column, pairs in which it was, violations
        among them, rate, and violations_alone, in which no other column moved.
    :ivar drops: histogram: a row for each search and size of drop, 10^(exponent / 4) to
        10^((exponent + 1) / 4), with the counts rounding and violations.
    :ivar increasing: +1, -1 or 0 (not checked) for each column of r.
    :ivar tolerance: the part of max(1, abs(prediction)) up to which a drop counts as rounding.
    :ivar witness: the worst violation, or None.
    """

    frame: pd.DataFrame
    by_column: pd.DataFrame
    drops: pd.DataFrame
    increasing: tuple[int, ...]
    tolerance: float
    witness: Witness | None
    x_names: tuple[str, ...]
    r_names: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether there was no violation. No search proves that there is none."""
        return self.violations == 0

    @property
    def pairs(self) -> int:
        """Pairs that were compared."""
        return int(self.frame["pairs"].sum())

    @property
    def ties(self) -> int:
        """Pairs with equal predictions."""
        return int(self.frame["ties"].sum())

    @property
    def rounding(self) -> int:
        """Pairs with a drop within the tolerance."""
        return int(self.frame["rounding"].sum())

    @property
    def violations(self) -> int:
        """Pairs with a drop above the tolerance."""
        return int(self.frame["violations"].sum())

    @property
    def rate(self) -> float:
        """Violations / pairs, over all searches."""
        return self.violations / max(self.pairs, 1)

    @property
    def largest_drop(self) -> float:
        """The largest drop of all, rounding included; 0 if nothing fell."""
        return float(self.frame["largest_drop"].max())

    def summary(self) -> str:
        """A few lines to print: the counts by search and by column, and the witness."""
        verdict = "passed" if self.passed else "FAILED"
        lines = [
            f"monotonicity {verdict}: {self.violations} violations, {self.rounding} drops within "
            f"rounding and {self.ties} ties in {self.pairs} pairs (tolerance {self.tolerance:.2g})",
            self.frame.to_string(index=False, float_format=lambda v: f"{v:.3g}"),
        ]
        if self.violations:
            columns = self.by_column.to_string(index=False, float_format=lambda v: f"{v:.3g}")
            lines += ["", columns, "", *self._witness_lines()]
        return "\n".join(lines)

    def _witness_lines(self) -> list[str]:
        w = self.witness
        assert w is not None
        alone = "confirmed" if w.confirmed else "NOT confirmed"
        lines = [
            f"worst pair ({w.search} search, row {w.row}): the prediction falls by {w.drop:.6g}, "
            f"from {w.low:.9g} to {w.high:.9g}; {alone} by rows alone",
        ]
        for name, sign, low, high in zip(
            self.r_names, self.increasing, w.r_low, w.r_high, strict=True
        ):
            if low == high:
                lines.append(f"  {name} = {float(low)!r}")
            else:
                kind = "decreasing" if sign < 0 else "increasing"
                lines.append(f"  {name}: {float(low)!r} -> {float(high)!r} ({kind})")
        if len(w.x):
            pairs = zip(self.x_names, w.x, strict=True)
            lines.append("  x: " + ", ".join(f"{name} = {value:.6g}" for name, value in pairs))
        return lines


class Tally:
    """Counts of one search, and its worst pairs so far."""

    def __init__(self, search: str, moving: Sequence[int], tolerance: float) -> None:
        self.search, self.moving, self.tolerance = search, np.asarray(moving), tolerance
        self.pairs = self.ties = 0
        self.largest_drop = 0.0
        self.counts: dict[tuple[int, bool], int] = {}  # by exponent, and whether a violation
        self.columns = np.zeros((3, len(self.moving)), dtype=np.int64)

    def add(self, moved: Mask, low: Array, high: Array) -> Mask:
        """Count pairs with predictions low and high [n] that moved columns [n, k].

        :returns: which of them are violations, [n].
        """
        drop = low - high
        scale = np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
        violation = drop > self.tolerance * scale
        self.pairs += len(drop)
        self.ties += int((drop == 0).sum())
        self.largest_drop = max(self.largest_drop, float(drop.max()))
        self.columns[0] += moved.sum(0, dtype=np.int64)
        self.columns[1] += moved[violation].sum(0, dtype=np.int64)
        alone = violation & (moved.sum(1) == 1)
        self.columns[2] += moved[alone].sum(0, dtype=np.int64)
        for bad in (False, True):
            some = np.minimum(drop[(drop > 0) & (violation == bad)], np.finfo(np.float64).max)
            for exponent, count in zip(
                *np.unique(np.floor(4.0 * np.log10(some)), return_counts=True), strict=True
            ):
                key = int(exponent), bad
                self.counts[key] = self.counts.get(key, 0) + int(count)
        return violation

    def row(self) -> dict[str, object]:
        """The row of `MonotonicityAudit.frame`."""
        rounding, violations = (
            sum(n for (_, bad), n in self.counts.items() if bad == kind) for kind in (False, True)
        )
        return {
            "search": self.search,
            "pairs": self.pairs,
            "ties": self.ties,
            "rounding": rounding,
            "violations": violations,
            "rate": violations / max(self.pairs, 1),
            "largest_drop": self.largest_drop,
        }

    def drops(self) -> list[dict[str, object]]:
        """The rows of `MonotonicityAudit.drops`."""
        return [
            {
                "search": self.search,
                "exponent": exponent,
                "rounding": self.counts.get((exponent, False), 0),
                "violations": self.counts.get((exponent, True), 0),
            }
            for exponent in sorted({exponent for exponent, _ in self.counts})
        ]
