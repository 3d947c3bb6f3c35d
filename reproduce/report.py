"""REPORT.md and its figures from the stored results; nothing is computed anew."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd

from reproduce import ablation, quoted, report_figures, tables
from reproduce.arguments import Refused
from reproduce.markdown import NOT_RUN, known_first, markdown, number
from reproduce.methods import METHODS, methods_of
from reproduce.results import RESULTS
from reproduce.runs import KEY, read_results
from reproduce.tasks import PUBLISHED_TASKS, TASKS
from reproduce.tuning import DESIGN

TEMPLATE = Path(__file__).with_name("REPORT_template.md")
_TRIALS, _SEEDS, _FIXED = len(DESIGN), 10, len(PUBLISHED_TASKS)
_HELD_OUT, _OPEN = (len(TASKS) * len(methods_of(name)) for name in ("held-out", "open"))
_QUANTILE, _IMPLICIT = len(methods_of("quantile")), len(methods_of("implicit"))
_CELLS = len(ablation.LATENT_DIMENSIONS) * len(ablation.SAMPLE_NUMBERS)
#: File of results -> the command that makes it, and the fits at its defaults.
FILES: dict[str, tuple[str, int]] = {
    "datasets": ("datasets", 0),
    "quantile_tuning": ("quantile --tune", _QUANTILE * _TRIALS),
    "quantile": ("quantile --tune", _QUANTILE * _SEEDS),
    "quantile_paper_setting": ("quantile --setting paper", _QUANTILE * _SEEDS),
    "public_published": (
        "public --protocol published", len(methods_of("published")) * _FIXED * _SEEDS,
    ),
    "checks": (
        "checks",
        _FIXED * sum(_SEEDS if METHODS[m].trees else 1 for m in methods_of("checks")),
    ),
    "public_tuning": ("public --tune", _HELD_OUT * _TRIALS),
    "public_held-out": ("public --tune", _HELD_OUT * _SEEDS),
    "public_confirmation": ("public --protocol confirmation", _HELD_OUT * _SEEDS),
    "open_tuning": ("open --tune", _OPEN * _TRIALS),
    "open": ("open --tune", _OPEN * 5),
    "implicit_adult": ("implicit --dataset adult --splits 3", _IMPLICIT * 3),
    "implicit_auto_mpg": ("implicit --dataset auto_mpg --splits 10", _IMPLICIT * 10),
    "ablation": ("ablation", 2 * len(methods_of("ablation")) * _CELLS * 3),
    "timing": ("timing", 0),
    "auctions": ("auctions", 5),
}  # fmt: skip
#: Files in which a method may have several settings on one split.
_MANY_SETTINGS = ("quantile_tuning", "public_tuning", "open_tuning", "ablation", "timing")


class Results(dict[str, pd.DataFrame]):
    """Tables of results by the name of their file.

    :raises NotRun: for a table that is not there.
    """

    def __missing__(self, name: str) -> pd.DataFrame:
        raise NotRun(name)


class NotRun(KeyError):
    """There are no results in a file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce report`."""
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--device", default="cpu", help="of the results; times of all are shown")
    parser.add_argument(
        "--output", type=Path, default=RESULTS.parent, help="folder of REPORT.md and figures/"
    )


def main(arguments: argparse.Namespace) -> None:
    """Read the results that are there and write the report."""
    results = read(arguments.results, arguments.device)
    report_figures.draw(results, arguments.output / "figures")
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
    results = Results()
    for name in FILES:
        path = folder / f"{name}.csv"
        if not path.exists():
            continue
        if name == "datasets":
            table = pd.read_csv(path)
            titles = [task.title for task in TASKS.values()]
            table = table.assign(place=table["dataset"].map(titles.index))
            table = table.sort_values(["place", "variant"])
        else:
            table = read_results(path).sort_values([*KEY, "metric", "device"], kind="stable")
            if name != "timing":
                table = table[table["device"] == device]
            if name not in _MANY_SETTINGS:
                _check_settings(table, path)
        if len(table):
            results[name] = table.reset_index(drop=True)
    files = {file.stem: file for file in sorted((folder / "quantile_curves").glob("*.csv"))}
    if files:
        curves = [pd.read_csv(files[name]) for name in known_first(files)]
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


def report(results: Results, template: str | None = None) -> str:
    """The text of the template with every `{{name argument; ...}}` filled in.

    The name is one of `PLACEHOLDERS`. Where its results are not there, a placeholder that has a
    line of its own becomes the command that makes them.
    """
    text = TEMPLATE.read_text(encoding="utf-8") if template is None else template

    def fill(found: re.Match[str], alone: bool) -> str:
        name, _, rest = found[1].partition(" ")
        try:
            return PLACEHOLDERS[name](results, *(part.strip() for part in rest.split(";") if part))
        except NotRun as missing:
            command = FILES[missing.args[0]][0]
            return f"Not run yet: `python -m reproduce {command}`." if alone else f"({NOT_RUN})"

    text = re.sub(r"(?m)^\{\{([^{}]+)\}\}$", partial(fill, alone=True), text)
    text = re.sub(r"\{\{([^{}]+)\}\}", partial(fill, alone=False), text)
    return re.sub(r"\n{3,}", "\n\n", text)


def _fits(results: Results, name: str) -> tuple[int, int]:
    """The fits in a file, and how many of them diverged."""
    if name not in results:
        return 0, 0
    diverged = results[name].groupby(KEY)["value"].agg(lambda values: bool(values.isna().any()))
    return len(diverged), int(diverged.sum())


def _warnings(results: Results) -> str:
    """What a reader of results that are not complete has to know."""
    of_fits = {name: planned for name, (_, planned) in FILES.items() if planned}
    quick = [
        f"`{name}.csv`"
        for name in of_fits
        if name in results and results[name]["settings"].str.contains('"(?:rows|steps)":').any()
    ]
    lacking = [f"`{n}.csv`" for n, planned in of_fits.items() if _fits(results, n)[0] < planned]
    told = []
    if quick:
        told.append(f"**Fits of `--quick`, whose scores mean nothing: {', '.join(quick)}.**")
    if lacking:
        told.append(
            f"**Not complete: {', '.join(lacking)}. The sentences were written for complete "
            "results; believe the tables only.**"
        )
    return "\n\n".join(told)


def _files(results: Results) -> str:
    """A row a file: its command, its fits against those planned, and those that diverged."""
    rows = []
    for name, (command, planned) in FILES.items():
        count, diverged = _fits(results, name) if planned else (0, 0)
        told = f"{count} of {planned}" if planned else "" if name in results else NOT_RUN
        rows.append([f"`{name}.csv`", f"`{command}`", told, str(diverged) if planned else ""])
    return markdown(["File", "Command", "Fits", "Diverged"], rows)


def _versions(results: Results) -> str:
    """A line for each set of versions, with the files that have fits of it."""
    found: dict[str, list[str]] = {}
    for name, table in results.items():
        for versions in sorted(set(table["versions"])) if "versions" in table else ():
            found.setdefault(versions, []).append(f"`{name}.csv`")
    return "\n".join(f"- {versions}: {', '.join(found[versions])}" for versions in sorted(found))


def _claims(results: Results) -> str:
    paper = {key: cell.mean for key, cell in tables.paper_table_3().items()}
    sources = {"The paper": paper} | {
        heading: quoted.means(results[name])
        for heading, name in (("Published", "public_published"), ("Held-out", "public_held-out"))
        if name in results
    }
    return tables.claims(sources)


def _figure(results: Results, name: str, alt: str) -> str:
    file = "public_held-out" if name == "held_out" else name
    return f"![{alt}](figures/{name}.png)" if len(results[file]) else ""


def _curves(results: Results) -> str:
    if "quantile_curves" not in results:
        return ""
    groups = report_figures.curve_groups(results["quantile_curves"])
    return "\n\n".join(
        f"![Quantile curves of {', '.join(group)}](figures/{name})"
        for name, group in groups.items()
    )


def _times(results: Results) -> str:
    paper, parts = quoted.paper_times(), []
    for device in sorted(set(results["timing"]["device"])):
        wide = quoted.times(results["timing"], device)
        counts = [count for count in wide.columns if count in paper.columns]
        parts += [f"Device: {device}", tables.times(pd.concat([wide, paper[counts]]))]
    return "\n\n".join(parts)


def _standings(results: Results, file: str, before: str, *ours: str) -> str:
    return tables.standings(results[file], results[before], *ours)


def _mean(results: Results, file: str, *of: str) -> str:
    value = quoted.value(results[file], *of)
    return NOT_RUN if math.isnan(value) else number(value)


def _of(make: Callable[..., str], file: str | None = None) -> Callable[..., str]:
    """A placeholder that passes a table of results on, that of its first argument by default."""

    def placeholder(results: Results, *arguments: str) -> str:
        name, rest = (file, arguments) if file else (arguments[0], arguments[1:])
        return make(results[name], *rest)

    return placeholder


def _ablation(make: Callable[..., str]) -> Callable[..., str]:
    return _of(lambda table, *rest: make(ablation.with_sizes(table), *rest), "ablation")


#: Name in the template -> function (results, arguments of the placeholder) -> text.
PLACEHOLDERS: dict[str, Callable[..., str]] = {
    "warnings": _warnings,
    "files": _files,
    "versions": _versions,
    "claims": _claims,
    "figure": _figure,
    "curves": _curves,
    "times": _times,
    "standings": _standings,
    "mean": _mean,
    "paper": lambda _, name, method: number(tables.paper_table_3()[method, name].mean),
    "percent": lambda results, *of: f"{100 * quoted.value(results['auctions'], *of):.2f} %",
    "apart": _of(quoted.apart, "public_published"),
    "gains": _of(quoted.gains, "public_published"),
    "violations": _of(quoted.violations, "public_held-out"),
    "ms": _of(quoted.milliseconds, "timing"),
    "faster": _of(quoted.faster, "timing"),
    "gain_in_errors": _of(quoted.gain_in_errors, "auctions"),
    "ablation": _ablation(tables.ablation),
    "ablation_effects": _ablation(quoted.ablation_effects),
    "firsts": _of(quoted.firsts),
    **{
        make.__name__: _of(make)
        for make in (
            tables.sizes, tables.quantiles, tables.quantiles_beside_paper, tables.differences_to_gcm,
            tables.published, tables.own_scores, tables.stand_ins, tables.ranked_scores,
            tables.averages, tables.settings, tables.implicit, tables.auctions,
        )
    },
}  # fmt: skip
