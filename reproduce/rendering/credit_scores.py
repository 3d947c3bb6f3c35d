"""Tables of credit scores: with directions, what the directions cost, and who is ahead."""

from __future__ import annotations

from dataclasses import replace

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
METRICS = ("AUC", "log loss", "Brier score", "calibration error", "seconds of a fit")
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
    """What `standing` says of every score; GCMClassifier is level with methods it does not name."""
    metrics = [metric for metric in METRICS if not metric.startswith("seconds")]
    rows = [[m, *(standing(table, m, side) for side in ("ahead", "behind"))] for m in metrics]
    return markdown(["Score", f"{REFERENCE} is ahead of", "behind"], rows)


def by_table(table: pd.DataFrame, metric: str) -> str:
    """Means of one score with directions on every table, as in `scores`."""
    names = {name: title for name, title in TITLES.items() if name in set(table["dataset"])}
    means: dict[tuple[str, str], Interval] = {}
    marks: dict[tuple[str, str], str] = {}
    for name in names:
        values = values_of(table, name, MODES[0], metric)
        means |= {(m, name): _mean(v) for m, v in values.items()}
        found = leads(table, name, metric)
        marks |= {(m, name): "*" for m, (_, p) in found.items() if p < LEVEL}
    lower = dict.fromkeys(names, metric != "AUC")
    return grid(means, names, lower, marks, METHODS, full_first=True)


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
        values = values_of(table, name, "constrained", metric)
        means |= {(m, metric): _mean(v) for m, v in values.items()}
        if metric.startswith("seconds") or REFERENCE not in values:
            continue
        lower[metric] = metric != "AUC"
        for method, (_, p) in leads(table, name, metric).items():
            marks[method, metric] = "*" if p < LEVEL else ""
    there = {metric: metric for metric in METRICS if any(m == metric for _, m in means)}
    return grid(means, there, lower, marks, METHODS, full_first=True)


def _free(method: str) -> str:
    """The method whose fit without constraints is that of another way of constraining it."""
    return method if METHODS[method].free else method.partition(",")[0]


def prices(table: pd.DataFrame, name: str) -> dict[str, tuple[tuple[Interval, Interval], float]]:
    """Of every method: the price in AUC and in log loss, and the first as a share of the AUC.

    Positive where the model without constraints is better.
    """
    found = {}
    for method in METHODS:
        both = {}
        for metric, sign in (("AUC", 1.0), ("log loss", -1.0)):
            with_ = values_of(table, name, MODES[0], metric).get(method)
            free = values_of(table, name, MODES[1], metric).get(_free(method))
            if with_ is None or free is None:
                continue
            both[metric] = paired_interval(sign * free, sign * with_, TEST_TO_TRAIN), free.mean()
        if both:
            (auc, of), (loss, _) = both["AUC"], both["log loss"]
            found[method] = (auc, loss), auc.mean / of
    return found


def price(table: pd.DataFrame, name: str) -> str:
    """The price of monotonicity of every method; * where it is not 0 after Holm's correction."""
    found = prices(table, name)
    stars = [holm({m: p[0][at].p_value for m, p in found.items()}) for at in (0, 1)]
    most = max((p[0][0].count for p in found.values()), default=0)
    lines = [
        [
            method,
            *(
                shown(p[0][at], most, mark="*" if stars[at][method] < LEVEL else "")
                for at in (0, 1)
            ),
            f"{100 * p[1]:+.2f} %",
        ]
        for method, p in found.items()
    ]
    return markdown(["Method", "AUC", "Log loss", "Share of the AUC"], lines)


def against_boosting(table: pd.DataFrame) -> str:
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
    header, rule, *lines = scores(table, name).splitlines()
    of_method = {line.split(" | ")[0]: line for line in price(table, name).splitlines()[2:]}
    priced = []
    for line in [header, rule, *lines]:
        method = line.split(" | ")[0]
        cell = of_method[method].split(" | ")[1] if method in of_method else "–"
        head = {header: "price", rule: "---:"}.get(line, cell)
        first, _, rest = line.partition(" | ")
        auc, _, rest = rest.partition(" | ")
        priced.append(f"{first} | {auc} | {head} | {rest}")
    return "\n".join(priced)


def significant_prices(table: pd.DataFrame) -> str:
    """Prices in AUC that are not 0 after Holm's correction, by table."""
    told = []
    for name, title in TITLES.items():
        found = prices(table, name)
        adjusted = holm({m: p[0][0].p_value for m, p in found.items()})
        told += [
            f"{m} ({title}, {100 * found[m][0][0].mean:+.2f})"
            for m, p in adjusted.items()
            if p < LEVEL
        ]
    return "; ".join(told) or "none"


def range_of_prices(table: pd.DataFrame) -> str:
    """The smallest and the largest price, as shares of the AUC, of members and of boosting."""
    boosters = ("LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting")
    told = []
    for title, methods in (("`GCMClassifier`", (REFERENCE,)), ("boosting", boosters)):
        shares = [
            100 * share
            for name in TITLES
            for method, (_, share) in prices(table, name).items()
            if method in methods
        ]
        if shares:
            told.append(f"{min(shares):+.2f} to {max(shares):+.2f} % for {title}")
    return " and ".join(told)


def report(table: pd.DataFrame, name: str) -> str:
    """The scores with directions, and what they cost."""
    return f"{scores(table, name)}\n\nPrice of monotonicity:\n\n{price(table, name)}"
