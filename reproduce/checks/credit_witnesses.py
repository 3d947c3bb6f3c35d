"""Two rows for each method that fell on invented rows, each predicted by itself."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import pandas as pd

from reproduce.checks.credit_falls import rows_of, searched
from reproduce.data.credit_tables import TABLES, TITLES
from reproduce.defaults.credit import prepared, trained
from reproduce.methods.credit import Predict, version_of
from reproduce.rendering.credit_scores import MODES
from reproduce.rendering.markdown import markdown
from reproduce.results import RESULTS, versions, write_csv
from reproduce.runs import Fit, add_output, as_json, read_results

WITNESSES = "credit_witnesses.csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce credit_witnesses`."""
    add_output(parser)


def main(arguments: argparse.Namespace) -> None:
    """Train anew what fell on invented rows, and predict the worst two rows by themselves."""
    path = arguments.output / "credit_falls.csv"
    table = read_results(path if path.exists() else RESULTS / path.name)
    fell = table[
        (table["metric"] == "falls")
        & (table["value"] > 0)
        & (table["variant"] == MODES[0])
        & (table["protocol"] == "invented")
        & table["settings"].str.contains("float64")
    ]
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
    pair = _simple(pair, names, predict)
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


def _simple(pair: pd.DataFrame, names: list[str], predict: Predict) -> pd.DataFrame:
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
