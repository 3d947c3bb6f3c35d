"""What each part of members is worth: one change from the default settings at a time.

The settings are those of `MemberSettings.for_table` on the training rows of random 4:1 splits, and
nothing is tuned anew for a change. "Separate networks" share no weights: each is a fit with one
member, as many of them as the default has members, and the prediction is the mean of theirs. Times
are CPU times of a thread.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pandas as pd

from pyro_gcm import fit_members
from pyro_gcm._utils.writing import write_figure
from pyro_gcm.models.member_settings import MemberSettings
from pyro_gcm.training import Diverged
from reproduce import tasks
from reproduce.arguments import a_path, positive_count
from reproduce.intervals import TEST_TO_TRAIN, mean_interval, samples
from reproduce.rendering.markdown import NOT_RUN, markdown, shown
from reproduce.rendering.tables import star
from reproduce.runs import Fit, Scores, Settings, add_run_arguments, as_json, run_fits
from reproduce.scores import distribution_scores
from reproduce.tasks import TASKS

DEFAULT = "default"
#: The second metric of every table and figure; the first is that of the task, or AUC.
LOG_SCORE = "log score"
#: What --quick makes of the sizes.
QUICK_ROWS, QUICK_EPOCHS = 200, 1


@dataclass(frozen=True)
class Level:
    """A part of members and what is changed in it.

    :param part: heading of the tables; `title`: of a line.
    :param changes: settings that differ from the default; if none does, it is the default.
    :param separate: K fits with one member in place of one fit with K.
    """

    part: str
    title: str
    changes: Settings = field(default_factory=dict)
    separate: bool = False

    @property
    def name(self) -> str:
        """As in the table of results."""
        return f"{self.part}: {self.title}"


#: The default is among the levels of most parts, and is fitted once.
LEVELS = (
    Level("objective", "mean of logs", {"pooling": 0.0}),
    Level("objective", "half of each", {"pooling": 0.5}),
    Level("objective", "log of mean", {"pooling": 1.0}),
    *(Level("members", f"K = {k}", {"members": k}) for k in (1, 4, 8, 16, 32)),
    Level("encoder", "signs on the input", {"scaling": "input"}),
    Level("encoder", "signs on the output", {"scaling": "output"}),
    Level("encoder", "ramps without steps", {"steps": 0.0}),
    Level("encoder", "no PLE", {"bins": 0, "steps": 0.0}),
    Level("encoder", "separate networks", separate=True),
    Level("encoder", "separate networks, no PLE", {"bins": 0, "steps": 0.0}, separate=True),
    # One ramp goes from the lowest value of a revenue to the highest that 20 rows reach. Unless the
    # map is flat, the squashed linear term stands beside it; if it is, it is linear between them.
    Level("map", "flat beyond the knots", {"flat": True}),
    Level("map", "one ramp", {"knots": 1}),
    Level("map", "linear", {"knots": 1, "flat": True}),
    *(
        Level("costs", f"{g}x{c}", {"alternatives": g, "costs": c})
        for g, c in ((1, 1), (3, 3), (6, 4))
    ),
)


def resolved(level: Level | None, default: MemberSettings) -> Settings:
    """Every setting of a level, and the number of fits that are averaged."""
    if level is None:
        return {**asdict(default), "fits": 1}
    settings = asdict(replace(default, **level.changes))
    if level.separate:
        return {**settings, "members": 1, "fits": default.members}
    return {**settings, "fits": 1}


def fits(datasets: list[str], seeds: int, quick: bool) -> list[Fit]:
    """The default and every level that differs from it, on the splits 0, 1, ... with these seeds.

    The settings are written out in full, so that results of another default are not taken for
    those of this one.
    """
    made = []
    for name in datasets:
        dataset = tasks.load(name, "default")
        for split in range(1 if quick else seeds):
            rows = len(dataset.split(split)[0][: QUICK_ROWS if quick else None])
            default = MemberSettings.for_table(rows, dataset.x_dim, dataset.r_dim)
            if quick:
                default = replace(default, epochs=QUICK_EPOCHS)
            limit: Settings = {"rows": QUICK_ROWS} if quick else {}
            options = {level.name: resolved(level, default) for level in LEVELS}
            start = resolved(None, default)
            changed = {title: each for title, each in options.items() if each != start}
            cell = ("members_ablation", name, "default", "held-out", str(split), split)
            for method, each in {DEFAULT: start, **changed}.items():
                made.append(Fit(*cell, method, as_json({**each, **limit})))
    return made


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one cell on one split; NaN where it diverged."""
    options = fit.options
    limit, count = options.pop("rows", None), options.pop("fits")
    settings = MemberSettings(**options)
    dataset = tasks.load(fit.dataset, fit.variant)
    learn, test = (part[:limit] for part in dataset.split(int(fit.split)))
    columns = dataset.x[learn], dataset.r[learn], dataset.y[learn]
    start = time.process_time()
    try:
        fitted = [
            fit_members(
                *columns,
                response=dataset.response,
                settings=settings,
                seed=fit.seed * count + place,
                device=device,
                progress=False,
            )
            for place in range(count)
        ]
    except Diverged:
        seconds = time.process_time() - start
        return {
            _metric(fit.dataset): math.nan,
            LOG_SCORE: math.nan,
            "seconds": seconds,
            "epochs": 0,
        }
    cost = {
        "seconds": time.process_time() - start,
        "epochs": sum(each.settings.epochs for each in fitted),
    }
    models = [each.model for each in fitted]
    return {**distribution_scores(dataset, models, test, device), **cost}


def _metric(name: str) -> str:
    """RMSE, or the AUC of a binary outcome."""
    return "RMSE" if TASKS[name].lower_is_better else "AUC"


def levels_of(table: pd.DataFrame) -> list[Level]:
    """The levels that a table of results has, in their order."""
    return [level for level in LEVELS if level.name in set(table["method"])]


def gains(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """By how much each level is better than the default: a column a level, a row a split and seed.

    :param table: results of one data set.
    """
    sign = -1.0 if metric == "RMSE" else 1.0
    values = samples(table[table["metric"] == metric], "method")
    start = values[DEFAULT]
    return pd.DataFrame(
        {level.name: sign * (values[level.name] - start) for level in levels_of(table)}
    )


def report(table: pd.DataFrame, name: str) -> str:
    """The scores of the default on a data set, and what each change gains.

    * where the corrected 95 % interval of the paired difference excludes 0.
    """
    rows = table[table["dataset"] == name]
    if rows.empty:
        return f"{NOT_RUN.capitalize()}."
    metrics = [_metric(name), LOG_SCORE]
    seconds = rows[rows["metric"] == metrics[0]].groupby("method")["seconds"].median()
    start = rows[rows["method"] == DEFAULT]
    scores = [mean_interval(start.loc[start["metric"] == metric, "value"]) for metric in metrics]
    lines = [["", DEFAULT, *map(shown, scores), f"{seconds[DEFAULT]:.1f}"]]
    better = {metric: gains(rows, metric) for metric in metrics}
    for level in levels_of(rows):
        means = [mean_interval(each[level.name], TEST_TO_TRAIN) for each in better.values()]
        cells = [shown(mean, mark=star(mean)) for mean in means]
        lines.append([level.part, level.title, *cells, f"{seconds[level.name]:.1f}"])
    return markdown(["Part", "Change", *(f"{m}: gain" for m in metrics), "CPU seconds"], lines)


def draw(table: pd.DataFrame, path: Path) -> None:
    """What each change gains: two panels a data set, a dot a split, a bar their mean."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names, levels = list(dict.fromkeys(table["dataset"])), levels_of(table)
    panels = [(name, metric) for name in names for metric in (_metric(name), LOG_SCORE)]
    parts = list(dict.fromkeys(level.part for level in levels))
    size = (2.0 + 2.9 * len(panels), 5.0)
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, layout="constrained")
    for ax, (name, metric) in zip(axes, panels, strict=True):
        better = gains(table[table["dataset"] == name], metric)
        for y, level in enumerate(levels):
            if level.name in better:
                each, colour = better[level.name], f"C{parts.index(level.part)}"
                ax.plot(each, [y] * len(each), "o", color=colour, markersize=4, alpha=0.5)
                ax.plot(each.mean(), y, "|", color=colour, markersize=14, markeredgewidth=2)
        ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        ax.tick_params(axis="x", labelsize=8)
        ax.locator_params(axis="x", nbins=4)
        ax.set_title(f"{TASKS[name].title}: {metric}", fontsize=10)
    axes[0].set_yticks(range(len(levels)), [level.name for level in levels], fontsize=8)
    axes[0].set_ylim(len(levels) - 0.5, -0.5)
    figure.supxlabel("better than the default by", fontsize=10)
    write_figure(path, figure, dpi=110)
    plt.close(figure)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce members_ablation`."""
    fast = ["adult", "auto_mpg"]
    parser.add_argument("--datasets", nargs="+", choices=list(TASKS), default=fast)
    parser.add_argument("--seeds", type=positive_count, default=3, help="splits, from 0")
    parser.add_argument("--figure", type=a_path, help="file; beside the table by default")
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the fits that the table lacks, print what each change gains, and draw it."""
    path = arguments.output / "members_ablation.csv"
    every = fits(arguments.datasets, arguments.seeds, arguments.quick)
    table = run_fits(path, every, run, arguments)
    for name in arguments.datasets:
        print(f"\n{TASKS[name].title}\n\n{report(table, name)}")
    figure = arguments.figure or path.with_suffix(".png")
    draw(table, figure)
    print(f"\nwritten: {path}, {figure}")
