"""Latent dimension D and sample number N on Adult: Tables 6 and 7 of the paper.

Under the published protocol, and under the training that is behind the paper's tables.
"""

from __future__ import annotations

import argparse
import json

import pandas as pd

from reproduce import published
from reproduce.arguments import positive_count
from reproduce.intervals import mean_interval
from reproduce.methods import methods_of
from reproduce.released import training as released
from reproduce.rendering.markdown import NOT_RUN, beside, markdown, number, shown
from reproduce.rendering.tables import intervals, paper_cells
from reproduce.runs import Fit, add_run_arguments, as_json, run_fits
from reproduce.tasks import PAPER

LATENT_DIMENSIONS = (4, 8, 12, 16)
SAMPLE_NUMBERS = (8, 16, 24, 32)
#: The "northeast" of the paper's tables: D is at least, N at most this.
NORTHEAST = (12, 16)
ABLATED = methods_of("ablation")


def fits(seeds: int, variants: list[str], quick: bool) -> list[Fit]:
    """Every cell, under the published protocol, the other settings those of Table 5."""
    sizes = [(d, n) for d in LATENT_DIMENSIONS for n in SAMPLE_NUMBERS]
    return [
        published.fit_of("ablation", "adult", variant, seed, method, settings)
        for seed in range(1 if quick else seeds)
        for variant in variants
        for method in ABLATED
        for d, n in sizes[:: 5 if quick else 1]
        for settings in [
            published.settings_of("adult", method, quick)
            | {"z_dim": d, "num_particles": n, "num_samples": n}
        ]
    ]


def released_fits(seeds: int, quick: bool) -> list[Fit]:
    """Every cell with the released training, whose predictions have 128 draws in every cell."""
    more = released.QUICK if quick else {}
    return [
        Fit("ablation", "adult", "published", "released", "fixed", seed, method, as_json(settings))
        for method in ABLATED
        for d in LATENT_DIMENSIONS[:: 3 if quick else 1]
        for n in SAMPLE_NUMBERS[:: 3 if quick else 1]
        for settings in [
            {**released.settings_of("adult", method)[0], "z_dim": d, "draws": n} | more
        ]
        for seed in range(2 if quick else seeds)
    ]


def with_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Results of the cells: the AUC, with D and N as columns."""
    table = table[table["metric"] == "AUC"]
    options = [json.loads(settings) for settings in table["settings"]]
    return table.assign(
        D=[option["z_dim"] for option in options],
        N=[option.get("draws", option.get("num_particles")) for option in options],
    )


def report(table: pd.DataFrame, variant: str, method: str) -> str:
    """N down, D across: AUC of a method; the paper's beside it where its label is the same."""
    rows = table[(table["method"] == method) & (table["variant"] == variant)]
    paper = paper_cells("ablation_adult", "method", "sample_number", "latent_dim", "auc", "ci95")
    theirs = {(f"N = {n}", d): cell for (m, n, d), cell in paper.items() if m == method}
    ours = {(f"N = {n}", d): cell for (n, d), cell in intervals(rows, "N", "D").items()}
    partners = {f"N = {n}": f"N = {n}" for n in SAMPLE_NUMBERS}
    columns = {d: f"D = {d}" for d in LATENT_DIMENSIONS}
    return beside(ours, theirs if variant == "published" else {}, partners, columns)


def effects(table: pd.DataFrame) -> str:
    """How much the cells differ, for every label and method, ours and the paper's."""
    paper = pd.read_csv(PAPER / "ablation_adult.csv").assign(variant="published", seed=0)
    paper = paper.rename(columns={"latent_dim": "D", "sample_number": "N", "auc": "value"})
    lines = []
    for source, cells in (("ours", table), ("paper", paper)):
        for (method, variant), rows in cells.groupby(["method", "variant"]):
            means = rows.groupby(["N", "D"])["value"].mean()
            contrasts = [
                _contrast(rows, rows["N"].map({rows["N"].max(): True, rows["N"].min(): False})),
                _contrast(rows, rows["D"].map({rows["D"].max(): True, rows["D"].min(): False})),
                _contrast(rows, (rows["D"] >= NORTHEAST[0]) & (rows["N"] <= NORTHEAST[1])),
            ]
            title = f"{method}, {variant} label"
            lines.append([title, source, number(means.max() - means.min()), *contrasts])
    header = ["", "", "Range of the cells", "Largest minus smallest N", "Largest minus smallest D"]
    return markdown([*header, "Northeast minus the rest"], lines)


def _contrast(cells: pd.DataFrame, inside: pd.Series) -> str:
    """Mean of the cells inside minus that of those outside, paired by seed."""
    means = cells.assign(inside=inside).pivot_table("value", "seed", "inside")
    if means.shape[1] < 2:
        return NOT_RUN
    return shown(mean_interval(means[True] - means[False]))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce ablation`."""
    parser.add_argument("--protocol", choices=["published", "released"], default="published")
    parser.add_argument("--seeds", type=positive_count, default=10, help="of a cell, from 0")
    parser.add_argument(
        "--variants",
        nargs="+",
        choices=["published", "default"],
        default=["published"],
        help="of the label, under the published protocol",
    )
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the cells that the table lacks, and print their means."""
    if arguments.protocol == "released":
        path = arguments.output / "ablation_released.csv"
        cells = released_fits(arguments.seeds, arguments.quick)
        results = run_fits(path, cells, released.run, arguments, released.together)
    else:
        path = arguments.output / "ablation.csv"
        cells = fits(arguments.seeds, arguments.variants, arguments.quick)
        results = run_fits(path, cells, published.run, arguments)
    table = with_sizes(results)
    for variant, method in sorted(set(zip(table["variant"], table["method"], strict=True))):
        print(f"\nAUC of {method}, label {variant}, best epoch on the test rows")
        print(report(table, variant, method))
    print(f"\nwritten: {path}")
