"""Latent dimension D and sample number N on Adult: Tables 6 and 7 of the paper.

Under the published protocol, and under the training that is behind the paper's tables.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pandas as pd

from reproduce.intervals import Interval, mean_interval, mean_intervals, samples
from reproduce.methods import methods_of
from reproduce.public import PROTOCOLS
from reproduce.rendering.markdown import beside, markdown, number, shown
from reproduce.rendering.tables import paper_cells
from reproduce.runs import Settings
from reproduce.study import Protocols, Study
from reproduce.tasks import PAPER

LATENT_DIMENSIONS = (4, 8, 12, 16)
SAMPLE_NUMBERS = (8, 16, 24, 32)
COLUMNS = {d: f"D = {d}" for d in LATENT_DIMENSIONS}
#: The "northeast" of the paper's tables: D is at least, N at most this.
NORTHEAST = (12, 16)


def with_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Results of the cells: the AUC, with D and N as columns."""
    table = table[table["metric"] == "AUC"]
    options = [json.loads(settings) for settings in table["settings"]]
    return table.assign(
        D=[option["z_dim"] for option in options],
        N=[option.get("draws", option.get("num_particles")) for option in options],
    )


def cells_of(table: pd.DataFrame, method: str) -> tuple[dict[Any, Interval], dict[Any, Interval]]:
    """Mean AUC of a method by number of samples and latent dimension, ours and the paper's."""
    paper = paper_cells("ablation_adult", "method", "sample_number", "latent_dim", "auc", "ci95")
    theirs = {(f"N = {n}", d): cell for (m, n, d), cell in paper.items() if m == method}
    values = samples(with_sizes(table[table["method"] == method]), ["N", "D"])
    return mean_intervals({(f"N = {n}", d): each for (n, d), each in values.items()}), theirs


def report(table: pd.DataFrame, method: str) -> str:
    """N down, D across: AUC of a method, and the paper's beside it."""
    partners = {f"N = {n}": f"N = {n}" for n in SAMPLE_NUMBERS}
    return beside(*cells_of(table, method), partners, COLUMNS)


def effects(table: pd.DataFrame) -> str:
    """How much the cells differ, for every method, ours and the paper's."""
    paper = pd.read_csv(PAPER / "ablation_adult.csv").assign(variant="published", seed=0)
    paper = paper.rename(columns={"latent_dim": "D", "sample_number": "N", "auc": "value"})
    lines = []
    for source, every in (("ours", with_sizes(table)), ("paper", paper)):
        for (method, variant), rows in every.groupby(["method", "variant"]):
            means = rows.groupby(["N", "D"])["value"].mean()
            ends = {n: rows[n].isin([rows[n].min(), rows[n].max()]) for n in ("N", "D")}
            contrasts = [
                *(_contrast(rows[end], rows[n] == rows[n].max()) for n, end in ends.items()),
                _contrast(rows, (rows["D"] >= NORTHEAST[0]) & (rows["N"] <= NORTHEAST[1])),
            ]
            title = f"{method}, {variant} label"
            lines.append([title, source, number(means.max() - means.min()), *contrasts])
    header = ["", "", "Range of the cells", "Largest minus smallest N", "Largest minus smallest D"]
    return markdown([*header, "Northeast minus the rest"], lines)


def _contrast(cells: pd.DataFrame, inside: pd.Series) -> str:
    """Mean of the cells inside minus that of those outside, paired by seed."""
    means = cells.assign(inside=inside).pivot_table("value", "seed", "inside")
    return shown(mean_interval(means[True] - means[False]))


def _study(protocol: str, file: str, *numbers: str) -> Study:
    """A protocol of the public data sets, on Adult and with every D and N.

    :param numbers: the settings that N is the value of.
    """
    whole = PROTOCOLS[protocol]

    def settings(name: str, method: str) -> list[Settings]:
        own = next(iter(whole.settings(name, method)))
        return [
            {**own, "z_dim": d, **dict.fromkeys(numbers, n)}
            for d in LATENT_DIMENSIONS
            for n in SAMPLE_NUMBERS
        ]

    methods = dict.fromkeys(methods_of("ablation"))
    known: Any = {"datasets": ["adult"], "methods": methods, "page": "5", "settings": settings}
    return replace(whole, name="ablation", about=str(__doc__), file=file, **known)


STUDY = Protocols(
    "protocol",
    {
        "published": _study("published", "ablation", "num_particles", "num_samples"),
        "released": _study("released", "ablation_released", "draws"),
    },
)
