"""The report: its text from made-up results, and the template from the committed ones."""

import json
import math
import re
import shutil
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from toys import options, row, table

from reproduce import report
from reproduce.rendering import quoted, tables
from reproduce.runs import COLUMNS, RESULTS
from reproduce.tasks import TASKS


def write(folder, name, rows):
    pd.DataFrame(rows, columns=COLUMNS).to_csv(folder / f"{name}.csv", index=False)


def few_files(folder):
    """Small files of the results that have a figure, of those beside the paper, and of times."""
    rng = np.random.default_rng(0)

    def cells(*metrics):
        return {
            (method, metric): 0.8 + 0.01 * at + 0.001 * rng.normal(size=3)
            for at, method in enumerate(("MM", "GCM", "IGCM", "GCM (literal)"))
            for metric in metrics
        }

    files, fixed = defaultdict(list), {"variant": "published", "split": "fixed"}
    for name, task in TASKS.items():
        more = ("log score", "calibration error", "violation rate")
        files["public_held-out"].append(table(cells(task.metric, *more), dataset=name))
        both = cells(task.metric, f"{task.metric}, last epoch")
        files["public_published"].append(table(both, dataset=name, **fixed))
    for way in ("one by one", "cached"):
        settings = json.dumps({"revenues": 1024, "rows": 64, "x": way})
        times = {("MM", "ms per batch"): [1.0], ("GCM", "ms per batch"): [3.0]}
        files["timing"].append(table(times, split="", settings=settings))
    for name, parts in files.items():
        write(folder, name, pd.concat(parts))
    (folder / "quantile_curves").mkdir()
    for method in ("MM", "GCM"):
        shutil.copy(RESULTS / "quantile_curves" / f"{method}.csv", folder / "quantile_curves")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of small results, and in it what the command writes."""
    folder = tmp_path_factory.mktemp("results")
    few_files(folder)
    report.main(options(report, folder, "--results", str(folder)))
    return folder


@pytest.fixture
def copied(made, tmp_path):
    """The same results, which a test may change."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def section(text, title):
    return text.split(f"## {title}")[1].split("\n## ")[0]


@pytest.mark.long(keep=0)  # CI runs it
def test_the_committed_report_is_complete_and_of_the_results():
    results = report.read(RESULTS)
    text = report.report(results)
    for name, page in report.pages(text).items():
        assert page == (RESULTS.parent / name).read_text(encoding="utf-8"), name
    page = report.CREDIT.read_text(encoding="utf-8")
    assert 2 * len(report.FILLED.findall(page)) == page.count("<!--") > 0
    assert report.refreshed(page, results) == page
    assert len(re.sub("<.*?>", "", report.pages(text)["REPORT.md"]).split()) <= 2000
    for lacking in ("{{", "Not run", "(not run)", "Not complete"):
        assert lacking not in text
    assert not re.search(r"\bnan\b", text)
    named = {part.split(")")[0] for part in text.split("](figures/")[1:]}
    assert named == {file.name for file in (RESULTS.parent / "figures").iterdir()}
    assert all(f"`{command}`" in text for command, _ in report.FILES.values())
    assert all(task.title in text for task in TASKS.values())
    for name, (_, planned) in report.FILES.items():
        if planned:
            count, diverged = report.fits_of(results, name)
            assert count == planned or (name in report.GROWING and count < planned), name
            assert diverged == 0


def test_the_command_writes_the_report_and_every_figure_that_it_names(made):
    text = "".join(path.read_text(encoding="utf-8") for path in (made / "report").iterdir())
    named = set(re.findall(r"!\[[^]]*\]\(\.\./([^)]+)\)", text))
    drawn = {f"figures/{file.name}" for file in (made / "figures").iterdir()}
    assert named == drawn == {"figures/quantile_curves_1.png"}


def test_neither_the_order_of_rows_nor_another_device_changes_the_report(made, copied):
    for file in copied.glob("*.csv"):
        rows = pd.read_csv(file, keep_default_na=False, dtype=str).sample(frac=1, random_state=1)
        if file.stem == "public_published":
            rows = pd.concat([rows, rows.assign(device="cuda", value=0.4321)])
        rows.to_csv(file, index=False)
    for name, page in report.pages(report.report(report.read(copied))).items():
        assert page == (made / name).read_text(encoding="utf-8")
    other = report.read(copied, "cuda")
    assert set(other) == {"public_published", "timing", "quantile_curves"}
    assert other["public_published"]["value"].eq(0.4321).all()


def test_a_section_is_a_page_and_its_number_a_link():
    text = """# Report

As section 2 says, sections 1 and 2 are not section 2.1 of the paper.

## Map

| a | Section |
| - | - |
| 3 | 1, 2 |

## 1. One (Table 1)

See [this](figures/x.png).

### Part

## 2. Two words

Section 1.
"""
    pages = report.pages(text)
    first = "section [2](report/two_words.md) says, sections [1](report/one.md) and [2]"
    assert [*pages] == ["REPORT.md", "report/one.md", "report/two_words.md"]
    assert first in pages["REPORT.md"]
    assert "section 2.1 of the paper" in pages["REPORT.md"]
    assert "| 3 | [1](report/one.md), [2](report/two_words.md) |" in pages["REPORT.md"]
    assert pages["report/one.md"].startswith("# 1. One (Table 1)\n\n[The report](../REPORT.md)")
    assert "[this](../figures/x.png).\n\n## Part" in pages["report/one.md"]
    assert pages["report/two_words.md"].endswith("Section [1](one.md).\n")


def test_absent_files_say_which_command_makes_them(tmp_path):
    text = report.report(report.read(tmp_path))
    for command, _ in report.FILES.values():
        assert f"Not run yet: `python -m reproduce {command}`." in text
    assert "**Not complete, or" in text
    assert "(not run)" in section(text, "Verdict")
    planned = report.FILES["public_held-out"][1]
    assert f"| `public_held-out.csv` | `public` | 0 of {planned} | 0 |" in text
    assert ".png" not in text


def test_a_page_of_the_documentation_is_filled_in_anew(made):
    page = "Before\n<!-- files -->\nold\n<!-- / -->\nafter\n"
    found = report.refreshed(page, report.read(made))
    assert found.startswith("Before\n<!-- files -->\n| File | Command |")
    assert found.endswith("\n<!-- / -->\nafter\n")
    assert "old" not in found


def test_fits_that_lack_or_diverged_are_told(copied):
    rows = pd.read_csv(copied / "public_held-out.csv", dtype={"split": str})
    lost = (rows["dataset"] == "adult") & (rows["method"] == "MM") & (rows["seed"] == 1)
    diverged = row(method="MM", seed=1, split="1", value=math.nan)
    write(copied, "public_held-out", [*rows[~lost].to_dict("records"), diverged])
    steps = 0.001 * np.arange(4)
    adult = {("LightGBM", "AUC"): 0.8 + steps, ("Members", "AUC"): 0.81 + steps}
    adult["GCM", "AUC"] = 0.9 + steps[:2]
    write(copied, "search_adult", table(adult, experiment="search"))
    text = report.report(report.read(copied))
    told = "**Not complete, or of `--quick`: `quantile.csv`, `quantile_paper_setting.csv`"
    assert told in text.split("## Verdict")[0]
    planned = {name: count for name, (_, count) in report.FILES.items()}
    assert f"| `public` | 72 of {planned['public_held-out']} | 1 |" in text
    assert "(n = 2, 1 diverged)" in section(text, "Appendix A. Held-out tables")
    assert f"| `search_adult.csv` | `search` | 10 of {planned['search_adult']} | 0 |" in text
    means = section(text, "8. Search of thirty trials").split("| Method |")[1].split("\n\n")[0]
    assert means.splitlines() == [
        " Adult, AUC |",
        "| --- | ---: |",
        "| Members | **0.8115** |",
        "| GCM | 0.9005 (n = 2) |",
        "| LightGBM | 0.8015 |",
    ]


def test_cells_of_the_paper_show_its_numbers_and_whether_the_intervals_meet():
    # The paper: GCM on Adult 0.7844 ± 0.0025.
    for value, mark in ((0.7840, ""), (0.7000, "†")):
        values = [value, value + 1e-4, value + 2e-4]
        rows = table({("GCM (literal)", "AUC"): values})
        lines = tables.published(rows).splitlines()
        assert len(lines) == 4
        assert lines[2].startswith(
            f"| GCM (literal) | ours | **{value + 1e-4:.4f} ± 0.0002**{mark} |"
        )
        assert lines[3].startswith("|  | paper | 0.7844 ± 0.0025 |")
        stand_in = rows.assign(dataset="loan_psds", metric="accuracy", value=0.1235)
        both = pd.concat([rows, stand_in])
        assert tables.published(both).splitlines() == lines
        assert tables.stand_ins(both).splitlines()[0] == "| Method | Loan (stand-in), accuracy |"


def rows_of(**metrics):
    return table({("GCM", name): values for name, values in metrics.items()})


#: The paper: GCM 0.7844, PosNN 0.7597, MM 0.7791.
CLOSE = {"GCM": 0.7744, "PosNN": 0.7697, "MM": 0.7791}
APART = table({(m, "AUC"): [v - 1e-5, v, v + 1e-5] for m, v in CLOSE.items()})
CHOSEN = {"learning_rate": 0.03, "hidden": 64, "weight_decay": 1e-4, "form": "splines"}
ERRORS = {("GCM", "MAE r=0.1"): [0.1, 0.3], ("MM", "MAE r=0.1"): [0.2, 0.21]}
ERRORS |= {("GCM", "MAE r=0.3"): [0.1, 0.3], ("MM", "MAE r=0.3"): [0.1, 0.2]}
MARKED = """| Method | Adult, AUC | COMPAS, AUC | Loan (stand-in) |
| --- | ---: | ---: | ---: |
| MM | 0.1 ± 0.0* | -0.1 ± 0.2 | 0.2 ± 0.1* |
| GCM | **0.2 ± 0.1*** | -0.3 ± 0.2* | -0.4 ± 0.1*† |"""
RATES = pd.concat(
    table({("IGCM", "violation rate"): values}, dataset=name)
    for name, values in (("adult", [0.1, 0.2]), ("blog", [0.01, 0.01]), ("compas", [0.02]))
)


def test_numbers_of_the_text_are_those_of_the_results():
    medians = rows_of(AUC=[1] * 3).assign(seconds=[1, 7, 2])
    chosen = rows_of(AUC=[0.8]).assign(settings=json.dumps(CHOSEN))
    apart = (
        "2 of 3 comparisons have a dagger, and in 1 ours is better; ours minus the paper's AUC "
        "is from -0.0100 to +0.0100."
    )
    for text, expected in (
        (tables.averages(rows_of(AUC=[0.9, 0.6, 0.6]), "AUC"), "| GCM | 0.7 |"),
        (tables.averages(medians, "seconds"), "| GCM | 2 |"),
        (tables.settings(chosen), "| GCM | 0.03 / 64 / 0.0001, form splines |"),
        (quoted.apart(APART, "adult"), apart),
        # COMPAS 0.6945 against 0.6934, Loan Defaulter 0.6528 both.
        (quoted.ahead(None), "4 of 6"),
        (quoted.ahead(None, "GCM and IGCM", "the others"), "5 of 6"),
        (quoted.ahead(APART, "PosNN and MM", "GCM"), "1 of 1"),
        # GCM of the paper among PosNN, MM, SMM, CMNN and SMNN: 0.6945 against MM 0.6976.
        (quoted.place(None, "GCM"), "1, 2, 1, 3, 1, 2"),
        (quoted.firsts(table(ERRORS)), "1 of 2"),
        (quoted.violations(RATES, "IGCM"), "1 to 15 %"),
        (quoted.where(MARKED, "ahead", "MM"), "Adult, Loan (stand-in)"),
        (quoted.where(MARKED, "ahead"), "Adult"),
        (quoted.where(MARKED, "best", "MM"), "none"),
        (quoted.which(MARKED, "behind"), "GCM (COMPAS, Loan (stand-in))"),
        (quoted.which(MARKED, "best"), "GCM (Adult)"),
        (quoted.named(MARKED, "marked"), "MM, GCM"),
        (quoted.counted(MARKED, "apart"), "1"),
    ):
        assert text.splitlines()[-1] == expected
