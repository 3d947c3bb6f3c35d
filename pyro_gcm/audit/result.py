"""The result of an audit: counts by search and by column, and the worst pair."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pyro_gcm.audit.predictors import Array

if TYPE_CHECKING:
    import pandas as pd

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Witness:
    """The violation with the largest drop: the prediction decreases from `r_low` to `r_high`.

    In a column in which predictions should decrease, `r_low` is the larger value.

    :param row: index of the row of data.
    :param x: covariates of the row, [x_dim].
    :param r_low: revenues [r_dim] at which the prediction should not be larger than at `r_high`.
    :param low: prediction at `r_low` in the search; `high`: the one at `r_high`.
    :param alone_low: prediction at `r_low` in a call with only this row; `alone_high`: likewise.
    :param confirmed: whether these two predictions are a violation as well.
    :param search: the search that found it.
    :param segment: predictions [101] at equal steps along the line between the two points.
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
        """The difference between the two predictions."""
        return self.low - self.high


@dataclass(frozen=True)
class MonotonicityAudit:
    """The result of `audit_monotonicity`; the predictor `passed` if no pair was a violation.

    :param frame: one row per search with the columns search, pairs, ties (equal predictions),
        rounding (drops within the tolerance), violations (larger drops), rate (violations / pairs)
        and largest_drop (0 if none). Only the rate of "random" estimates a probability, since the
        other searches maximise the drop.
    :param by_column: one row per varied column of r with the columns column, pairs in which it
        differs, violations among them, rate, and violations_alone, in which no other column
        differs.
    :param drops: histogram with one row per search and bin of drops, from 10^(exponent / 4) to
        10^((exponent + 1) / 4), with the counts rounding and violations.
    :param increasing: +1, -1 or 0 (not checked) for each column of r.
    :param tolerance: fraction of max(1, abs(prediction)) up to which a drop counts as rounding.
    :param witness: the worst violation, or None.
    :param x_names: names of the columns of x; `r_names`: those of r.
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
        """Whether no violation was found, which does not prove that there is none."""
        return self.violations == 0

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return int(self.frame["pairs"].sum())

    @property
    def ties(self) -> int:
        """Number of pairs with equal predictions."""
        return int(self.frame["ties"].sum())

    @property
    def rounding(self) -> int:
        """Number of pairs with a drop within the tolerance."""
        return int(self.frame["rounding"].sum())

    @property
    def violations(self) -> int:
        """Number of pairs with a drop above the tolerance."""
        return int(self.frame["violations"].sum())

    @property
    def rate(self) -> float:
        """Violations divided by pairs, over all searches."""
        return self.violations / max(self.pairs, 1)

    @property
    def largest_drop(self) -> float:
        """The largest drop, including rounding; 0 if no prediction decreased."""
        return float(self.frame["largest_drop"].max())

    def summary(self) -> str:
        """A summary to print: counts by search and by column, and the worst violation."""
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
            f"worst pair ({w.search} search, row {w.row}): the prediction decreases by "
            f"{w.drop:.6g}, from {w.low:.9g} to {w.high:.9g}; {alone} in calls with one row",
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
    """Counts of one search, in which the number of columns that are varied is `moving`."""

    def __init__(self, search: str, moving: int, tolerance: float) -> None:
        self.search, self.tolerance = search, tolerance
        self.pairs = self.ties = 0
        self.largest_drop = 0.0
        self.counts: Counter[tuple[str, int]] = Counter()  # by kind of drop and exponent
        self.columns = np.zeros((3, moving), dtype=np.int64)

    def add(self, moved: Mask, low: Array, high: Array) -> Mask:
        """Count pairs.

        :param moved: whether each of the k varied columns differs, [n, k].
        :param low: predictions at the first elements, [n]; `high`: at the second ones.
        :returns: which pairs are violations, [n].
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
        for kind, of_kind in (("rounding", ~violation), ("violations", violation)):
            some = np.minimum(drop[(drop > 0) & of_kind], np.finfo(np.float64).max)
            exponents = np.floor(4.0 * np.log10(some)).astype(int)
            self.counts.update((kind, exponent) for exponent in exponents.tolist())
        return violation

    def row(self) -> dict[str, object]:
        """The row of this search in `MonotonicityAudit.frame`."""
        total = {
            kind: sum(count for (of_kind, _), count in self.counts.items() if of_kind == kind)
            for kind in ("rounding", "violations")
        }
        return {
            "search": self.search,
            "pairs": self.pairs,
            "ties": self.ties,
            **total,
            "rate": total["violations"] / max(self.pairs, 1),
            "largest_drop": self.largest_drop,
        }

    def drops(self) -> list[dict[str, object]]:
        """The rows of this search in `MonotonicityAudit.drops`."""
        return [
            {
                "search": self.search,
                "exponent": exponent,
                "rounding": self.counts["rounding", exponent],
                "violations": self.counts["violations", exponent],
            }
            for exponent in sorted({exponent for _, exponent in self.counts})
        ]
