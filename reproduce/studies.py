"""The studies of the report: `python -m reproduce NAME` runs one, and `list` shows them all."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd

from reproduce import public, quantile, timing
from reproduce.ablations import auctions, bands, latent_sizes, selection, stories, trials
from reproduce.checks import credit_falls, falls, primitives
from reproduce.curves import distribution, intervals, ordinal, survival
from reproduce.data import datasets
from reproduce.defaults import credit, untouched
from reproduce.posteriors import coverage
from reproduce.posteriors import study as reference_posteriors
from reproduce.runs import COLUMNS, KEY, RESULTS, add_output
from reproduce.searching import search
from reproduce.study import Protocols, Study


class Command(NamedTuple):
    """An experiment with a protocol of its own."""

    about: str
    main: Callable[[argparse.Namespace], None]
    add_arguments: Callable[[argparse.ArgumentParser], None] = add_output


def command(module: Any) -> Command:
    """That of a module with a function `main`, and `add_arguments` if it has more options."""
    return Command(str(module.__doc__), module.main, getattr(module, "add_arguments", add_output))


#: Name -> experiment: the paper's tables and figures in their order, then what is not in the paper.
STUDIES: dict[str, Study | Protocols | Command] = {
    "quantile": quantile.STUDY,
    "datasets": command(datasets),
    "public": public.STUDY,
    "ablation": latent_sizes.STUDY,
    "timing": timing.STUDY,
    "search": command(search),
    **{
        study.name: study
        for study in (
            *(auctions.STUDY, trials.STUDY, untouched.STUDY, falls.STUDY, primitives.STUDY),
            *(
                survival.STUDY,
                ordinal.STUDY,
                distribution.STUDY,
                intervals.STUDY,
                stories.STUDY,
                bands.STUDY,
                selection.STUDY,
            ),
            *(reference_posteriors.STUDY, coverage.STUDY, credit.STUDY, credit_falls.STUDY),
        )
    },
    "credit_witnesses": Command(
        "Two rows for each method that fell on invented rows, each predicted by itself.",
        credit_falls.main,
    ),
}


def listed() -> str:
    """A line for each experiment, the paper's first: what it asks, its sizes and its duration.

    Durations are those of the stored results, of one process and all protocols or settings.
    """
    hours = _hours()
    lines = []
    for name, study in STUDIES.items():
        notes = []
        if isinstance(study, Study):
            sizes = f"data sets: {len([*study.datasets])}; methods: {len(study.methods)}"
            notes = [sizes, f"{study.counted}: {study.count}"]
        spent = hours.get(name, 0.0)
        notes.append(f"{spent:.1f} h" if spent >= 1.0 else f"{max(1, round(60.0 * spent))} min")
        lines.append(f"{name}: {study.about.strip().splitlines()[0]} ({'; '.join(notes)})")
    return "\n".join(lines)


def _hours() -> dict[str, float]:
    """Hours of the stored fits of every experiment."""
    tables = [pd.read_csv(path, dtype=str) for path in RESULTS.glob("*.csv")]
    fits = pd.concat(table for table in tables if list(table) == COLUMNS)
    fits = fits.drop_duplicates([*KEY, "device"]).astype({"seconds": float})
    spent = fits.groupby("experiment")["seconds"].sum()
    return {str(name): seconds / 3600.0 for name, seconds in spent.items()}
