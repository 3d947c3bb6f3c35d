"""The result of an audit: counts by search and by column, the worst pair, and what is proved."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pyro_gcm.audit.pairs import Array

if TYPE_CHECKING:
    import pandas as pd


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


#: What the trees of a boosting model can prove, in falling order.
VERDICTS = (
    "proved for all rows",
    "proved for all rows with the missing values and categories of these",
    "proved for single moves of these rows",
    "falls",
    "no proof",
)


class TreeProof(NamedTuple):
    """What the trees of a boosting model prove about their predictions.

    :param verdict: one of `VERDICTS`: of single moves, one column of a row changes.
    :param trees: their number; `steps`: over split values of constrained columns, in which no
        prediction may fall.
    :param reason: what was not settled, and why; or "".
    :param pair: two rows, as the model takes them, between which its prediction falls from
        `predictions[0]` to `predictions[1]`, each predicted alone; None of others than "falls".
    :param row: the index of the row of the table from which the pair comes.
    :param column: the one that differs; `values`: its two values.
    """

    verdict: str
    trees: int = 0
    steps: int = 0
    reason: str = ""
    pair: Any = None
    predictions: tuple[float, float] | None = None
    row: int | None = None
    column: str = ""
    values: tuple[float, float] | None = None

    def summary(self) -> str:
        """A sentence, and the pair that falls."""
        text = f"trees: {self.verdict}"
        if self.trees:
            text += f" ({self.trees} trees, {self.steps} steps over values of their splits)"
        text += f"; {self.reason}" if self.reason else ""
        if self.predictions is None or self.values is None:
            return text
        (low, high), (first, last) = self.predictions, self.values
        return (
            f"{text}: a row like {self.row} of X, from {low:.9g} to {high:.9g} where each is alone"
            f"\n  {self.column}: {first!r} -> {last!r}"
        )


@dataclass(frozen=True)
class MonotonicityAudit:
    """The result of `audit_monotonicity`; the predictor `passed` if no pair was a violation.

    :param frame: one row per search with the columns search, pairs, ties (equal predictions),
        rounding (drops within the tolerance), violations (larger drops), rate (violations / pairs)
        and largest_drop (0 if none). Only the rate of "random" estimates a probability, since the
        other searches maximise the drop.
    :param by_column: one row per varied column of r with the columns column, low and high, between
        which it was searched, pairs in which it differs, violations among them, rate, and
        violations_alone, in which no other column differs.
    :param drops: histogram with one row per search and bin of drops, from 10^(exponent / 4) to
        10^((exponent + 1) / 4), with the counts rounding and violations.
    :param increasing: +1, -1 or 0 (not checked) for each column of r.
    :param tolerance: fraction of max(1, abs(prediction)) up to which a drop counts as rounding.
    :param witness: the worst violation, or None.
    :param rows: how many rows of data have a pair, and how many were given.
    :param calls: number of calls that both ends of all pairs went through, at random places, and
        rows of the largest.
    :param x_names: names of the columns of x; `r_names`: those of r.
    :param event: the class whose probability was audited, where it is known, or "".
    :param proof: what the trees of a boosting model prove; None of other predictors.
    """

    frame: pd.DataFrame
    by_column: pd.DataFrame
    drops: pd.DataFrame
    increasing: tuple[int, ...]
    tolerance: float
    witness: Witness | None
    rows: tuple[int, int]
    calls: tuple[int, int]
    x_names: tuple[str, ...]
    r_names: tuple[str, ...]
    event: str = ""
    proof: TreeProof | None = None

    @property
    def passed(self) -> bool:
        """Whether no violation was found; that there is none is proved by `proof` alone."""
        return self.violations == 0 and (self.proof is None or self.proof.pair is None)

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

    @property
    def searched(self) -> str:
        """What was searched, in a sentence; nothing is known of other pairs."""
        ranges = zip(*(self.by_column[name] for name in ("column", "low", "high")), strict=True)
        return (
            f"{self.pairs} pairs at {self.rows[0]} of {self.rows[1]} rows, both ends at random "
            f"places of {self.calls[0]} calls of up to {self.calls[1]} rows; "
            + ", ".join(f"{name} from {low:.6g} to {high:.6g}" for name, low, high in ranges)
        )

    def summary(self) -> str:
        """A summary to print: counts, what was searched, and the worst violation."""
        verdict = "passed" if self.passed else "FAILED"
        lines = [
            f"monotonicity {verdict}: {self.violations} violations, {self.rounding} decreases "
            f"within tolerance and {self.ties} ties in {self.pairs} pairs (tolerance "
            f"{self.tolerance:.2g})" + (f"; event: {self.event}" if self.event else ""),
            textwrap.fill(f"searched: {self.searched}", 100, subsequent_indent="  "),
            self.frame.to_string(index=False, float_format=lambda v: f"{v:.3g}"),
        ]
        if self.proof is not None:
            lines.insert(1, self.proof.summary())
        if self.violations:
            table = self.by_column.drop(columns=["low", "high"])
            columns = table.to_string(index=False, float_format=lambda v: f"{v:.3g}")
            lines += ["", columns, "", *self._witness_lines()]
        return "\n".join(lines)

    def _witness_lines(self) -> list[str]:
        w = self.witness
        assert w is not None
        alone = "confirmed in calls with one row"
        if not w.confirmed:
            alone = f"NOT {alone}: predictions of a row depend on its call"
        lines = [
            f"worst pair ({w.search} search, row {w.row}): the prediction decreases by "
            f"{w.drop:.6g}, from {w.low:.9g} to {w.high:.9g}; {alone}",
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
