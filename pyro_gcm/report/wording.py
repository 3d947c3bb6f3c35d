"""Numbers and names as a reader finds them in a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


def amount(value: Any) -> str:
    """A value of a column: a number with at most four digits that count, or a level as it is."""
    if pd.isna(value):
        return "missing"
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if not hasattr(value, "__float__"):
        return str(value)
    number = float(value)
    if not math.isfinite(number):
        return "infinite"
    if number == round(number) and abs(number) < 1e15:
        return f"{number:,.0f}"
    return f"{number:,.0f}" if 1e4 <= abs(number) < 1e15 else f"{number:,.4g}"


def percent(share: float) -> str:
    """A share in percent with one decimal, none of which is 0 or 100 % that is not just that."""
    value = 100.0 * share
    if share not in (0.0, 1.0) and not 0.05 <= value < 99.95:
        return "below 0.1\u00a0%" if value < 0.05 else "above 99.9\u00a0%"
    return f"{value:.1f}".removesuffix(".0") + "\u00a0%"


def counted(number: int, name: str) -> str:
    """A number with its noun, such as "1 row" or "2,000 rows"."""
    return f"{number:,} {name}" + ("" if number == 1 else "s")


def listed(texts: Sequence[str], most: int = 8) -> str:
    """Texts in a sentence, the first ones where there are many."""
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most} more"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def quoted(name: object) -> str:
    """A name of a column or a level in quotation marks."""
    return f"“{name}”"


def shortened(name: str, most: int = 24) -> str:
    """The beginning of a name, where a figure has no room for all of it."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


@dataclass(frozen=True)
class Words:
    """The phrases of a report for the predictions of a kind of model.

    :param target: name of the column that is predicted.
    :param labels: the levels, or the two classes, the event last, as text.
    :param event: what happens, of a survival model; `horizon`: the time of its risk.
    """

    kind: str
    target: str
    labels: Sequence[str] = ()
    event: str = "the event"
    horizon: float = math.nan

    @property
    def is_share(self) -> bool:
        """Whether predictions are probabilities."""
        return self.kind in ("classifier", "survival")

    @property
    def happening(self) -> str:
        """The event of a prediction that is a probability."""
        if self.kind == "survival":
            return f"{self.event} comes by {quoted(self.target)} = {amount(self.horizon)}"
        return f"{quoted(self.target)} is {quoted(self.labels[-1])}"

    @property
    def not_happening(self) -> str:
        """The opposite of it."""
        if self.kind == "survival":
            return f"{self.event} does not come by {quoted(self.target)} = {amount(self.horizon)}"
        return f"{quoted(self.target)} is {quoted(self.labels[0])}"

    @property
    def prediction(self) -> str:
        """The name of a prediction, in full."""
        if self.is_share:
            return f"probability that {self.happening}"
        if self.kind == "ordinal":
            ends = f"0 is {quoted(self.labels[0])} and {len(self.labels) - 1} is "
            return f"mean place of {quoted(self.target)}, where {ends}{quoted(self.labels[-1])}"
        return f"mean of {quoted(self.target)}"

    @property
    def short(self) -> str:
        """The name of a prediction, in a word or two."""
        names = {"classifier": "probability", "survival": "risk", "ordinal": "mean place"}
        return names.get(self.kind, "mean")

    @property
    def averaged(self) -> str:
        """The mean of predictions over rows."""
        return f"mean {self.short}" if self.is_share else "average prediction"

    @property
    def on_axis(self) -> str:
        """The name of a prediction, on the axis of a figure."""
        of = shortened(self.target)
        if self.kind == "classifier":
            of = quoted(shortened(self.labels[-1]))
        if self.kind == "survival":
            return f"risk by {amount(self.horizon)}"
        return f"{self.short} of {of}"

    def value(self, prediction: float) -> str:
        """A prediction with its unit."""
        return percent(prediction) if self.is_share else amount(prediction)
