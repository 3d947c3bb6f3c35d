"""Tables of what directions cost credit scores: the same model without them less that with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from reproduce.data.credit_tables import TITLES
from reproduce.intervals import (
    LEVEL,
    TEST_TO_TRAIN,
    Interval,
    holm,
    mean_interval,
    paired_interval,
    samples,
)
from reproduce.methods.credit import METHODS
from reproduce.rendering.markdown import grid, markdown, shown

#: The method that the others are compared with.
REFERENCE = "GCMClassifier"
SCORES = ("AUC", "log loss", "Brier score", "calibration error")
METRICS = (*SCORES, "seconds of a fit")
#: Scores whose prices have intervals by resampled test rows.
RESAMPLED = SCORES[:3]
#: With directions, and without.
MODES = ("constrained", "free")


def values_of(table: pd.DataFrame, name: str, mode: str, metric: str) -> dict[str, pd.Series]:
    """The values of every method, in the order of the methods."""
    rows = table[
        (table["dataset"] == name) & (table["variant"] == mode) & (table["metric"] == metric)
    ]
    found = samples(rows, "method")
    return {method: found[method] for method in METHODS if method in found}


def leads(table: pd.DataFrame, name: str, metric: str) -> dict[str, tuple[Interval, float]]:
    """How much better GCMClassifier is than each other method on the same splits, with directions.

    :returns: method -> the paired difference, and its p-value after Holm's correction.
    """
    values = values_of(table, name, MODES[0], metric)
    sign = 1.0 if metric == "AUC" else -1.0
    found = {
        method: paired_interval(sign * values[REFERENCE], sign * of, TEST_TO_TRAIN)
        for method, of in values.items()
        if method != REFERENCE and REFERENCE in values
    }
    adjusted = holm({method: lead.p_value for method, lead in found.items()})
    return {method: (lead, adjusted[method]) for method, lead in found.items()}


def standing(table: pd.DataFrame, metric: str, side: str) -> str:
    """Methods that GCMClassifier is significantly "ahead" of, or "behind", with the tables."""
    sign, told = {"ahead": 1.0, "behind": -1.0}[side], dict[str, list[str]]()
    for name, title in TITLES.items():
        for method, (lead, p) in leads(table, name, metric).items():
            if p < LEVEL and sign * lead.mean > 0.0:
                told.setdefault(method, []).append(title)
    return "; ".join(f"{m} ({', '.join(told[m])})" for m in METHODS if m in told) or "none"


def standings(table: pd.DataFrame) -> str:
    """What `standing` says of every score; others are not significantly apart."""
    rows = [[m, *(standing(table, m, side) for side in ("ahead", "behind"))] for m in SCORES]
    return markdown(["Score", f"{REFERENCE} is ahead of", "behind"], rows)


def _mean(values: pd.Series) -> Interval:
    """A mean that is shown without its interval."""
    return replace(mean_interval(values), half=float("nan"))


def scores(table: pd.DataFrame, name: str) -> str:
    """Means with directions, the best of those on all splits in bold.

    * where the paired difference to GCMClassifier is not 0 at 5 % after Holm's correction.
    """
    means: dict[tuple[str, str], Interval] = {}
    marks: dict[tuple[str, str], str] = {}
    lower: dict[str, bool] = {}
    for metric in METRICS:
        values = values_of(table, name, MODES[0], metric)
        means |= {(m, metric): _mean(v) for m, v in values.items()}
        if metric not in SCORES or REFERENCE not in values:
            continue
        lower[metric] = metric != "AUC"
        for method, (_, p) in leads(table, name, metric).items():
            marks[method, metric] = "*" if p < LEVEL else ""
    there = {metric: metric for metric in METRICS if any(m == metric for _, m in means)}
    return grid(means, there, lower, marks, METHODS, full_first=True)


def _free(method: str) -> str:
    """The method whose fit without constraints is that of another way of constraining it."""
    return method if METHODS[method].free else method.partition(",")[0]


class Price(NamedTuple):
    """What directions cost a method: of each score, positive where the free model is better.

    :param share: that in AUC over the AUC of the free model.
    """

    of: dict[str, Interval]
    share: float


def prices(table: pd.DataFrame, name: str) -> dict[str, Price]:
    """The price of monotonicity of every method that was run with directions and without."""
    of: dict[str, dict[str, Interval]] = {}
    whole: dict[str, float] = {}
    for metric in SCORES:
        sign = 1.0 if metric == "AUC" else -1.0
        every = values_of(table, name, MODES[1], metric)
        for method, own in values_of(table, name, MODES[0], metric).items():
            if (free := every.get(_free(method))) is not None:
                gap = paired_interval(sign * free, sign * own, TEST_TO_TRAIN)
                of.setdefault(method, {})[metric] = gap
                whole.setdefault(method, free.mean())  # AUC comes first
    return {m: Price(gaps, gaps["AUC"].mean / whole[m]) for m, gaps in of.items()}


def _adjusted(found: Mapping[str, Price], metric: str) -> dict[str, float]:
    """P-values of the prices in a score after Holm's correction."""
    return holm({method: price.of[metric].p_value for method, price in found.items()})


def price(table: pd.DataFrame, name: str) -> str:
    """The price of monotonicity of every method; * where it is not 0 after Holm's correction."""
    found = prices(table, name)
    p_values = {metric: _adjusted(found, metric) for metric in SCORES}
    most = max((price.of["AUC"].count for price in found.values()), default=0)
    lines = []
    for method, own in found.items():
        marks = {m: "*" if p_values[m][method] < LEVEL else "" for m in SCORES}
        cells = (shown(own.of[m], most, mark=marks[m]) for m in SCORES)
        lines.append([method, *cells, f"{100 * own.share:+.2f} %"])
    return markdown(["Method", *SCORES, "share of the AUC"], lines)


def ends(table: pd.DataFrame, name: str, metric: str) -> dict[str, tuple[pd.Series, pd.Series]]:
    """Ends of the intervals of a price by resampled test rows, of each method and split."""
    low, high = (
        values_of(table, name, MODES[1], f"{metric}, price {end}") for end in ("from", "to")
    )
    return {method: (of, high[method]) for method, of in low.items()}


def resampled(table: pd.DataFrame, name: str) -> str:
    """Mean ends of these intervals, and on how many splits they lie above or below 0."""
    of = {metric: ends(table, name, metric) for metric in RESAMPLED}
    lines = []
    for method in of["AUC"]:
        cells = []
        for metric in RESAMPLED:
            low, high = of[metric][method]
            sides = {"above": (low > 0.0).sum(), "below": (high < 0.0).sum()}
            told = ", ".join(f"{side} on {count}" for side, count in sides.items() if count)
            span = f"{low.mean():.4f} to {high.mean():.4f}"
            cells.append(f"{span} ({told})" if told else span)
        lines.append([method, *cells])
    return markdown(["Method", *RESAMPLED], lines)


def told_on_every_split(table: pd.DataFrame) -> str:
    """Methods whose price in AUC has all these intervals above 0, or all of them below."""
    told = []
    for name, title in TITLES.items():
        for method, (low, high) in ends(table, name, "AUC").items():
            if (low > 0.0).all() or (high < 0.0).all():
                told.append(f"{method} ({title}, {'above' if low.mean() > 0.0 else 'below'})")
    return "; ".join(told) or "none"


def against_others(table: pd.DataFrame) -> str:
    """The price of members less that of each method, in AUC, on every table."""
    columns = {n: t for n, t in TITLES.items() if n in set(table["dataset"])}
    gaps: dict[tuple[str, str], Interval] = {}
    for name in columns:
        free = values_of(table, name, MODES[1], "AUC")
        of = {
            method: (free[_free(method)] - with_).dropna()
            for method, with_ in values_of(table, name, MODES[0], "AUC").items()
            if _free(method) in free
        }
        for method, values in of.items():
            if method != REFERENCE and REFERENCE in of:
                gaps[method, name] = paired_interval(of[REFERENCE], values, TEST_TO_TRAIN)
    p_values = holm({key: gap.p_value for key, gap in gaps.items()})
    marks = {key: "*" if p < LEVEL else "" for key, p in p_values.items()}
    return grid(gaps, columns, None, marks, METHODS)


def page(table: pd.DataFrame, name: str) -> str:
    """One table for a reader of the documentation: `scores`, and the price in AUC, by method."""
    cells = dict(line.split(" | ")[:2] for line in price(table, name).splitlines()[2:])
    heads, priced = ["price", "---:"], []
    for line in scores(table, name).splitlines():
        method, auc, rest = line.split(" | ", 2)
        cell = heads.pop(0) if heads else cells.get(method, "–")
        priced.append(f"{method} | {auc} | {cell} | {rest}")
    return "\n".join(priced)


def significant_prices(table: pd.DataFrame) -> str:
    """Prices in AUC that are not 0 after Holm's correction, by table."""
    told = []
    for name, title in TITLES.items():
        found = prices(table, name)
        told += [
            f"{method} ({title}, {100 * found[method].of['AUC'].mean:+.2f} points)"
            for method, p in _adjusted(found, "AUC").items()
            if p < LEVEL
        ]
    return "; ".join(told) or "none"


def range_of_prices(table: pd.DataFrame) -> str:
    """The smallest and the largest price, as shares of the AUC, of members and of boosting."""
    boosters = (
        "LightGBM",
        "XGBoost",
        "CatBoost",
        "HistGradientBoosting",
        "YDF",
        "H2O",
        "Perpetual",
    )
    told = []
    for title, methods in (("`GCMClassifier`", (REFERENCE,)), ("boosting", boosters)):
        shares = [
            100 * price.share
            for name in TITLES
            for method, price in prices(table, name).items()
            if method in methods
        ]
        if shares:
            told.append(f"{min(shares):+.2f} to {max(shares):+.2f} % for {title}")
    return " and ".join(told)
