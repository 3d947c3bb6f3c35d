"""Rows and dimensions of the data sets, beside Table 2 of the paper."""

from __future__ import annotations

import argparse
from typing import Any

import pandas as pd

from reproduce.rendering.markdown import markdown
from reproduce.runs import write_csv
from reproduce.tasks import PAPER, TASKS, load

SIZES = ("examples", "x_dim", "r_dim", "target")


def table() -> pd.DataFrame:
    """A row a data set: ours in both variants, and the paper's, which a stand-in does not have."""
    paper = pd.read_csv(PAPER / "datasets.csv").set_index("dataset")
    rows = []
    for name, task in TASKS.items():
        for variant in ("default", "published"):
            dataset = load(name, variant)
            kind = "classification" if dataset.response == "binary" else "regression"
            sizes = len(dataset), dataset.x_dim, dataset.r_dim, kind
            ours = dict(zip(SIZES, sizes, strict=True))
            row: dict[str, object] = {"dataset": task.title, "variant": variant, **ours}
            if kind == "classification":
                row["positive"] = float(dataset.y.mean())
            if variant == "published" and not task.stand_in:
                published = paper.loc[task.paper].to_dict()
                row |= {f"paper {column}": value for column, value in published.items()}
                row["equal"] = published == ours
            rows.append(row)
    counts = {"examples": "Int64", "x_dim": "Int64", "r_dim": "Int64"}
    return pd.DataFrame(rows).astype({f"paper {name}": kind for name, kind in counts.items()})


def report(table: pd.DataFrame) -> str:
    """The table in Markdown."""

    def text(cell: Any) -> str:
        if pd.isna(cell) or isinstance(cell, bool):
            return {True: "yes", False: "no"}.get(cell, "")
        return f"{cell:,.6g}" if isinstance(cell, float | int) else str(cell)

    rows = [[text(cell) for cell in row] for row in table.to_numpy(object)]
    return markdown([str(name) for name in table.columns], rows)


def main(arguments: argparse.Namespace) -> None:
    """Print the table and write it."""
    sizes, path = table(), arguments.output / "datasets.csv"
    write_csv(sizes, path)
    print(f"{report(sizes)}\n\nwritten: {path}")
