"""Tables of the released protocol: beside the paper's Table 3, and one change at a time."""

from __future__ import annotations

import pandas as pd


def report(table: pd.DataFrame, protocol: str) -> str:
    return ""
