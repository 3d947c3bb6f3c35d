"""REPORT.md and its figures from the stored results; nothing is computed anew."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from reproduce import (
    ablation,
    report_claims,
    report_figures,
    report_sections,
    report_summary,
    report_tables,
)
from reproduce.arguments import Refused
from reproduce.checks import CHECKS
from reproduce.findings import CODE
from reproduce.open_track import OPEN
from reproduce.public import HELD_OUT, PUBLISHED
from reproduce.quantile import QUANTILE_METHODS
from reproduce.quantile_figure import draw_curves
from reproduce.report_sections import COMMANDS, Results
from reproduce.results import RESULTS
from reproduce.runs import KEY, read_results
from reproduce.tasks import PAPER, TASKS
from reproduce.tuning import DESIGN

SEEDS, ABLATION_SEEDS, OPEN_SEEDS = 10, 3, 5
_CELLS = len(ablation.METHODS) * len(ablation.LATENT_DIMENSIONS) * len(ablation.SAMPLE_NUMBERS)
#: File of results -> number of fits at the defaults of its command.
PLAN = {
    "quantile_tuning": len(QUANTILE_METHODS) * len(DESIGN),
    "quantile": len(QUANTILE_METHODS) * SEEDS,
    "quantile_paper_setting": len(QUANTILE_METHODS) * SEEDS,
    "public_published": len(PUBLISHED) * len(TASKS) * SEEDS,
    "checks": sum(SEEDS if boosted else 1 for boosted, _ in CHECKS.values()) * len(TASKS),
    "public_tuning": len(HELD_OUT) * len(TASKS) * len(DESIGN),
    "public_held-out": len(HELD_OUT) * len(TASKS) * SEEDS,
    "public_confirmation": len(HELD_OUT) * len(TASKS) * SEEDS,
    "ablation": 2 * _CELLS * ABLATION_SEEDS,
    "open_tuning": len(OPEN) * len(TASKS) * len(DESIGN),
    "open": len(OPEN) * len(TASKS) * OPEN_SEEDS,
}
#: Files in which a method has one setting on a data set.
_ONE_SETTING = (
    *("quantile", "quantile_paper_setting"),
    *("public_published", "checks", "public_held-out", "public_confirmation", "open"),
)
INTERVALS = """\
± is half of a 95 % interval of the mean over splits or seeds, by Student's t. Methods are compared
by the paired difference on the same splits or seeds, with the t interval of its mean. Where the
fits are of random splits of one data set, the variance is multiplied by 1/n + 1/4 in place of 1/n
(Nadeau and Bengio 2003; 1/4 is the ratio of test to training rows). "Not distinguishable" means
that this interval of the difference to the first contains 0, which is no sign of equality where
the interval is wide (COMPAS, Auto MPG); no interval is corrected for the number of comparisons.
How the paper made its intervals is not stated in it. Two intervals meet where they share a point.
The first of a column is in bold. "n =" stands where a cell has fewer fits than the fullest cell of
its table; a fit that diverged has no number, is counted as such, and is left out of the mean."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce report`."""
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--device", default="cpu", help="whose results; times of all are shown")
    parser.add_argument(
        "--output", type=Path, default=RESULTS.parent, help="folder of REPORT.md and figures/"
    )


def main(arguments: argparse.Namespace) -> None:
    """Read what there is and write the report."""
    results = read(arguments.results, arguments.device)
    draw(results, arguments.output / "figures")
    path: Path = arguments.output / "REPORT.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report(results), encoding="utf-8")
    print(f"written: {path}")


def read(folder: Path, device: str = "cpu") -> Results:
    """Every table that is there and has rows, in an order that its file does not decide.

    :param device: of the rows; only the table of times has those of all devices.
    :raises Refused: if there is no such folder, or a method has two settings on one split where
        there should be one.
    """
    if not folder.is_dir():
        raise Refused(f"--results {folder}: there is no such folder")
    results = {}
    for name in COMMANDS:
        path = folder / f"{name}.csv"
        if not path.exists():
            continue
        table = pd.read_csv(path) if name == "datasets" else read_results(path)
        if name == "datasets":
            titles = [task.title for task in TASKS.values()]
            place = table["dataset"].map(titles.index)
            table = table.assign(place=place).sort_values(["place", "variant"])
        else:
            table = table.sort_values([*KEY, "metric", "device"], kind="stable")
            if name != "timing":
                table = table[table["device"] == device]
        if name in _ONE_SETTING:
            _check_settings(table, path)
        if len(table):
            results[name] = table.reset_index(drop=True)
    files = {file.stem: file for file in sorted((folder / "quantile_curves").glob("*.csv"))}
    if files:
        curves = [pd.read_csv(files[name]) for name in report_tables.known_first(files)]
        results["quantile_curves"] = pd.concat(curves, ignore_index=True)
    return results


def _check_settings(table: pd.DataFrame, path: Path) -> None:
    identity = [name for name in KEY if name != "settings"]
    twice = table[table.duplicated([*identity, "metric"])]
    if len(twice):
        row = twice.iloc[0]
        raise Refused(
            f"{path}: {row['method']} on {row['dataset']}, seed {row['seed']} has two settings, "
            "expected one: remove the rows of the other (a --quick run?)"
        )


def report(results: Results) -> str:
    """The whole text."""
    sections = {
        "1. Summary": report_summary.summary(results),
        "What the paper says": report_claims.claims(results),
        "How to read the tables": INTERVALS,
        "2. Data sets (Table 2)": report_sections.data_sets(results),
        "3. Quantile regression (Table 1, Figure 6)": report_sections.quantile(results),
        "4. Public data sets, published protocol (Table 3)": report_sections.published(results),
        "5. Public data sets, held-out": report_sections.held_out(results),
        "6. Ablation (Tables 6 and 7)": report_sections.ablation(results),
        "7. Time (Table 8)": report_sections.timing(results),
        "8. Open track": report_sections.open_track(results),
        "9. How it was made": made(results),
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    quick = [
        f"`{name}.csv`"
        for name in PLAN
        if name in results and results[name]["settings"].str.contains('"(?:rows|steps)":').any()
    ]
    warning = f"**Fits of `--quick`, which say nothing: {', '.join(quick)}.**\n\n" if quick else ""
    return (
        "# Results beside the paper's\n\nWritten by `python -m reproduce report` from the files in "
        f"`reproduce/results`; do not edit.\n\n{warning}{body}\n"
    )


def made(results: Results) -> str:
    """Completeness, commands, versions and devices of every file."""
    lines = [*report_summary.completeness(results, PLAN), "", CODE, ""]
    for name, command in COMMANDS.items():
        table = results.get(name)
        there = "" if table is not None else " (not run yet)"
        lines.append(
            f"- `{name}.csv`{there}: `python -m reproduce {command} --output reproduce/results`"
        )
        if table is not None and "versions" in table:
            lines += [f"  - {versions}" for versions in sorted(set(table["versions"]))]
    return "\n".join(lines)


def draw(results: Results, folder: Path) -> None:
    """The figures of the tables that are there."""
    if "quantile_curves" in results:
        curves = results["quantile_curves"]
        for name, methods in report_figures.curve_groups(curves).items():
            draw_curves(curves[curves["method"].isin(methods)], folder / name)
    if "public_held-out" in results:
        table = results["public_held-out"]
        there = [name for name in TASKS if name in set(table["dataset"])]
        rankings = {name: report_tables.places(table, name) for name in there}
        report_figures.draw_held_out(rankings, folder / "held_out.png")
    if "ablation" in results:
        cells = ablation.with_sizes(results["ablation"])
        paper = pd.read_csv(PAPER / "ablation_adult.csv")
        report_figures.draw_ablation(cells, paper, folder / "ablation.png")
    if "timing" in results:
        table = results["timing"]
        times = {
            device: report_sections.times(table, device) for device in sorted(set(table["device"]))
        }
        paper = pd.read_csv(PAPER / "inference_time.csv")
        report_figures.draw_timing(times, paper, folder / "timing.png")
