"""Credit scores with directions and without: what monotonicity costs on four tables.

Every method has its defaults, the directions of the table by name and the same random splits: up to
10,000 rows to learn from, a quarter as many to test on. The price of monotonicity is the score of
the same model without constraints less that with them, on the same split.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import replace

import pandas as pd
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from reproduce.data.credit_tables import TABLES, TITLES, Split, split
from reproduce.intervals import (
    LEVEL,
    TEST_TO_TRAIN,
    Interval,
    holm,
    mean_interval,
    paired_interval,
    samples,
)
from reproduce.methods.credit import METHODS, Predict, lacking, version_of
from reproduce.rendering.markdown import grid, markdown, shown
from reproduce.runs import Fit, Scores
from reproduce.scores import expected_calibration_error
from reproduce.study import Study, each

#: Rows of a split at most, and of --quick.
ROWS, QUICK_ROWS = 12_500, 500
#: A method of minutes a fit -> the splits that it gets.
SLOW = {"EBM": 2}
REFERENCE = "GCMClassifier"
METRICS = ("AUC", "log loss", "Brier score", "calibration error", "seconds of a fit")
MODES = ("constrained", "free")


def cells(fit: Fit) -> Iterable[Fit]:
    """A fit with the directions, and one without."""
    if int(fit.split) >= SLOW.get(fit.method, fit.seed + 1):
        return []
    modes = MODES if METHODS[fit.method].free else MODES[:1]
    return [replace(fit, variant=mode) for mode in modes]


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split; none where its package lacks."""
    reason = lacking(fit.method)
    if reason is not None:
        print(reason)
        return {"seconds": 0.0, "epochs": 0}
    rows = split(fit.dataset, fit.seed, fit.options.get("rows", ROWS))
    directions = TABLES[fit.dataset].directions if fit.variant == "constrained" else {}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predict = METHODS[fit.method].fit(rows.X, rows.y, directions, fit.seed)
        spent = time.process_time() - start
        found = scored(predict, rows)
    return {**found, "seconds of a fit": spent, "seconds": spent, "epochs": 0}


def scored(predict: Predict, rows: Split) -> Scores:
    """The scores of a prediction on the test rows of a split."""
    probability = predict(rows.X_test).astype("float64").clip(0.0, 1.0)
    return {
        "AUC": roc_auc_score(rows.y_test, probability),
        "log loss": log_loss(rows.y_test, probability),
        "Brier score": brier_score_loss(rows.y_test, probability),
        "calibration error": expected_calibration_error(probability, rows.y_test),
    }


def values_of(table: pd.DataFrame, name: str, mode: str, metric: str) -> dict[str, pd.Series]:
    """The values of every method, in the order of the methods."""
    rows = table[
        (table["dataset"] == name) & (table["variant"] == mode) & (table["metric"] == metric)
    ]
    found = samples(rows, "method")
    return {method: found[method] for method in METHODS if method in found}


def scores(table: pd.DataFrame, name: str) -> str:
    """Means with directions, the best of those on all splits in bold.

    * where the paired difference to GCMClassifier is not 0 at 5 % after Holm's correction.
    """
    means: dict[tuple[str, str], Interval] = {}
    marks: dict[tuple[str, str], str] = {}
    lower: dict[str, bool] = {}
    for metric in METRICS:
        values = values_of(table, name, "constrained", metric)
        means |= {
            (m, metric): replace(mean_interval(v), half=float("nan")) for m, v in values.items()
        }
        if metric.startswith("seconds") or REFERENCE not in values:
            continue
        lower[metric] = metric != "AUC"
        gaps = {
            m: paired_interval(v, values[REFERENCE], TEST_TO_TRAIN)
            for m, v in values.items()
            if m != REFERENCE
        }
        for method, p in holm({m: gap.p_value for m, gap in gaps.items()}).items():
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


STUDY = Study(
    *("credit", str(__doc__), TITLES, METHODS, run, each(TITLES, report)),
    count=5,
    cells=cells,
    settings=version_of,
    quick={"rows": QUICK_ROWS},
    jobs=1,
)
