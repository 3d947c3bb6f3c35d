"""What documents say of results is filled in from the files of results, or printed by a program."""

import re
from pathlib import Path

import pytest

from reproduce import report

ROOT = Path(__file__).parents[2]
BENCHMARKS = (ROOT / "reproduce" / "BENCHMARKS.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in report.TEMPLATE.rglob("*.md")}
#: Decimal numbers of documents that are no results: sections of the paper, versions, thresholds,
#: gigabytes on disk, the address of a paper.
NO_RESULTS = {"2512.17945", "2.0", "3.3", "3.4", "4.1", "0.7", "0.23", "3.10", "3.13", "1.4", "2.5"}
#: Those of the report: sections and numbers of the paper, settings and shares of rows.
PROTOCOLS = "4.2 3.3 0.1 0.2 0.9 0.97 0.99 0.01 0.8 0.05 0.0001 0.025 7.9 23.9 0.057"
#: And scores of fits whose rows were not kept.
NOT_KEPT = (
    "0.8642 0.8645 0.2003 0.1999 2.902 2.907 0.1718 0.1865 2.853 2.827 0.1503 0.058 "
    "0.7765 0.7502 0.6632 "
    "0.6946 0.0006 0.6947 0.6955 0.6973 0.6996"
)
#: Tables of the paper in the order of the first screen.
SCREEN = ["scores", "errors", "ablation", "ablation", "times", "sizes"]
#: What the paper counts, and what another choice of columns gave.
COUNTED = {"five of six", "3 of 9"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_measured_number_stands_in_the_benchmarks_or_in_output_of_the_page(path):
    whole = path.read_text(encoding="utf-8")
    # What the report fills in is compared with the results in tests/reproduce/test_report.py.
    text = re.sub(r"```.*?```|`[^`]*`", "", report.FILLED.sub("", whole), flags=re.DOTALL)
    numbers = set(re.findall(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)", text)) - NO_RESULTS
    # tests/test_documents.py compares the blocks of output with what the examples print.
    shown = "\n".join([BENCHMARKS, *re.findall(r"```text\n.*?```", whole, flags=re.DOTALL)])
    assert all(re.search(rf"(?<![\d.]){re.escape(n)}(?![\d])", shown) for n in numbers), numbers


def test_no_result_is_written_into_the_report_by_hand():
    text = re.sub(
        r"\{\{.*?\}\}|`[^`]*`|\]\([^)]*\)", "", "\n".join(PAGES.values()), flags=re.DOTALL
    )
    numbers = {float(n) for n in re.findall(r"(?<![\w.])\d*\.\d+(?![\w.]*\d)", text)}
    assert numbers == {float(n) for n in f"{PROTOCOLS} {NOT_KEPT}".split()}
    names = ["two", "three", "four", "five", "six", "seven", "eight", "nine"]
    words = rf"(?:\d+|{'|'.join(names)})"
    assert set(re.findall(rf"\b{words} of {words}\b", text)) == COUNTED
    assert not re.search(rf"\bplaces? (?:{words}|first|last)\b|\ball but\b", text)


def test_the_report_starts_with_the_papers_tables_and_a_verdict_on_every_claim():
    cells, verdict = (part.split("\n## ")[0] for part in PAGES["REPORT"].split("\n## ", 2)[1:])
    assert re.findall(r"(?m)^\{\{rendering.first_screen.(?!counts)(\w+)", cells) == SCREEN
    every = PAGES["claims_and_commands"]
    for text in (verdict, every):
        found = re.findall(r"(?m)^\| (\d+) \|.*?\| \*\*(?:holds|does not hold)\b", text)
        assert found == [str(number) for number in range(1, 14)]
    for line in verdict.splitlines():
        assert not re.match(r"\| \d+ \|", line) or line.count(". ") <= 1
    places = every.split("## Where everything in the paper is\n")[1]
    for number in (1, 2, 3, 5, 6, 8):
        assert re.search(rf"\| (Tables? .*{number}|Tables 6 and 7)", places)
    assert all(f"Figure {number}" in places for number in (3, 6))
