"""Rows and dimensions of the data sets, beside Table 2 of the paper."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from reproduce.results import write_csv
from reproduce.tasks import PAPER, TASKS, load


def table() -> pd.DataFrame:
    """A row a data set: ours in both variants, and the paper's; a stand-in has none there."""
    paper = pd.read_csv(PAPER / "datasets.csv").set_index("dataset")
    rows = []
    for name, task in TASKS.items():
        for variant in ("default", "published"):
            dataset = load(name, variant)
            kind = "classification" if dataset.response == "binary" else "regression"
            ours = {
                "examples": len(dataset), "x_dim": dataset.x_dim, "r_dim": dataset.r_dim,
                "target": kind,
            }  # fmt: skip
            row: dict[str, object] = {"dataset": task.title, "variant": variant, **ours}
            if kind == "classification":
                row["positive"] = float(dataset.y.mean())
            if variant == "published" and not task.stand_in:
                published = paper.loc[task.title].to_dict()
                row |= {f"paper {column}": value for column, value in published.items()}
                row["equal"] = published == ours
            rows.append(row)
    counts = {"examples": "Int64", "x_dim": "Int64", "r_dim": "Int64"}
    return pd.DataFrame(rows).astype({f"paper {name}": kind for name, kind in counts.items()})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce datasets`."""
    parser.add_argument(
        "--output", type=Path, default=Path("results"), help="folder of the results"
    )


def main(arguments: argparse.Namespace) -> None:
    """Print the table and write it."""
    sizes = table()
    print(sizes.to_string(index=False, na_rep=""))
    path = arguments.output / "datasets.csv"
    write_csv(sizes, path)
    print(f"\nwritten: {path}")
