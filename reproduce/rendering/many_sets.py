"""Every method against members over many data sets: one difference a data set, Wilcoxon's test."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from reproduce.intervals import LEVEL, holm, samples
from reproduce.methods import DEFAULTS
from reproduce.rendering.markdown import markdown

REFERENCE = "Members"
#: Fewest data sets of a test.
FEWEST = 5


def gains(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """What members gain on every data set: a row a data set, a column a method.

    :param table: of experiments that each have members on the splits of their other methods.
    :param metric: "error", log of the ratio of 1 - AUC or of RMSE, the other's over that of
        members; or "log score", the difference in nats a row. Means are over the splits that both
        methods have.
    """
    metrics = ("AUC", "RMSE") if metric == "error" else (metric,)
    rows = table[table["metric"].isin(metrics)]
    kinds = dict(zip(rows["dataset"], rows["metric"], strict=True))
    values = samples(rows, ["experiment", "method", "dataset"])
    found: dict[str, dict[str, float]] = {}
    for (experiment, method, name), other in values.items():
        ours = values.get((experiment, REFERENCE, name))
        if method == REFERENCE or ours is None:
            continue
        shared = (ours + other).dropna().index
        a, b = (each[shared].mean() for each in (ours, other))
        if metric == "error":
            a, b = (1.0 - a, 1.0 - b) if kinds[name] == "AUC" else (a, b)
        found.setdefault(method, {})[name] = math.log(b / a) if metric == "error" else a - b
    return pd.DataFrame(found)


def report(table: pd.DataFrame, metric: str) -> str:
    """A line a method: on how many data sets members are better, the median gain, and the test.

    The signed-rank test is two-sided and exact; p-values are Holm's over the methods as well, and *
    marks gains with one below 0.05.
    """
    every = gains(table, metric)
    tested = [m for m in DEFAULTS if m in every and every[m].notna().sum() >= FEWEST]
    p_values = {m: float(wilcoxon(every[m].dropna(), method="exact").pvalue) for m in tested}
    adjusted = holm(p_values)
    lines = []
    for method in tested:
        own = every[method].dropna()
        median = float(np.median(own))
        size = f"{100.0 * math.expm1(median):+.2f} %" if metric == "error" else f"{median:+.4f}"
        size += "*" if adjusted[method] < LEVEL else ""
        tests = [_p(p_values[method]), _p(adjusted[method])]
        lines.append([method, str(len(own)), str(int((own > 0.0).sum())), size, *tests])
    header = ["Method", "data sets", "members better", "median gain", "p", "Holm"]
    return markdown(header, lines)


def _p(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"
