"""Tables of what directions cost credit scores: the same model without them less that with them."""

from __future__ import annotations

from itertools import product

import pandas as pd

from reproduce.data.credit_tables import TITLES
from reproduce.intervals import Interval, bare_means, gaps, samples, stars
from reproduce.methods.credit import METHODS
from reproduce.rendering.markdown import NOT_RUN, cross_table, grid, markdown, shown
from reproduce.rendering.tables import to_reference

#: The method that the others are compared with.
REFERENCE = "GCMClassifier"
SCORES = ("AUC", "log loss", "Brier score", "calibration error")
METRICS = ("AUC", "price", *SCORES[1:], "seconds of a fit")
#: Whether lower is better.
LOWER = {metric: metric != "AUC" for metric in SCORES}
#: Scores whose prices have intervals by resampled test rows.
RESAMPLED = SCORES[:3]
#: With directions, and without.
MODES = ("constrained", "free")
BOOSTERS = ["LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting", "YDF", "H2O", "Perpetual"]
#: By method and metric, or by method and table.
Cells = dict[tuple[str, str], Interval]


def values_of(table: pd.DataFrame, name: str, mode: str) -> dict[tuple[str, str], pd.Series]:
    """The values of every method and metric, in the order of the methods."""
    rows = table[(table["dataset"] == name) & (table["variant"] == mode)]
    found = samples(rows, ["method", "metric"])
    return {key: found[key] for method in METHODS for key in found if key[0] == method}


def leads(table: pd.DataFrame, name: str) -> tuple[Cells, dict[tuple[str, str], str]]:
    """How much better GCMClassifier is than each other method on the same splits, with directions.

    :returns: the paired differences, and * where they are not 0 after Holm's correction.
    """
    values = values_of(table, name, MODES[0])
    scored = {key: each for key, each in values.items() if key[1] in SCORES}
    cells = to_reference(scored, REFERENCE, LOWER)
    return cells, stars(cells, lambda key: key[1])


def standing(table: pd.DataFrame, metric: str, side: str) -> str:
    """Methods that GCMClassifier is significantly "ahead" of, or "behind", with the tables."""
    sign, told = {"ahead": 1.0, "behind": -1.0}[side], dict[str, list[str]]()
    for name, title in TITLES.items():
        cells, marks = leads(table, name)
        for (method, of), gap in cells.items():
            if of == metric and marks[method, of] and sign * gap.mean > 0.0:
                told.setdefault(method, []).append(title)
    return "; ".join(f"{m} ({', '.join(told[m])})" for m in METHODS if m in told) or "none"


def standings(table: pd.DataFrame) -> str:
    """What `standing` says of every score; others are not significantly apart."""
    rows = [[m, *(standing(table, m, side) for side in ("ahead", "behind"))] for m in SCORES]
    return markdown(["Score", f"{REFERENCE} is ahead of", "behind"], rows)


def scores(table: pd.DataFrame, name: str, in_auc: Cells | None = None) -> str:
    """Means with directions, the best of those on all splits in bold.

    * where the paired difference to GCMClassifier is not 0 at 5 % after Holm's correction.

    :param in_auc: prices in AUC by (method, "price"), which stand beside it.
    """
    means = bare_means(values_of(table, name, MODES[0])) | (in_auc or {})
    marks = leads(table, name)[1] | stars(in_auc or {}, lambda key: key[1])
    columns = {metric: metric for metric in METRICS if any(m == metric for _, m in means)}
    return grid(means, columns, LOWER, marks, METHODS, full_first=True)


def _free(method: str) -> str:
    """The method whose fit without constraints is that of another way of constraining it."""
    return method if METHODS[method].free else method.partition(",")[0]


def prices(table: pd.DataFrame, name: str) -> Cells:
    """What directions cost every method that was run with them and without, in every score.

    Positive where the free model is better.
    """
    with_, free = (values_of(table, name, mode) for mode in MODES)
    of_free = {
        (m, metric): free[_free(m), metric]
        for m, metric in with_
        if metric in SCORES and (_free(m), metric) in free
    }
    return gaps(of_free, with_, SCORES[1:])


def _shares(table: pd.DataFrame, name: str) -> dict[str, float]:
    """The price in AUC of every method in per cent of the AUC of its free model."""
    free = values_of(table, name, MODES[1])
    return {
        method: 100 * price.mean / free[_free(method), "AUC"].mean()
        for (method, metric), price in prices(table, name).items()
        if metric == "AUC"
    }


def price(table: pd.DataFrame, name: str) -> str:
    """The price of monotonicity of every method; * where it is not 0 after Holm's correction."""
    cells = prices(table, name)
    marks = stars(cells, lambda key: key[1])
    texts = {key: shown(cell, mark=marks[key]) for key, cell in cells.items()}
    columns = {score: score for score in SCORES} | {"share": "share of the AUC"}
    texts |= {(m, "share"): f"{share:+.2f} %" for m, share in _shares(table, name).items()}
    return cross_table(texts, METHODS, columns, lacking=NOT_RUN)


def page(table: pd.DataFrame, name: str) -> str:
    """One table for a reader of the documentation: `scores`, and the price in AUC, by method."""
    found = prices(table, name)
    in_auc = {(m, "price"): cell for (m, metric), cell in found.items() if metric == "AUC"}
    return scores(table, name, in_auc).replace(NOT_RUN, "–")


def resampled(table: pd.DataFrame, name: str) -> str:
    """Mean ends of these intervals, and on how many splits they lie above or below 0."""
    values, lines = values_of(table, name, MODES[1]), dict[str, list[str]]()
    for metric, method in product(RESAMPLED, METHODS):
        if (method, f"{metric}, price from") in values:
            low, high = (values[method, f"{metric}, price {end}"] for end in ("from", "to"))
            sides = {"above": (low > 0.0).sum(), "below": (high < 0.0).sum()}
            told = ", ".join(f"{side} on {count}" for side, count in sides.items() if count)
            span = f"{low.mean():.4f} to {high.mean():.4f}"
            lines.setdefault(method, [method]).append(f"{span} ({told})" if told else span)
    return markdown(["Method", *RESAMPLED], lines.values())


def against_others(table: pd.DataFrame) -> str:
    """The price of members less that of each method, in AUC, on every table."""
    of: dict[tuple[str, str], pd.Series] = {}
    for name in TITLES:
        with_, free = (values_of(table, name, mode) for mode in MODES)
        for method, metric in with_:
            if metric == "AUC" and (_free(method), metric) in free:
                of[method, name] = (free[_free(method), metric] - with_[method, metric]).dropna()
    cells = to_reference(of, REFERENCE, dict.fromkeys(TITLES, False))
    return grid(cells, TITLES, marks=stars(cells, lambda key: "all"), order=METHODS)


def significant_prices(table: pd.DataFrame) -> str:
    """Prices in AUC that are not 0 after Holm's correction, by table."""
    told = []
    for name, title in TITLES.items():
        cells = prices(table, name)
        for (method, metric), star in stars(cells, lambda key: key[1]).items():
            if star and metric == "AUC":
                points = 100 * cells[method, metric].mean
                told.append(f"{method} ({title}, {points:+.2f} points)")
    return "; ".join(told) or "No price does."


def range_of_prices(table: pd.DataFrame) -> str:
    """The smallest and the largest price, as shares of the AUC, of members and of boosting."""
    every = [share for name in TITLES for share in _shares(table, name).items()]
    told = []
    for title, methods in (("`GCMClassifier`", (REFERENCE,)), ("boosting", BOOSTERS)):
        shares = [share for method, share in every if method in methods]
        if shares:
            told.append(f"{min(shares):+.2f} to {max(shares):+.2f} % for {title}")
    return " and ".join(told)
