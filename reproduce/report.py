"""REPORT.md, a page for each of its sections, and figures, from the stored results alone."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path

import pandas as pd

from pyro_gcm._utils.files import write_file
from reproduce.arguments import a_path
from reproduce.released import tables as released_tables
from reproduce.rendering import quoted, tables
from reproduce.rendering.credit_figure import draw_credit
from reproduce.rendering.figures import curve_groups, draw_changes, draw_curves, draw_held_out
from reproduce.rendering.markdown import NOT_RUN, markdown, number
from reproduce.rendering.result_files import CHANGES_OF, CREDIT_FILES, FILES, GROWING, SURVIVAL
from reproduce.rendering.stored_results import (
    NotRun,
    Results,
    finals,
    joined,
    many,
    pooled,
    read,
)
from reproduce.results import RESULTS, versions_of_files
from reproduce.runs import KEY

#: A page of the documentation with tables of results.
CREDIT = Path(__file__).parents[1] / "docs" / "credit.md"
TEMPLATE = Path(__file__).with_name("REPORT_template.md")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce report`."""
    parser.add_argument("--results", type=a_path, default=RESULTS, help="folder of the results")
    parser.add_argument("--device", default="cpu", help="of the results; times of all are shown")
    parser.add_argument(
        "--output", type=a_path, default=RESULTS.parent, help="folder of REPORT.md and figures/"
    )


def main(arguments: argparse.Namespace) -> None:
    """Read the results that are there and write the report."""
    results = read(arguments.results, arguments.device)
    draw(results, arguments.output / "figures")
    for name, text in pages(report(results)).items():
        write_file(arguments.output / name, text.encode())
    if arguments.output.resolve() == RESULTS.parent:
        write_file(CREDIT, refreshed(CREDIT.read_text(encoding="utf-8"), results).encode())
    print(f"written: {arguments.output / 'REPORT.md'}")


#: Figure -> whether its tables are there.
FIGURES: dict[str, Callable[[Results], bool]] = {
    "held_out.png": lambda results: "public_held-out" in results,
    "changes.png": lambda results: bool(set(CHANGES_OF) & set(results)),
    "credit.png": lambda results: (
        "credit_falls" in results and bool(set(CREDIT_FILES) & set(results))
    ),
}


def draw(results: Results, folder: Path) -> None:
    """The figures of the tables that are there."""
    if FIGURES["held_out.png"](results):
        draw_held_out(results["public_held-out"], folder / "held_out.png")
    if FIGURES["changes.png"](results):
        draw_changes(joined(results, CHANGES_OF), folder / "changes.png")
    if FIGURES["credit.png"](results):
        draw_credit(joined(results, CREDIT_FILES), results["credit_falls"], folder / "credit.png")
    curves = results.get("quantile_curves", pd.DataFrame(columns=["method"]))
    for name, methods in curve_groups(list(curves["method"].unique())).items():
        draw_curves(curves[curves["method"].isin(methods)], folder / name)


def report(results: Results, template: str | None = None) -> str:
    """The text of the template with every `{{placeholder}}` filled in.

    A placeholder is `name argument; ...`. Its name is one of `PLACEHOLDERS`, or that of a function
    `module.function` of this package, whose first argument is the table of the file or of `JOINED`
    that is named first; in `name argument; ... in placeholder` it is the text of the other one.
    Where its results are not there, one that has a line of its own becomes the command that makes
    them.
    """
    text = TEMPLATE.read_text(encoding="utf-8") if template is None else template

    @cache
    def filled(placeholder: str) -> str:
        asked, _, table = placeholder.partition(" in ")
        name, _, rest = asked.partition(" ")
        arguments = [part.strip() for part in rest.split(";") if part]
        if name in PLACEHOLDERS:
            return PLACEHOLDERS[name](results, *arguments)
        module, _, function = name.rpartition(".")
        text_of: Callable[..., str] = getattr(import_module(f"reproduce.{module}"), function)
        if table:
            return text_of(filled(table), *arguments)
        file, *others = arguments
        return text_of(JOINED[file](results) if file in JOINED else results[file], *others)

    def fill(found: re.Match[str], alone: bool) -> str:
        try:
            return filled(found[1])
        except NotRun as missing:
            command = FILES[missing.args[0]][0]
            return f"Not run yet: `python -m reproduce {command}`." if alone else f"({NOT_RUN})"

    text = re.sub(r"(?m)^\{\{([^{}]+)\}\}$", partial(fill, alone=True), text)
    text = re.sub(r"\{\{([^{}]+)\}\}", partial(fill, alone=False), text)
    return re.sub(r"\n{3,}", "\n\n", text)


#: A placeholder of a page of the documentation, and what was filled in.
FILLED = re.compile(r"<!-- ([^/\n]+) -->\n(.*?)<!-- / -->", flags=re.DOTALL)


def refreshed(page: str, results: Results) -> str:
    """A page whose parts between `<!-- placeholder -->` and `<!-- / -->` are filled in anew."""

    def fill(found: re.Match[str]) -> str:
        text = report(results, f"{{{{{found[1]}}}}}")
        return f"<!-- {found[1]} -->\n{text}\n<!-- / -->"

    return FILLED.sub(fill, page)


def pages(text: str) -> dict[str, str]:
    """The parts of the report by their files: what comes first, and a page for each section.

    Sections are those with a number or a letter: "## 4. Title", "## Appendix A. Title". Where a
    text names one, in a sentence or as the last cell of a row, there is a link to its page.
    """
    first, *parts = re.split(r"(?m)^## (?=\d+\.|Appendix )", text)
    found = [re.match(r"(?:Appendix )?(\w+)\. ([^(\n]+)", part) for part in parts]
    files = {m[1]: re.sub(r"\W+", "_", m[2].strip().lower()) + ".md" for m in found if m}

    def linked(page: str, folder: str, places: str) -> str:
        def link(number: re.Match[str]) -> str:
            known = number[0] in files
            return f"[{number[0]}]({folder}{files[number[0]]})" if known else number[0]

        return re.sub(places, lambda at: at[1] + re.sub(r"\w+", link, at[2]), page)

    several = r"((?:[Ss]ections?|[Aa]ppendix) )(\w+(?:,\s\d+)*(?:\s(?:and|to)\s\d+)?)(?!\.?\w)"
    last_cell = r"(?m)(\| )(\d+(?:, \d+)*)(?= \|$)"
    front = re.split(r"(?m)^(?=## )", first)
    where = [last_cell if "| Section |" in part else several for part in front]
    both = zip(front, where, strict=True)
    first = "".join(linked(part, "report/", places) for part, places in both)
    written = {"REPORT.md": f"{first.rstrip()}\n"}
    for part, file in zip(parts, files.values(), strict=True):
        title, _, body = part.partition("\n")
        body = re.sub(r"\]\((?!https?:|#)", "](../", re.sub(r"(?m)^###", "##", body))
        back = "[The report](../REPORT.md) has the claims of the paper, and what holds."
        written[f"report/{file}"] = f"# {title}\n\n{back}\n{linked(body, '', several).rstrip()}\n"
    return written


def _fits(results: Results, name: str) -> tuple[int, int]:
    """The fits in a file, and how many of them diverged."""
    if name not in results:
        return 0, 0
    rows = results[name]
    diverged = rows["value"].isna().groupby([rows[column] for column in KEY]).any()
    return len(diverged), int(diverged.sum())


def _warnings(results: Results) -> str:
    """What a reader of results that are not complete has to know."""
    of_fits = {name: planned for name, (_, planned) in FILES.items() if planned}
    # Numbers of training steps are whole; "steps" of members are a share.
    small = '"(?:rows|shuffled)":|"steps":[0-9]+[,}]'
    quick = [
        f"`{name}.csv`"
        for name in of_fits
        if name in results and results[name]["settings"].str.contains(small).any()
    ]
    lacking = [
        f"`{name}.csv`"
        for name, planned in of_fits.items()
        if name not in GROWING and _fits(results, name)[0] < planned
    ]
    told = []
    if quick:
        told.append(f"**Fits of `--quick`, whose scores mean nothing: {', '.join(quick)}.**")
    if lacking:
        told.append(
            f"**Not complete: {', '.join(lacking)}. The sentences were written for complete "
            "results: rely on the tables alone.**"
        )
    return "\n\n".join(told)


def _files(results: Results) -> str:
    """A row a file: its command, its fits against those planned, those that diverged, and hours."""
    rows = []
    for name, (command, planned) in FILES.items():
        count, diverged = _fits(results, name) if planned else (0, 0)
        told = f"{count} of {planned}" if planned else "" if name in results else NOT_RUN
        hours = _hours(results[name]) if planned and name in results else ""
        found = [told, str(diverged) if planned else "", hours]
        rows.append([f"`{name}.csv`", f"`{command}`", *found])
    return markdown(["File", "Command", "Fits", "Diverged", "Hours"], rows)


def _hours(table: pd.DataFrame) -> str:
    """Seconds of all fits in hours, each counted once."""
    hours = table.drop_duplicates([*KEY, "device"])["seconds"].sum() / 3600.0
    return f"{hours:.1f}" if hours >= 0.05 else "< 0.1"


def _figure(results: Results, name: str, text: str) -> str:
    return f"![{text}](figures/{name})" if FIGURES[name](results) else ""


def _curves(results: Results) -> str:
    curves = results.get("quantile_curves", pd.DataFrame(columns=["method"]))
    groups = curve_groups(list(curves["method"].unique()))
    images = [f"![Curves of {', '.join(g)}](figures/{name})" for name, g in groups.items()]
    return "\n\n".join(images)


def _standings(results: Results, file: str, before: str, *ours: str) -> str:
    return tables.standings(results[file], results[before], *ours)


def _score(results: Results, file: str, *of: str) -> str:
    value = tables.score(results[file], *of)
    return NOT_RUN if math.isnan(value) else number(value)


def _main_rows(results: Results) -> pd.DataFrame:
    return released_tables.main_rows(results["public_released"])


def _positive(results: Results) -> pd.DataFrame:
    """Other maps to positive weights, and the paper's own of the released protocol."""
    return pd.concat([results["public_positive"], _main_rows(results)])


def _igcm_to_gcm(results: Results) -> str:
    published = results["public_published"]
    return quoted.igcm_to_gcm(_main_rows(results), published, pooled(results))


#: Name in the template -> function (results, arguments of the placeholder) -> text.
PLACEHOLDERS: dict[str, Callable[..., str]] = {
    "warnings": _warnings,
    "files": _files,
    "versions": versions_of_files,
    "figure": _figure,
    "curves": _curves,
    "standings": _standings,
    "score": _score,
    "igcm_to_gcm": _igcm_to_gcm,
}
#: Name in place of that of a file -> the rows of several or some of one; None: of the paper.
JOINED: dict[str, Callable[[Results], pd.DataFrame | None]] = {
    "paper": lambda results: None,
    "released": _main_rows,
    "positive_maps": _positive,
    "finals": finals,
    "pooled": pooled,
    "credit": lambda results: joined(results, CREDIT_FILES),
    "many": many,
    "survival": lambda results: joined(results, SURVIVAL),
}
