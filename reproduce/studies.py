"""The studies of the report: `python -m reproduce NAME` runs one, and `list` shows them all."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reproduce import public, quantile, timing
from reproduce.ablations import auctions, latent_sizes, members, stories
from reproduce.checks import credit_falls, credit_witnesses, falls, primitives
from reproduce.curves import distribution, intervals, ordinal, survival
from reproduce.data import datasets
from reproduce.defaults import calibration, credit, untouched
from reproduce.posteriors import study as reference_posteriors
from reproduce.results import RESULTS
from reproduce.runs import COLUMNS, KEY
from reproduce.searching import search
from reproduce.study import Study

#: Name -> study: methods on data sets over splits.
STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        timing.STUDY,
        reference_posteriors.STUDY,
        untouched.STUDY,
        members.STUDY,
        calibration.STUDY,
        survival.STUDY,
        ordinal.STUDY,
        distribution.STUDY,
        intervals.STUDY,
        credit.STUDY,
        credit_falls.STUDY,
        falls.STUDY,
        primitives.STUDY,
        stories.STUDY,
        auctions.STUDY,
    )
}
#: Name -> module with a protocol of its own: searches, the paper's ways, several in one table.
OTHERS: dict[str, Any] = {
    "quantile": quantile,
    "datasets": datasets,
    "public": public,
    "ablation": latent_sizes,
    "search": search,
    "credit_witnesses": credit_witnesses,
}
#: What `list` shows first: the paper's tables and figures in their order.
PAPER = ("quantile", "datasets", "public", "ablation", "timing", "search")


def listed() -> str:
    """A line for each experiment, the paper's first: what it asks, its sizes and its duration.

    Hours are those of the stored results, of one process.
    """
    hours, every = _hours(), {**STUDIES, **OTHERS}
    lines = []
    for name in [*PAPER, *(name for name in every if name not in PAPER)]:
        entry = every[name]
        notes = [f"{hours[name]:.1f} h" if hours.get(name, 0.0) >= 0.05 else "minutes"]
        if isinstance(entry, Study):
            sizes = f"data sets: {len(entry.datasets)}; methods: {len(entry.methods)}"
            notes = [sizes, f"{entry.counted}: {entry.count}", *notes]
        about = entry.about if isinstance(entry, Study) else str(entry.__doc__)
        lines.append(f"{name}: {about.strip().splitlines()[0]} ({'; '.join(notes)})")
    return "\n".join(lines)


def _hours() -> dict[str, float]:
    """Hours of the stored fits of every experiment."""
    found: dict[str, float] = {}
    for path in RESULTS.glob("*.csv"):
        rows = pd.read_csv(path)
        if list(rows) == COLUMNS:
            fits = rows.drop_duplicates([*KEY, "device"])
            for name, seconds in fits.groupby("experiment")["seconds"].sum().items():
                found[str(name)] = found.get(str(name), 0.0) + seconds / 3600.0
    return found
