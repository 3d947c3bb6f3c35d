"""The audit board: which credit scores with directions fall where they may not, and by how much.

One fit of every method and table is searched by `pyro_gcm.audit.audit_table` on the held-out rows,
on those with missing values, on those with levels that were never seen, and on invented rows; the
first and the last with numbers in float64 and in float32, and with the refinement of the worst
pairs. Models without constraints are searched beside them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pandas as pd

from pyro_gcm.audit import SEARCHES, MonotonicityAudit, audit_table
from pyro_gcm.cli.errors import one_line
from reproduce.data.credit_tables import (
    TABLES,
    TITLES,
    Directions,
    Split,
    invented,
    with_gaps,
    with_unseen_levels,
)
from reproduce.defaults.credit import prepared
from reproduce.methods.credit import METHODS, Predict, lacking, version_of
from reproduce.rendering.credit_scores import MODES
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores, as_json
from reproduce.study import Study, each

#: A fall is a difference of probabilities above this; smaller ones are counted as rounding, since
#: some libraries predict in float32, and solvers stop before a constraint holds to the last bit.
TOLERANCE = 1e-6
#: Rows that a search starts from, and its pairs.
SEARCHED_ROWS, PAIRS, QUICK_PAIRS = 1_000, 6_000, 150
KINDS = ("held-out", "missing values", "unseen levels", "invented")
DTYPES = ("float64", "float32")
_SEED = 0


def cells(fit: Fit) -> Iterable[Fit]:
    """Every kind of rows and type of numbers; of a model without constraints, one."""
    found = []
    for kind in KINDS:
        if kind != "unseen levels" or fit.dataset != "compas":  # which has numbers alone
            whole = kind in ("held-out", "invented")
            for dtype in DTYPES if whole else DTYPES[:1]:
                searches = SEARCHES if whole and dtype == DTYPES[0] else SEARCHES[:2]
                settings = as_json(
                    {**fit.options, "dtype": dtype, "pairs": PAIRS, "searches": searches}
                )
                found.append(replace(fit, variant=MODES[0], protocol=kind, settings=settings))
    if METHODS[fit.method].free:
        settings = as_json(
            {**fit.options, "dtype": DTYPES[0], "pairs": PAIRS, "searches": SEARCHES[:2]}
        )
        found.append(replace(fit, variant=MODES[1], settings=settings))
    return found


def rows_of(kind: str, rows: Split, directions: Directions) -> pd.DataFrame:
    """The rows that a search starts from."""
    if kind == "invented":
        return invented(rows.X, SEARCHED_ROWS, _SEED)
    held_out = rows.X_test[:SEARCHED_ROWS]
    if kind == "missing values":
        return with_gaps(held_out, directions, _SEED)
    unseen = with_unseen_levels(held_out) if kind == "unseen levels" else held_out
    assert unseen is not None
    return unseen


def as_dtype(predict: Predict, dtype: str) -> Predict:
    """A prediction of numbers in a floating-point type."""

    def function(X: pd.DataFrame) -> Any:
        return predict(X.astype(dict.fromkeys(X.select_dtypes("number"), dtype)))

    return function


def searched(predict: Predict, X: pd.DataFrame, name: str, options: Any) -> MonotonicityAudit:
    """The search of one kind of rows."""
    directions = {
        column: sign for column, sign in TABLES[name].directions.items() if X[column].nunique() > 1
    }
    own: dict[str, Any] = {
        "pairs": options["pairs"],
        "dtype": options["dtype"],
        "searches": options["searches"],
    }
    own["tolerance"] = TOLERANCE
    return audit_table(as_dtype(predict, own["dtype"]), X, directions, **own, progress=False)


def trained(fit: Fit) -> tuple[Split, Predict]:
    """One method on the rows of its split."""
    rows, train = prepared(fit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rows, train(rows.X, rows.y)


def find(fits: list[Fit], device: str = "cpu") -> list[Scores]:
    """The searches of one model, which is trained once."""
    if lacking(fits[0].method):
        return [{"seconds": 0.0, "epochs": 0} for _ in fits]
    rows, predict = trained(fits[0])
    found = []
    for fit in fits:
        start = time.process_time()
        X = rows_of(fit.protocol, rows, TABLES[fit.dataset].directions)
        scores: Scores
        try:
            predict(X[:2])
        except Exception as error:  # of many types: a library that refuses such rows
            print(f"{fit.method} on {fit.dataset} refuses {fit.protocol}: {one_line(error)[:200]}")
            scores = {"refused": 1.0}
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                audit = searched(predict, X, fit.dataset, fit.options)
            scores = {
                "pairs": audit.pairs,
                "falls": audit.violations,
                "rounding": audit.rounding,
                "largest drop": audit.largest_drop if audit.violations else 0.0,
            }
        found.append({**scores, "seconds": time.process_time() - start, "epochs": 0})
    return found


def board(table: pd.DataFrame, name: str) -> str:
    """Falls of every method on a table by the kind of rows, over both types of numbers.

    In brackets the largest fall, as a difference of two probabilities.
    """
    rows = table[(table["dataset"] == name) & table["metric"].notna()]
    lines = []
    for method in METHODS:
        for mode in MODES:
            own = rows[(rows["method"] == method) & (rows["variant"] == mode)]
            if len(own):
                told = method if mode == MODES[0] else f"{method}, free"
                lines.append([told, *(_cell(own[own["protocol"] == kind]) for kind in KINDS)])
    return markdown(["Method", *(kind.capitalize() for kind in KINDS)], lines)


def _cell(rows: pd.DataFrame) -> str:
    of = {str(metric): values["value"] for metric, values in rows.groupby("metric")}
    if "refused" in of:
        return "refused"
    if "pairs" not in of:
        return ""
    falls, pairs = int(of["falls"].sum()), int(of["pairs"].sum())
    if not falls:
        return f"0 of {pairs:,}"
    return f"{falls:,} of {pairs:,} ({of['largest drop'].max():.2g})"


def totals(table: pd.DataFrame) -> str:
    """Falls of every method with directions by table, over all searches, as in `board`."""
    names = [name for name in TITLES if name in set(table["dataset"])]
    of = table[(table["variant"] == MODES[0]) & (table["metric"] != "refused")]
    lines = []
    for method in METHODS:
        own = of[of["method"] == method]
        if len(own):
            cells = (_cell(own[own["dataset"] == name]) or "not searched" for name in names)
            lines.append([method, *cells])
    return markdown(["Method", *(TITLES[name] for name in names)], lines)


def named(table: pd.DataFrame, which: str) -> str:
    """Methods with directions that "fell", "never" fell, or ("exact") did not even by rounding."""
    rows = table[table["variant"] == MODES[0]]
    counts = rows.pivot_table("value", "method", "metric", aggfunc="sum")
    falls, rounding = counts["falls"], counts["rounding"]
    chosen = {"fell": falls > 0, "never": falls == 0, "exact": falls + rounding == 0}[which]
    return "; ".join(m for m in METHODS if chosen.get(m, False)) or "none"


STUDY = Study(
    *("credit_falls", str(__doc__), TITLES, METHODS, find, each(TITLES, board)),
    count=1,
    cells=cells,
    settings=version_of,
    quick={"pairs": QUICK_PAIRS, "rows": 500},
    jobs=1,
    together=lambda fit: (fit.dataset, fit.method, fit.variant),
)
