"""What the paper concludes from its tables, held against its numbers and ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from reproduce.ablation import METHODS, with_sizes
from reproduce.report_markdown import markdown
from reproduce.report_sections import Results, times
from reproduce.report_statistics import TEST_TO_TRAIN, mean_interval, paired_interval, samples
from reproduce.report_tables import LOAN, own_metric
from reproduce.simulation import LEVELS
from reproduce.tasks import PAPER, TASKS

#: The paper's section 4.2 compares GCM with these, and IGCM with those after them.
STRICT = ("PosNN", "MM", "SMM", "CMNN", "SMNN", "GCM")
NOT_STRICT = ("Hint", "PWL", "IGCM")
#: The "northeast region" of the paper's ablation tables: D is at least, N at most this.
NORTHEAST = (12, 16)
#: Mean of a method on a data set.
Means = Mapping[tuple[str, str], float]


def claims(results: Results) -> str:
    """A table for the public data sets, and a sentence each for the other experiments."""
    sources = {"The paper": _paper_means()}
    for heading, name in (("Ours, published", "public_published"), ("Held-out", "public_held-out")):
        if name in results:
            groups = samples(own_metric(results[name]), ["method", "dataset"])
            sources[heading] = {key: mean_interval(each).mean for key, each in groups.items()}
    rows = [
        [
            "IGCM is ahead of GCM (section 4.2: on five of six)",
            *[_ahead(means) for means in sources.values()],
        ],
        [
            "Place of GCM among the six strict",
            *[_places(m, "GCM", STRICT) for m in sources.values()],
        ],
        [
            "Place of IGCM among the three others",
            *[_places(m, "IGCM", NOT_STRICT) for m in sources.values()],
        ],
    ]
    order = ", ".join(task.title for task in TASKS.values())
    parts = [
        f"Places by the means, data sets in the order {order} (the paper's Loan Defaulter in its "
        f"column); strict: {', '.join(STRICT)}; others: {', '.join(NOT_STRICT)}.",
        markdown(["What the paper compares", *sources], rows),
    ]
    sentences = [_difference(results), _quantiles(results), _time(results), *_ablation(results)]
    return "\n\n".join([*parts, "\n".join(f"- {each}" for each in sentences if each)])


def _paper_means() -> Means:
    titles = {LOAN if task.stand_in else task.title: name for name, task in TASKS.items()}
    table = pd.read_csv(PAPER / "public_datasets.csv")
    return {
        (row["method"], titles[row["dataset"]]): row["value"] for row in table.to_dict("records")
    }


def _better(name: str, first: float, second: float) -> bool:
    return first < second if TASKS[name].metric == "RMSE" else first > second


def _ahead(means: Means) -> str:
    both = [name for name in TASKS if ("GCM", name) in means and ("IGCM", name) in means]
    ahead = [name for name in both if _better(name, means["IGCM", name], means["GCM", name])]
    level = [name for name in both if means["IGCM", name] == means["GCM", name]]
    text = f"{len(ahead)} of {len(both)}: {_titles(ahead)}"
    return f"{text}; level on {_titles(level)}" if level else text


def _titles(names: Sequence[str]) -> str:
    return ", ".join(TASKS[name].title for name in names)


def _places(means: Means, method: str, among: Sequence[str]) -> str:
    places = []
    for name in TASKS:
        if any((other, name) not in means for other in among):
            places.append("–")
            continue
        own = means[method, name]
        places.append(str(1 + sum(_better(name, means[other, name], own) for other in among)))
    return ", ".join(places)


def _difference(results: Results) -> str:
    """IGCM minus GCM where it can be told from 0."""
    told = []
    for name, protocol, ratio in (
        ("public_published", "published", 0.0),
        ("public_held-out", "held-out", TEST_TO_TRAIN),
    ):
        if name not in results:
            continue
        groups = samples(own_metric(results[name]), ["method", "dataset"])
        signs: dict[str, list[str]] = {"ahead": [], "behind": []}
        for key in TASKS:
            if ("GCM", key) in groups and ("IGCM", key) in groups:
                gap = paired_interval(groups["IGCM", key], groups["GCM", key], ratio)
                if gap.excludes(0.0):
                    signs["ahead" if _better(key, gap.mean, 0.0) else "behind"].append(key)
        parts = [f"{side} on {_titles(names)}" for side, names in signs.items() if names]
        told.append(f"{protocol}, {' and '.join(parts) or 'nowhere'}")
    return (
        f"IGCM against GCM by paired intervals that exclude 0: {'; '.join(told)}." if told else ""
    )


def _quantiles(results: Results) -> str:
    if "quantile_paper_setting" not in results:
        return ""
    paper = pd.read_csv(PAPER / "quantile_mae.csv").pivot(index="method", columns="r", values="mae")
    groups = samples(results["quantile_paper_setting"], ["method", "metric"])
    first = 0
    for level in LEVELS:
        errors = {
            method: groups[method, f"MAE r={level}"].mean()
            for method in paper.index
            if (method, f"MAE r={level}") in groups
        }
        first += min(errors, key=lambda method: errors[method], default="") == "GCM"
    theirs = int((paper.idxmin() == "GCM").sum())
    return (
        f"Quantiles, the paper's setting and methods: GCM has the smallest mean error at {first} "
        f"of {len(LEVELS)} levels, in the paper at {theirs}."
    )


def _time(results: Results) -> str:
    if "timing" not in results:
        return ""
    paper = pd.read_csv(PAPER / "inference_time.csv").pivot(
        index="method", columns="number_of_r", values="ms_per_batch"
    )
    most = paper.columns.max()
    theirs = paper.loc["GCM", most] / paper[most].drop("GCM").min()
    told = []
    for device in sorted(set(results["timing"]["device"])):
        wide = times(results["timing"], device)
        if most not in wide.columns or ("GCM", "cached") not in wide.index:
            continue
        took: dict[Any, float] = wide[most].to_dict()
        for treatment in ("one by one", "at once"):
            others = {side[0]: ms for side, ms in took.items() if side[1] == treatment}
            others.pop("GCM", None)
            if others:
                quickest = min(others, key=lambda method: others[method])
                ratio = took["GCM", "cached"] / others[quickest]
                told.append(f"{device}, baselines {treatment}: {ratio:.2f} of {quickest}")
    if not told:
        return ""
    return (
        f"Time of GCM at {most:,} revenues as a part of the quickest baseline's: in the paper "
        f"{theirs:.2f}; here {'; '.join(told)}."
    )


def _ablation(results: Results) -> list[str]:
    if "ablation" not in results:
        return []
    ours = with_sizes(results["ablation"])
    theirs = pd.read_csv(PAPER / "ablation_adult.csv")
    theirs = theirs.rename(columns={"latent_dim": "D", "sample_number": "N", "auc": "value"})
    sentences = []
    for method in METHODS:
        paper = _northeast(theirs[theirs["method"] == method].assign(seed=0))
        told = []
        for variant in sorted(set(ours["variant"]), reverse=True):
            rows = ours[(ours["method"] == method) & (ours["variant"] == variant)]
            gap = mean_interval(_northeast(rows))
            if not math.isnan(gap.half):
                told.append(f"{gap.mean:+.4f} ± {gap.half:.4f} (label {variant})")
        if told:
            sentences.append(
                f"Ablation of {method}: the paper finds it best in the northeast of its table. The "
                f"mean of the cells with D >= {NORTHEAST[0]} and N <= {NORTHEAST[1]} minus that of "
                f"the others is {paper.mean():+.4f} in it, here {' and '.join(told)}."
            )
    return sentences


def _northeast(cells: pd.DataFrame) -> pd.Series:
    """Mean of the cells in the northeast minus that of the others, by seed."""
    inside = (cells["D"] >= NORTHEAST[0]) & (cells["N"] <= NORTHEAST[1])
    means = cells.assign(inside=inside).pivot_table("value", "seed", "inside")
    return means.reindex(columns=[True, False]).diff(-1, axis="columns")[True].dropna()
