"""Numbers and names as a reader finds them in a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    whole = number == round(number) or abs(number) >= 1e4
    return f"{number:,.0f}" if whole and abs(number) < 1e15 else f"{number:,.4g}"


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
