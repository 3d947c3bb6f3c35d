"""The first section of the report: generated sentences only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from reproduce import report_tables as tables
from reproduce.report_sections import Results
from reproduce.report_statistics import Interval, paired_interval, samples
from reproduce.simulation import LEVELS
from reproduce.tasks import TASKS


def summary(results: Results) -> str:
    """Section 1."""
    sentences = []
    for stem, protocol, splits, ours in (
        ("public_held-out", "held-out", "splits", ("GCM", "IGCM")),
        ("public_confirmation", "held-out", "further splits", ("GCM", "IGCM")),
        ("open", "open track", "splits", ("GCM ensemble", "IGCM ensemble")),
    ):
        table = results.get(stem, pd.DataFrame(columns=["dataset"]))
        for name, task in TASKS.items():
            if name in set(table["dataset"]):
                told = _standing(table, name, splits, ours)
                sentences.append(f"- {task.title}, {protocol}, {told}")
    for stem, setting in (("quantile", "tuned"), ("quantile_paper_setting", "the paper's setting")):
        if stem in results:
            sentences.append(f"- Quantile regression, {setting}: {_quantile_firsts(results[stem])}")
    return "\n".join(sentences) or "No results yet."


def _standing(table: pd.DataFrame, name: str, splits: str, ours: Sequence[str]) -> str:
    ranked = tables.places(table, name)
    first = ranked[0]
    count = table.loc[table["dataset"] == name, "split"].nunique()
    some = (
        "" if first.score.count == count else f"the {first.score.count} that all methods have of "
    )
    clauses = [f"{first.method} is first with {TASKS[name].metric} {_plain(first.score)}"]
    found = {place.method: (number, place) for number, place in enumerate(ranked, start=1)}
    for method in ours:
        if method == first.method:
            continue
        if method not in found:
            clauses.append(f"{method} is not run")
            continue
        number, place = found[method]
        told = tables.verdict(place) or "distinguishable"
        suffix = "" if told == "no interval" else " from the first"
        clauses.append(f"{method} is in place {number} of {len(ranked)}, {told}{suffix}")
    return f"{some}{count} {splits}: {'; '.join(clauses)}."


def _quantile_firsts(table: pd.DataFrame) -> str:
    values = samples(table, ["method", "metric"])
    first = clear = 0
    for level in LEVELS:
        metric = f"MAE r={level}"
        errors = {m: each for (m, name), each in values.items() if name == metric}
        gcm = errors.pop("GCM", None)
        if gcm is None or not errors:
            return "GCM or every other method is not run yet."
        first += all(gcm.mean() < each.mean() for each in errors.values())
        differences = [paired_interval(each, gcm) for each in errors.values()]
        clear += all(each.mean > 0 and each.excludes(0.0) for each in differences)
    return (
        f"GCM has the smallest error at {first} of {len(LEVELS)} levels; at {clear} of them its "
        "paired interval to every other method excludes 0."
    )


def completeness(results: Results, plan: Mapping[str, int]) -> list[str]:
    """A sentence a file: its fits against those planned, and those that diverged.

    :param plan: file of results -> number of fits that its command makes.
    """
    sentences = []
    for name, planned in plan.items():
        table = results.get(name, pd.DataFrame(columns=[*_FIT, "value"]))
        fits = table.groupby(_FIT)["value"].agg(lambda values: bool(values.isna().any()))
        told = f"{len(fits)} of {planned} fits" if len(fits) else f"none of {planned} fits yet"
        diverged = int(fits.sum())
        sentences.append(f"- `{name}.csv`: {told}{f', {diverged} diverged' if diverged else ''}.")
    devices = sorted(set(results["timing"]["device"])) if "timing" in results else []
    sentences.append(f"- `timing.csv`: {' and '.join(devices) or 'not run yet'}.")
    return sentences


_FIT = ["dataset", "variant", "protocol", "split", "seed", "method", "settings"]


def _plain(score: Interval) -> str:
    return f"{score.mean:.4f}" + ("" if math.isnan(score.half) else f" ± {score.half:.4f}")
