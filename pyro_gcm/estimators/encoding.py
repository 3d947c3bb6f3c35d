"""The encoding of a column of a table, learned from the training rows.

A constrained column is a revenue. Where its value is missing the training median stands in, and an
indicator among the covariates says so, from which the model learns a level for missing values. The
prediction is then monotone in every other column, for any fixed set of missing columns. Nothing is
promised between a value that is missing and one that is not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from pyro_gcm._utils.validation import InvalidValue, as_tensor, warn_user
from pyro_gcm.data.tables import Column

#: Levels of a category with fewer training rows than this share one level with unseen ones.
_FEWEST_ROWS = 5
#: Levels of a category, at most; the rarest share one level.
MOST_LEVELS = 254
#: Where fewer than this share of so many rows have a level of their own, a warning says so.
_MOSTLY, _ENOUGH_ROWS = 0.1, 40
#: Range to which scaled numbers are clipped, so that float32 holds their squares.
FAR = 1e6
#: A normal distribution has its quartiles this many standard deviations apart.
_QUARTILES = 1.349


@dataclass
class ColumnEncoding:
    """How one column is read.

    :param label: how messages name it.
    :param sign: +1 or -1 if the prediction is to rise or to fall in it, otherwise 0.
    :param kind: "number", "category", or "ordered", a category whose levels have an order.
    :param loc, scale: of a number, or of the position of a level of a constrained category.
    :param low, high: range of the training rows.
    :param levels: the levels of a category that have a column of their own.
    :param shares: of the training rows, in the same order, and then of those after them.
    :param rare: whether rare levels share one, which unseen ones have as well.
    :param missing: whether some of the training rows lack a value, and others have one.
    :param known: all levels of a category that has effects, and `effects`, their mean outcomes.
    :param whole: whether the numbers of all training rows are whole.
    :param from_zero: whether values are at least 0, where those of the model start as well.
    """

    label: str
    sign: int
    kind: str
    loc: float = 0.0
    scale: float = 1.0
    low: float = 0.0
    high: float = 0.0
    levels: list[str | float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    rare: bool = False
    missing: bool = False
    known: list[str | float] = field(default_factory=list)
    effects: list[float] = field(default_factory=list)
    from_zero: bool = False
    whole: bool = False

    @classmethod
    def learn(cls, column: Column, sign: int, categorical: bool) -> ColumnEncoding:
        """Learn from the training rows.

        :raises ValueError: for a constraint on a category without an order.
        """
        absent = column.is_missing
        found = cls(column.label, sign, "number", missing=bool(absent.any() and not absent.all()))
        if categorical:
            found._learn_levels(column)
        if found.sign or not categorical:
            found._learn_scale(found.numbers(column))
        return found

    @property
    def width(self) -> int:
        """Number of covariates that stand for it; none where all training rows are equal."""
        if self.sign or self.kind == "number":
            return self.missing + (not self.sign and self.low < self.high)
        levels = len(self.levels) + self.rare + self.missing
        return levels + 1 if self.effects else levels * (levels > 1)

    @property
    def seen(self) -> list[str | float]:
        """The levels of a category that are told apart, by a column of their own or an effect."""
        return self.known or self.levels

    def _learn_levels(self, column: Column) -> None:
        labels = column.as_labels()
        found = dict(sorted(Counter(v for v in labels if v is not None).items()))
        self.kind = "category" if column.levels is None else "ordered"
        if self.sign:
            if column.levels is None:
                raise ValueError(
                    f"monotonic_cst: {column.label} has text or categories without an order, such "
                    f"as {next(iter(found), None)!r}, and cannot be constrained: make it numbers, "
                    "pandas.Categorical(values, levels, ordered=True) with its levels from low to "
                    "high, or its constraint 0"
                )
            self.levels = list(column.levels)
            return
        order = list(found) if column.levels is None else list(column.levels)
        frequent = sorted(found, key=lambda level: -found[level])[:MOST_LEVELS]
        kept = {level for level in frequent if found[level] >= _FEWEST_ROWS}
        self.levels = [level for level in order if level in kept]
        self.rare = len(kept) < len(found)
        counted = [found[level] for level in self.levels]
        given = sum(found.values())
        if given >= _ENOUGH_ROWS and sum(counted) < _MOSTLY * given:
            warn_user(
                f"{column.label} of X has text or categories of which nearly every value is rare, "
                f"such as {next(iter(found))!r}, and {given - sum(counted)} of {given} rows have "
                "one: make numbers or dates numbers, and leave identifiers out"
            )
        rest = [given - sum(counted)] if self.rare else []
        absent = [int(column.is_missing.sum())] if self.missing else []
        self.shares = [count / len(labels) for count in (*counted, *rest, *absent)]

    def _learn_scale(self, numbers: npt.NDArray[np.float64]) -> None:
        given = np.sort(numbers[~np.isnan(numbers)])
        if not len(given):
            return
        self.low, self.high = float(given[0]), float(given[-1])
        self.whole = bool((given % 1.0 == 0.0).all())
        # A power of two divides exactly, and the squares of what is left are finite.
        most = max(abs(self.low), abs(self.high))
        unit = 2.0 ** np.clip(np.frexp(most)[1], -1000, 1000) if most else 1.0
        lower, self.loc, upper = (
            float(given[round(place * (len(given) - 1))]) for place in (0.25, 0.5, 0.75)
        )
        spread = (upper / unit - lower / unit) / _QUARTILES
        if spread <= 0.0:
            spread = float(np.std(given / unit - self.loc / unit))
        # Below the smallest spread all values are one, as far as float64 can tell.
        self.scale = max(spread * unit, 1e-300) if spread > 0.0 else 1.0

    def numbers(self, column: Column) -> npt.NDArray[np.float64]:
        """The values in units of the data, or the positions of levels, NaN where missing.

        :raises ValueError: for text in a column of numbers, and for a number below 0 in a column
            that starts there.
        """
        if self.kind == "number":
            if column.numbers is None:
                if column.is_missing.all():
                    return np.full(len(column.is_missing), np.nan)
                had = "numbers" if self.low < self.high else "numbers, or no values,"
                given = pd.Series(column.as_labels()).dropna()
                text = given[pd.to_numeric(given, errors="coerce").isna()]
                row = int([*text.index, *given.index][0])
                told = f"{self.label} of X had {had} in fit, got text or categories, such as"
                raise InvalidValue(f"{told} {given[row]!r}", row)
            if self.from_zero and (below := column.numbers < 0.0).any():
                row = int(below.argmax())
                raise InvalidValue(
                    f"{self.label} of X must be at least 0, where its diminishing returns start "
                    f"(concave), got {column.numbers[row]:g}",
                    row,
                )
            return column.numbers
        places = self.codes(column)
        return np.where(places < len(self.levels), places, np.nan)

    def codes(self, column: Column) -> npt.NDArray[np.float64]:
        """The values of a number; of a category the places of its levels among `seen`.

        A level that is not among them has the place after the last, a missing one the next.
        """
        if self.kind == "number":
            return self.numbers(column)
        place: dict[Any, int] = {level: at for at, level in enumerate(self.seen)}
        unseen = len(place)
        place[None] = unseen + 1
        labels = self._checked_labels(column)
        return np.array([place.get(label, unseen) for label in labels], dtype=np.float64)

    def positions(self, values: Any) -> npt.NDArray[np.float64]:
        """Values of the column, which are its levels if it is a category, as numbers.

        :raises ValueError: for a level that it does not have.
        """
        if self.kind == "number":
            return as_tensor("values", values).double().cpu().numpy()
        unknown = [value for value in values if value not in self.seen]
        if unknown:
            raise ValueError(f"{self.label} has the levels {self.seen}, got {unknown}")
        return np.array([self.seen.index(value) for value in values], dtype=np.float64)

    def next_level(
        self, positions: npt.NDArray[np.float64], below: bool
    ) -> npt.NDArray[np.float64]:
        """The position of the next level where predictions are higher, or lower with `below`."""
        last = len(self.levels) - 1.0
        if (self.sign > 0) == below:
            return np.minimum(np.floor(positions), last)
        return np.maximum(np.ceil(positions), 0.0)

    def values_at(self, positions: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Numbers as values of the column; None where a category has no such level."""
        if self.kind == "number":
            return positions
        last = len(self.seen) - 1
        found = [self.seen[int(at)] if 0 <= at <= last else None for at in positions]
        return np.array(found, dtype=object)

    def filled(self, column: Column, value: Any) -> Column:
        """The column with one of its values in all rows."""
        rows = len(column.is_missing)
        if self.kind == "number":
            return replace(column, numbers=np.full(rows, float(value)), labels=None)
        return replace(column, numbers=None, labels=np.full(rows, value, dtype=object))

    def _checked_labels(self, column: Column) -> npt.NDArray[np.object_]:
        labels = column.as_labels()
        text = any(isinstance(level, str) for level in self.seen)
        for label in dict.fromkeys(labels) if self.seen else ():
            if label is not None and isinstance(label, str) != text:
                had, row = "text" if text else "numbers", labels.tolist().index(label)
                raise InvalidValue(f"{self.label} of X had {had} in fit, got {label!r}", row)
        return labels

    def warn_of_unknown(self, column: Column) -> None:
        """Warn of levels without a place of their own, where there are more of them than in fit.

        Where some were rare in fit those are not told from new ones: one row and twice the share of
        rare ones are no surprise.
        """
        labels, known = self._checked_labels(column), {None, *self.seen}
        unknown = [label for label in labels if label not in known]
        expected = 1.0 + 2.0 * self.shares[len(self.levels)] * len(labels) if self.rare else 0.0
        if len(unknown) > expected:
            rare = " or rarely" if self.rare else ""
            warn_user(
                f"{self.label} has in {len(unknown)} of {len(labels)} rows what fit never{rare} "
                f"saw, such as {unknown[0]!r}",
                about=f"unknown levels of {self.label}",
            )

    def start_at_zero(self) -> None:
        """Read a constrained number without a shift, for diminishing returns.

        :raises ValueError: for another column.
        """
        if self.sign != 1 or self.kind != "number":
            advice = ""
            if self.sign < 0:
                advice = (
                    ", which has -: where the probability falls less and less, that of the other "
                    "class rises so (positive=, with all directions turned round); where it falls "
                    "more and more, what is left up to a limit is a column with +"
                )
            raise ValueError(
                f"concave must name columns of numbers with direction +, got {self.label}{advice}"
            )
        self.loc, self.from_zero = 0.0, True

    def scaled(self, numbers: Tensor) -> Tensor:
        """Numbers in units of the model, rising in the direction of the sign; 0 for NaN."""
        z = (numbers / 2.0 - self.loc / 2.0) / self.scale * 2.0  # halves cannot overflow
        z = torch.where(z.isnan(), 0.0, z).clamp(-FAR, FAR)
        return (z * (self.sign or 1)).float()

    def encoded(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """The covariates that a network reads, [n, width], and the revenue, [n], both float32.

        It is arithmetic of torch alone, which `io.export` writes into a program.

        :param codes: of n rows, as `codes` returns them; those of a category may be integers.
        """
        if self.sign or self.kind == "number":
            numbers = codes.double()
            if self.kind != "number":
                numbers = torch.where(codes < len(self.levels), numbers, torch.nan)
            scaled = self.scaled(numbers)
            both, end = torch.stack([scaled, numbers.isnan().float()], 1), 1 + self.missing
            return both[:, end - self.width : end], scaled
        return self._rows_of_levels()[codes.long(), : self.width], codes.float()

    def _rows_of_levels(self) -> Tensor:
        """What a network reads of each code of a category without a direction."""
        count = len(self.levels)
        other = count if self.rare else -1
        place: dict[Any, int] = {level: at for at, level in enumerate(self.levels)}
        at = [place.get(level, other) for level in self.seen]
        at += [other, count + self.rare if self.missing else -1]
        # A level that no training row has, at -1, stands for the average row, and for nothing
        # where its effect does.
        coded = torch.eye(len(self.shares) + 1, len(self.shares))
        coded[-1] = torch.tensor([0.0 if self.effects else share for share in self.shares])
        if not self.effects:
            return coded[at]
        return torch.cat([coded[at], torch.tensor([*self.effects, 0.0, 0.0])[:, None]], 1)
