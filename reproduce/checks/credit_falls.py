"""Violations: which credit scores with directions fall where they may not, and by how much.

One fit of every method and table is searched by `pyro_gcm.audit.audit_table` on the held-out rows,
on those with missing values, on those with levels that were never seen, and on invented rows; the
first and the last with numbers in float64 and in float32, and with the refinement of the worst
pairs. Models without constraints are searched beside them.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.audit import SEARCHES, MonotonicityAudit, audit_table
from pyro_gcm.cli.output import one_line
from reproduce.data import credit_tables
from reproduce.data.credit_tables import TABLES, TITLES, Split
from reproduce.defaults.credit import prepared, trained
from reproduce.methods.credit import METHODS, Predict, lacking, version_of
from reproduce.rendering.credit_prices import MODES
from reproduce.rendering.markdown import cross_table, markdown
from reproduce.runs import RESULTS, Fit, Scores, as_json, read_results, versions, write_csv
from reproduce.study import Study

WITNESSES = "credit_witnesses.csv"


def main(arguments: argparse.Namespace) -> None:
    """Train anew what fell on invented rows, and predict the worst two rows by themselves."""
    path = arguments.output / "credit_falls.csv"
    table = read_results(path if path.exists() else RESULTS / path.name)
    directed = (table["variant"] == MODES[0]) & table["settings"].str.contains("float64")
    fell = table[directed].query("metric == 'falls' and value > 0 and protocol == 'invented'")
    lines = [_witness(Fit(*row)) for row in fell[list(Fit.__dataclass_fields__)].to_numpy()]
    found = pd.DataFrame([line for line in lines if line])
    write_csv(found, arguments.output / WITNESSES)
    print(witnesses(found))


def _witness(fit: Fit) -> dict[str, Any] | None:
    rows = prepared(fit)
    predict = trained(fit, rows)
    X = rows_of(fit.protocol, rows, TABLES[fit.dataset].directions)
    witness = searched(predict, X, fit).witness
    if witness is None:
        return None
    names = [c for c in TABLES[fit.dataset].directions if X[c].nunique() > 1]
    pair = X.iloc[[witness.row, witness.row]].reset_index(drop=True)
    pair = pair.astype(dict.fromkeys(names, "float64"))
    pair[names] = np.stack([witness.r_low, witness.r_high])
    pair = simple(pair, names, predict)
    low, high = _two(pair, predict)
    moved = [n for n in names if pair[n][0] != pair[n][1]]
    safer, riskier = (json.dumps(pair.iloc[at].to_dict(), default=str) for at in (0, 1))
    return {
        **{"dataset": fit.dataset, "method": fit.method, "seed": fit.seed},
        **{"safer row": safer, "riskier row": riskier},
        "changed": ", ".join(f"{n} {pair[n][0]:g} to {pair[n][1]:g}" for n in moved),
        **{"probability of the safer": low, "probability of the riskier": high},
        "command": "python -m reproduce credit_witnesses",
        "versions": f"{versions()}; {as_json(version_of(fit.method))}",
    }


def _two(pair: pd.DataFrame, predict: Predict) -> tuple[float, float]:
    """The predictions of two rows, each by itself."""
    low, high = (float(predict(pair[at : at + 1])[0]) for at in (0, 1))
    return low, high


def simple(pair: pd.DataFrame, names: list[str], predict: Predict) -> pd.DataFrame:
    """The pair with whole numbers, and with fewer changes, where that keeps half of its fall."""

    def fall(rows: pd.DataFrame) -> float:
        low, high = _two(rows, predict)
        return low - high

    least = 0.5 * fall(pair)
    for change in (lambda column: column[0], lambda column: column.round()):
        for name in names:
            changed = pair.assign(**{name: change(pair[name])})
            pair = changed if fall(changed) >= least else pair
    return pair


def witnesses(table: pd.DataFrame) -> str:
    """What changes between the two rows, and what the library predicts of each by itself."""
    ends = ("probability of the safer", "probability of the riskier")
    lines = [
        [TITLES[row["dataset"]], row["method"], row["changed"], *(f"{row[e]:.4f}" for e in ends)]
        for row in table.to_dict("records")
    ]
    return markdown(["Table", "Method", "Riskier by", "Before", "After"], lines)


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

    def of(variant: str, kind: str, dtype: str, searches: Sequence[str]) -> Fit:
        own = {**fit.options, "dtype": dtype, "pairs": PAIRS, "searches": searches}
        return replace(fit, variant=variant, protocol=kind, settings=as_json(own))

    for kind in KINDS:
        if kind != "unseen levels" or fit.dataset != "compas":  # which has numbers alone
            whole = kind in ("held-out", "invented")
            for dtype in DTYPES if whole else DTYPES[:1]:
                every = SEARCHES if whole and dtype == DTYPES[0] else SEARCHES[:2]
                yield of(MODES[0], kind, dtype, every)
    if METHODS[fit.method].free:
        yield of(MODES[1], fit.protocol, DTYPES[0], SEARCHES[:2])


def rows_of(kind: str, rows: Split, directions: credit_tables.Directions) -> pd.DataFrame:
    """The rows that a search starts from."""
    if kind == "invented":
        return credit_tables.invented(rows.X, SEARCHED_ROWS, _SEED)
    held_out = rows.X_test[:SEARCHED_ROWS]
    if kind == "missing values":
        return credit_tables.with_gaps(held_out, directions, _SEED)
    return credit_tables.with_unseen_levels(held_out) if kind == "unseen levels" else held_out


def searched(predict: Predict, X: pd.DataFrame, fit: Fit) -> MonotonicityAudit:
    """The search of one kind of rows, their numbers in a floating-point type."""
    options, every = fit.options, TABLES[fit.dataset].directions
    directions = {column: sign for column, sign in every.items() if X[column].nunique() > 1}
    own = {name: options[name] for name in ("pairs", "dtype", "searches")}

    def function(X: pd.DataFrame) -> Any:
        types: Any = dict.fromkeys(X.select_dtypes("number"), options["dtype"])
        return predict(X.astype(types))

    return audit_table(function, X, directions, **own, tolerance=TOLERANCE, progress=False)


def find(fits: list[Fit], device: str = "cpu") -> list[Scores]:
    """The searches of one model, which is trained once."""
    if lacking(fits[0].method):
        return [{} for _ in fits]
    rows = prepared(fits[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predict = trained(fits[0], rows)
        return [_found(fit, rows, predict) for fit in fits]


def _found(fit: Fit, rows: Split, predict: Predict) -> Scores:
    start = time.process_time()
    X = rows_of(fit.protocol, rows, TABLES[fit.dataset].directions)
    try:
        predict(X[:2])
    except Exception as error:  # of many types: a library that refuses such rows
        print(f"{fit.method} on {fit.dataset} refuses {fit.protocol}: {one_line(error)[:200]}")
        scores: Scores = {"refused": 1.0}
    else:
        audit = searched(predict, X, fit)
        scores = {"pairs": audit.pairs, "falls": audit.violations, "rounding": audit.rounding}
        scores["largest drop"] = audit.largest_drop if audit.violations else 0.0
    return {**scores, "seconds": time.process_time() - start, "epochs": 0}


def board(table: pd.DataFrame, name: str) -> str:
    """Falls of every method on a table by the kind of rows, over both types of numbers.

    In brackets the largest fall, as a difference of two probabilities.
    """
    rows, cells = table[(table["dataset"] == name) & table["metric"].notna()], dict[Any, str]()
    for (method, mode, kind), own in rows.groupby(["method", "variant", "protocol"]):
        cells[method if mode == MODES[0] else f"{method}, free", kind] = _cell(own)
    methods = (name for method in METHODS for name in (method, f"{method}, free"))
    return cross_table(cells, methods, {kind: kind.capitalize() for kind in KINDS})


def _cell(rows: pd.DataFrame) -> str:
    of = {str(metric): values["value"] for metric, values in rows.groupby("metric")}
    if "refused" in of:
        return "refused"
    falls, pairs = int(of["falls"].sum()), int(of["pairs"].sum())
    if not falls:
        return f"0 of {pairs:,}"
    return f"{falls:,} of {pairs:,} ({of['largest drop'].max():.2g})"


def totals(table: pd.DataFrame) -> str:
    """Falls of every method with directions by table, over all searches, as in `board`."""
    titles = {name: title for name, title in TITLES.items() if name in set(table["dataset"])}
    rows = table[
        (table["variant"] == MODES[0]) & table["metric"].isin(("pairs", "falls", "largest drop"))
    ]
    cells: Any = {key: _cell(own) for key, own in rows.groupby(["method", "dataset"])}
    return cross_table(cells, METHODS, titles, lacking="not searched")


def named(table: pd.DataFrame, which: str) -> str:
    """Methods with directions that "fell", "never" fell, or ("exact") did not even by rounding."""
    rows = table[table["variant"] == MODES[0]]
    counts = rows.pivot_table("value", "method", "metric", aggfunc="sum")
    falls, rounding = counts["falls"], counts["rounding"]
    chosen = {"fell": falls > 0, "never": falls == 0, "exact": falls + rounding == 0}[which]
    return "; ".join(m for m in METHODS if chosen.get(m, False)) or "none"


STUDY = Study(
    *("credit_falls", str(__doc__), TITLES, METHODS, find, "B"),
    count=1,
    cells=cells,
    version=version_of,
    quick={"pairs": QUICK_PAIRS, "rows": 500},
    jobs=1,
    together=lambda fit: (fit.dataset, fit.method, fit.variant),
)
