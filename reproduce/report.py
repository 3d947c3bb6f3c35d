"""REPORT.md, a page for each of its sections, and figures, from the stored results alone."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pandas as pd

from pyro_gcm._utils.files import write_file
from reproduce.rendering.credit_figure import draw_credit
from reproduce.rendering.figures import curve_groups, draw_curves
from reproduce.rendering.markdown import NOT_RUN, markdown
from reproduce.rendering.result_files import CREDIT_FILES, FILES, JOINED, Results, read
from reproduce.runs import KEY, RESULTS

#: A page of the documentation with tables of results.
CREDIT = Path(__file__).parents[1] / "docs" / "credit.md"
#: Folder of the pages, with placeholders in the place of tables and numbers.
TEMPLATE = Path(__file__).with_name("template")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce report`."""
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--device", default="cpu", help="of the results; times of all are shown")
    parser.add_argument(
        "--output", type=Path, default=RESULTS.parent, help="folder of REPORT.md and figures/"
    )


def main(arguments: argparse.Namespace) -> None:
    """Read the results that are there and write the report."""
    results, figures = read(arguments.results, arguments.device), arguments.output / "figures"
    if "quantile_curves" in results:
        curves = results["quantile_curves"]
        for name, methods in curve_groups(list(curves["method"].unique())).items():
            draw_curves(curves[curves["method"].isin(methods)], figures / name)
    if "credit_falls" in results and {*CREDIT_FILES} & {*results}:
        draw_credit(results["credit"], results["credit_falls"], figures / "credit.png")
    for name, text in pages(results).items():
        write_file(arguments.output / name, text.encode())
    if arguments.output.resolve() == RESULTS.parent:
        write_file(CREDIT, refreshed(CREDIT.read_text(encoding="utf-8"), results).encode())
    print(f"written: {arguments.output / 'REPORT.md'}")


def pages(results: Results) -> dict[str, str]:
    """The text of every page by its file, that of the template with its placeholders filled in."""
    files = {path.relative_to(TEMPLATE).as_posix(): path for path in sorted(TEMPLATE.rglob("*.md"))}
    return {
        name: f"{report(results, path.read_text(encoding='utf-8')).rstrip()}\n"
        for name, path in files.items()
    }


def report(results: Results, text: str) -> str:
    """A text with every `{{placeholder}}` filled in.

    A placeholder is `name argument; ...`. Its name is that of a function `module.function` of this
    package, which is given the table of each argument that names a file or one of `JOINED`; in
    `name argument; ... in placeholder` it is given the text of the other one first. Where its
    results are not there, one that has a line of its own becomes the command that makes them.
    """

    @cache
    def filled(placeholder: str) -> str:
        asked, _, inner = placeholder.partition(" in ")
        name, _, rest = asked.partition(" ")
        arguments = [part.strip() for part in rest.split(";") if part]
        module, _, function = name.rpartition(".")
        text_of: Callable[..., str] = getattr(import_module(f"reproduce.{module}"), function)
        given = [results[a] if a in FILES or a in JOINED else a for a in arguments]
        return text_of(*([filled(inner)] if inner else []), *given)

    def fill(found: re.Match[str], alone: bool) -> str:
        try:
            return filled(found[1])
        except LookupError as missing:  # of a file, or of some of its rows
            command, _ = FILES.get(str(missing.args[0]), ("", 0))
            told = f"yet: `python -m reproduce {command}`" if command else "in full"
            return f"Not run {told}." if alone else f"({NOT_RUN})"

    text = re.sub(r"(?m)^\{\{([^{}]+)\}\}$", partial(fill, alone=True), text)
    text = re.sub(r"\{\{([^{}]+)\}\}", partial(fill, alone=False), text)
    return re.sub(r"\n{3,}", "\n\n", text)


def section(tables: Mapping[str, pd.DataFrame], number: str) -> str:
    """The tables of a section of the report, with their captions.

    :param tables: by the names of their files; what is not of them is left out.
    """
    texts = (path.read_text(encoding="utf-8") for path in TEMPLATE.rglob("*.md"))
    wanted, shown = re.compile(rf"# (?:Appendix )?{number}\."), list[str]()
    blocks = next(text for text in texts if wanted.match(text)).split("\n\n")
    for before, block in pairwise(blocks):
        text = report(Results(tables), block) if re.fullmatch(r"\{\{.*\}\}\s*", block) else ""
        if text and not text.startswith("Not run"):
            shown += [before, text] if before.endswith(":") else [text]
    return report(Results(tables), "\n\n".join(shown)).strip()


#: A placeholder of a page of the documentation, and what was filled in.
FILLED = re.compile(r"<!-- ([^/\n]+) -->\n(.*?)<!-- / -->", flags=re.DOTALL)


def refreshed(page: str, results: Results) -> str:
    """A page whose parts between `<!-- placeholder -->` and `<!-- / -->` are filled in anew."""

    def fill(found: re.Match[str]) -> str:
        text = report(results, f"{{{{{found[1]}}}}}")
        return f"<!-- {found[1]} -->\n{text}\n<!-- / -->"

    return FILLED.sub(fill, page)


def fits_of(results: Results, name: str) -> tuple[int, int]:
    """The fits in a file, and how many of them diverged."""
    if name not in results:
        return 0, 0
    rows = results[name]
    diverged = rows["value"].isna().groupby([rows[column] for column in KEY]).any()
    return len(diverged), int(diverged.sum())


def files(results: Results) -> str:
    """A row a file: its command, its fits against those planned, those that diverged, and hours."""
    rows = []
    for name, (command, planned) in FILES.items():
        count, diverged = fits_of(results, name) if planned else (0, 0)
        told = f"{count} of {planned}" if planned else "" if name in results else NOT_RUN
        hours = _hours(results[name]) if planned and name in results else ""
        found = [told, str(diverged) if planned else "", hours]
        rows.append([f"`{name}.csv`", f"`{command}`", *found])
    return markdown(["File", "Command", "Fits", "Diverged", "Hours"], rows)


def _hours(table: pd.DataFrame) -> str:
    """Seconds of all fits in hours, each counted once."""
    hours = table.drop_duplicates([*KEY, "device"])["seconds"].sum() / 3600.0
    return f"{hours:.1f}" if hours >= 0.05 else "< 0.1"


def versions(results: Results) -> str:
    """A line for each set of versions, with the files that have fits of it."""
    found: dict[str, list[str]] = {}
    for name, table in results.items():
        for each in sorted(set(table["versions"])) if "versions" in table else ():
            found.setdefault(each, []).append(f"`{name}.csv`")
    return "\n".join(f"- {each}: {', '.join(found[each])}" for each in sorted(found))
