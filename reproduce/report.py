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
from reproduce.rendering import first_screen
from reproduce.rendering.credit_figure import draw_credit
from reproduce.rendering.figures import curve_groups, draw_curves
from reproduce.rendering.markdown import NOT_RUN, markdown
from reproduce.rendering.result_files import CREDIT_FILES, FILES, GROWING, JOINED, Results, read
from reproduce.runs import KEY, RESULTS

#: A page of the documentation with tables of results.
CREDIT = Path(__file__).parents[1] / "docs" / "credit.md"
TEMPLATE = Path(__file__).with_name("REPORT_template.md")


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
    for name, methods in _curve_groups(results).items():
        curves = results["quantile_curves"]
        draw_curves(curves[curves["method"].isin(methods)], figures / name)
    if _credit_figure(results):
        draw_credit(results["credit"], results["credit_falls"], figures / "credit.png")
    for name, text in pages(report(results)).items():
        write_file(arguments.output / name, text.encode())
    if arguments.output.resolve() == RESULTS.parent:
        write_file(CREDIT, refreshed(CREDIT.read_text(encoding="utf-8"), results).encode())
    print(f"written: {arguments.output / 'REPORT.md'}")


def report(results: Results, template: str | None = None) -> str:
    """The text of the template with every `{{placeholder}}` filled in.

    A placeholder is `name argument; ...`. Its name is one of `PLACEHOLDERS`, or that of a function
    `module.function` of this package, which is given the table of each argument that names a file
    or one of `JOINED`; in `name argument; ... in placeholder` it is given the text of the other one
    first. Where its results are not there, one that has a line of its own becomes the command that
    makes them.
    """
    text = TEMPLATE.read_text(encoding="utf-8") if template is None else template

    @cache
    def filled(placeholder: str) -> str:
        asked, _, inner = placeholder.partition(" in ")
        name, _, rest = asked.partition(" ")
        arguments = [part.strip() for part in rest.split(";") if part]
        if name in PLACEHOLDERS:
            return PLACEHOLDERS[name](results, *arguments)
        module, _, function = name.rpartition(".")
        text_of: Callable[..., str] = getattr(import_module(f"reproduce.{module}"), function)
        given = [results[a] if a in FILES or a in JOINED else a for a in arguments]
        return text_of(*([filled(inner)] if inner else []), *given)

    def fill(found: re.Match[str], alone: bool) -> str:
        try:
            return filled(found[1])
        except LookupError as missing:  # of a file, or of some of its rows
            command, _ = FILES.get(str(missing.args[0]), ("", 0))
            told = (
                f"Not run yet: `python -m reproduce {command}`." if command else "Not run in full."
            )
            return told if alone else f"({NOT_RUN})"

    text = re.sub(r"(?m)^\{\{([^{}]+)\}\}$", partial(fill, alone=True), text)
    text = re.sub(r"\{\{([^{}]+)\}\}", partial(fill, alone=False), text)
    return re.sub(r"\n{3,}", "\n\n", text)


#: Where a section starts, which has a number or a letter: "## 4. Title", "## Appendix A. Title".
_SECTION = r"(?m)^## (?=\d+\.|Appendix )"


def section(tables: Mapping[str, pd.DataFrame], number: str) -> str:
    """The tables of a section of the report, with their captions.

    :param tables: by the names of their files; what is not of them is left out.
    """
    parts = re.split(_SECTION, TEMPLATE.read_text(encoding="utf-8"))[1:]
    wanted, shown = re.compile(rf"(?:Appendix )?{number}\."), list[str]()
    blocks = next(part for part in parts if wanted.match(part)).split("\n\n")
    for before, block in pairwise(blocks):
        text = report(Results(tables), block) if re.fullmatch(r"\{\{.*\}\}\s*", block) else ""
        if text and not text.startswith(("Not run", "![")):
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


def pages(text: str) -> dict[str, str]:
    """The parts of the report by their files: what comes first, and a page for each section.

    Where a text names a section, in a sentence or as the last cell of a row of a table with a
    column "Section", there is a link to its page.
    """
    first, *parts = re.split(_SECTION, text)
    found = [re.match(r"(?:Appendix )?(\w+)\. ([^(\n]+)", part) for part in parts]
    files = {m[1]: re.sub(r"\W+", "_", m[2].strip().lower()) + ".md" for m in found if m}
    several = r"((?:[Ss]ections?|[Aa]ppendix) )(\w+(?:,\s\d+)*(?:\s(?:and|to)\s\d+)?)(?!\.?\w)"
    last_cell = r"(?m)(\| )(\w+(?:, \w+)*)(?= \|$)"

    def linked(page: str, folder: str) -> str:
        def link(number: re.Match[str]) -> str:
            known = number[0] in files
            return f"[{number[0]}]({folder}{files[number[0]]})" if known else number[0]

        def links(part: str) -> str:
            places = last_cell if "| Section |" in part else several
            return re.sub(places, lambda at: at[1] + re.sub(r"\w+", link, at[2]), part)

        return "".join(map(links, re.split(r"(?m)^(?=##)", page))).rstrip()

    written = {"REPORT.md": f"{linked(first, 'report/')}\n"}
    for part, file in zip(parts, files.values(), strict=True):
        title, _, body = part.partition("\n")
        body = re.sub(r"\]\((?!https?:|#)", "](../", re.sub(r"(?m)^###", "##", body))
        back = "[The report](../REPORT.md) has the claims of the paper, and what holds."
        written[f"report/{file}"] = f"# {title}\n\n{back}\n{linked(body, '')}\n"
    return written


def fits_of(results: Results, name: str) -> tuple[int, int]:
    """The fits in a file, and how many of them diverged."""
    if name not in results:
        return 0, 0
    rows = results[name]
    diverged = rows["value"].isna().groupby([rows[column] for column in KEY]).any()
    return len(diverged), int(diverged.sum())


def _warnings(results: Results) -> str:
    """What a reader of results that are not complete has to know."""
    lacking = [
        f"`{name}.csv`"
        for name, (_, planned) in FILES.items()
        if planned and name not in GROWING and fits_of(results, name)[0] < planned
    ]
    if not lacking:
        return ""
    return (
        f"**Not complete, or of `--quick`: {', '.join(lacking)}. The sentences were written for "
        "complete results: rely on the tables alone.**"
    )


def _files(results: Results) -> str:
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


def _versions(results: Results) -> str:
    """A line for each set of versions, with the files that have fits of it."""
    found: dict[str, list[str]] = {}
    for name, table in results.items():
        for each in sorted(set(table["versions"])) if "versions" in table else ():
            found.setdefault(each, []).append(f"`{name}.csv`")
    return "\n".join(f"- {each}: {', '.join(found[each])}" for each in sorted(found))


def _credit_figure(results: Results, text: str = "") -> str:
    there = "credit_falls" in results and bool({*CREDIT_FILES} & {*results})
    return f"![{text}](figures/credit.png)" if there else ""


def _curve_groups(results: Results) -> dict[str, list[str]]:
    curves = results.get("quantile_curves", pd.DataFrame(columns=["method"]))
    return curve_groups(list(curves["method"].unique()))


def _curves(results: Results) -> str:
    groups = _curve_groups(results).items()
    return "\n\n".join(f"![Curves of {', '.join(g)}](figures/{name})" for name, g in groups)


#: Name in the template -> function (results, arguments of the placeholder) -> text.
PLACEHOLDERS: dict[str, Callable[..., str]] = {
    "warnings": _warnings,
    "files": _files,
    "versions": _versions,
    "credit_figure": _credit_figure,
    "curves": _curves,
    "first_screen": first_screen.report,
}
