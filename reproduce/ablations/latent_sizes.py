"""Latent dimension D and sample number N on Adult: Tables 6 and 7 of the paper.

Under the published protocol, and under the training that is behind the paper's tables.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from reproduce import published
from reproduce.intervals import mean_interval
from reproduce.methods import METHODS, methods_of
from reproduce.released import training as released
from reproduce.rendering.markdown import NOT_RUN, beside, markdown, number, shown
from reproduce.rendering.tables import intervals, paper_cells
from reproduce.runs import Fit, as_json
from reproduce.study import Study
from reproduce.tasks import PAPER

LATENT_DIMENSIONS = (4, 8, 12, 16)
SAMPLE_NUMBERS = (8, 16, 24, 32)
#: The "northeast" of the paper's tables: D is at least, N at most this.
NORTHEAST = (12, 16)


def cells(numbers: tuple[str, ...], fit: Fit) -> list[Fit]:
    """Every D and N, the other settings as they are.

    :param numbers: the settings that N is the value of.
    """
    return [
        replace(
            fit,
            experiment="ablation",
            settings=as_json({**fit.options, "z_dim": d, **dict.fromkeys(numbers, n)}),
        )
        for d in LATENT_DIMENSIONS
        for n in SAMPLE_NUMBERS
    ]


def with_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Results of the cells: the AUC, with D and N as columns."""
    table = table[table["metric"] == "AUC"]
    options = [json.loads(settings) for settings in table["settings"]]
    return table.assign(
        D=[option["z_dim"] for option in options],
        N=[option.get("draws", option.get("num_particles")) for option in options],
    )


def report(table: pd.DataFrame, method: str) -> str:
    """N down, D across: AUC of a method, and the paper's beside it."""
    paper = paper_cells("ablation_adult", "method", "sample_number", "latent_dim", "auc", "ci95")
    theirs = {(f"N = {n}", d): cell for (m, n, d), cell in paper.items() if m == method}
    rows = intervals(table[table["method"] == method], "N", "D")
    ours = {(f"N = {n}", d): cell for (n, d), cell in rows.items()}
    partners = {f"N = {n}": f"N = {n}" for n in SAMPLE_NUMBERS}
    return beside(ours, theirs, partners, {d: f"D = {d}" for d in LATENT_DIMENSIONS})


def effects(table: pd.DataFrame) -> str:
    """How much the cells differ, for every method, ours and the paper's."""
    paper = pd.read_csv(PAPER / "ablation_adult.csv").assign(variant="published", seed=0)
    paper = paper.rename(columns={"latent_dim": "D", "sample_number": "N", "auc": "value"})
    lines = []
    for source, every in (("ours", table), ("paper", paper)):
        for (method, variant), rows in every.groupby(["method", "variant"]):
            means = rows.groupby(["N", "D"])["value"].mean()
            contrasts = [
                *(_contrast(rows, rows[size].map(_largest(rows[size]))) for size in ("N", "D")),
                _contrast(rows, (rows["D"] >= NORTHEAST[0]) & (rows["N"] <= NORTHEAST[1])),
            ]
            title = f"{method}, {variant} label"
            lines.append([title, source, number(means.max() - means.min()), *contrasts])
    header = ["", "", "Range of the cells", "Largest minus smallest N", "Largest minus smallest D"]
    return markdown([*header, "Northeast minus the rest"], lines)


def _largest(sizes: pd.Series) -> dict[Any, bool]:
    return {sizes.max(): True, sizes.min(): False}


def _contrast(cells: pd.DataFrame, inside: pd.Series) -> str:
    """Mean of the cells inside minus that of those outside, paired by seed."""
    means = cells.assign(inside=inside).pivot_table("value", "seed", "inside")
    if means.shape[1] < 2:
        return NOT_RUN
    return shown(mean_interval(means[True] - means[False]))


def _told(table: pd.DataFrame) -> str:
    table, parts = with_sizes(table), []
    for method in table["method"].unique():
        parts.append(f"AUC of {method}, best epoch on the test rows\n\n{report(table, method)}")
    return "\n\n".join(parts)


_study = partial(
    Study,
    about=str(__doc__),
    datasets={"adult": "Adult"},
    methods={name: METHODS[name] for name in methods_of("ablation")},
    report=_told,
    counted="seeds",
    variant="published",
    splits=lambda count: (("fixed", seed) for seed in range(count)),
)
PROTOCOLS = {
    "published": _study(
        "ablation",
        run=published.run,
        protocol="published",
        settings=partial(published.settings_of, "adult"),
        cells=partial(cells, ("num_particles", "num_samples")),
        quick=published.QUICK,
    ),
    "released": _study(
        "ablation_released",
        run=released.run,
        quick_count=2,
        protocol="released",
        settings=lambda method: released.settings_of("adult", method)[0],
        cells=partial(cells, ("draws",)),
        quick=released.QUICK,
        together=released.together,
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce ablation`."""
    parser.add_argument("--protocol", choices=list(PROTOCOLS), default="published")
    PROTOCOLS["published"].add_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the cells that the table of a protocol lacks, and print their means."""
    PROTOCOLS[arguments.protocol].main(arguments)
