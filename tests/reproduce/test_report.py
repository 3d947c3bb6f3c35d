"""The report: its text from made-up results, and every number of the committed ones.

Tables, marks and quoted numbers of all studies are compared there, on the committed results.
"""

import dataclasses
import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from toys import options, row, table

from reproduce import report
from reproduce.runs import COLUMNS, KEY, RESULTS, read_results
from reproduce.studies import STUDIES
from reproduce.tasks import TASKS

#: Files with fewer fits than planned: their tables say of how many splits each number is.
GROWING = ("survival_aids", "survival_gbsg2", "survival_veteran", "survival_whas500")
GROWING += ("ordinal", "distribution", "public_positive")


def write(folder, name, rows):
    pd.DataFrame(rows, columns=COLUMNS).to_csv(folder / f"{name}.csv", index=False)


def few_files(folder):
    """A part of the results that have a figure, of those beside the paper, and of times."""
    for name in ("public_held-out", "public_published", "timing"):
        rows = pd.read_csv(RESULTS / f"{name}.csv", keep_default_na=False, dtype=str)
        few = rows["method"].isin(["MM", "GCM", "IGCM", "GCM (literal)"])
        write(folder, name, rows[few & rows["seed"].isin(["0", "1", "2"])])
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
    pages = report.pages(results)
    for name, page in pages.items():
        assert page == (RESULTS.parent / name).read_text(encoding="utf-8"), name
    text = "\n".join(pages.values())
    page = report.CREDIT.read_text(encoding="utf-8")
    assert 2 * len(report.FILLED.findall(page)) == page.count("<!--") > 0
    assert report.refreshed(page, results) == page
    assert len(re.sub("<.*?>", "", pages["REPORT.md"]).split()) <= 2000
    for lacking in ("{{", "Not run", "(not run)"):
        assert lacking not in text
    assert not re.search(r"\bnan\b", text)
    named = {part.split(")")[0] for part in text.split("](../figures/")[1:]} | {"benchmarks.png"}
    assert named == {file.name for file in (RESULTS.parent / "figures").iterdir()}
    assert all(f"`{command}`" in text for command, _ in report.FILES.values())
    assert all(task.title in text for task in TASKS.values())
    for name, (_, planned) in report.FILES.items():
        if planned:
            count, diverged = report.fits_of(results, name)
            assert count == planned or (name in GROWING and count < planned), name
            assert diverged == 0


@pytest.mark.parametrize(
    "name",
    [
        *("quantile", "public", "ablation", "auctions", "falls", "distribution", "intervals"),
        *("stories", "reference_posteriors"),  # settings of the others have versions
    ],
)
def test_stored_fits_are_those_that_the_command_runs(name, tmp_path):
    """With the settings that were chosen, those of the paper's Table 5, and its sizes."""
    for study in getattr(STUDIES[name], "studies", {"": STUDIES[name]}).values():
        for file, fits in study.fits(options(study, tmp_path)).items():
            stored = read_results(RESULTS / f"{file}.csv")[KEY].itertuples(index=False, name=None)
            assert {*stored} <= {dataclasses.astuple(fit) for fit in fits}, file


def test_neither_the_order_of_rows_nor_another_device_changes_the_report(made, copied):
    for file in copied.glob("*.csv"):
        rows = pd.read_csv(file, keep_default_na=False, dtype=str).sample(frac=1, random_state=1)
        if file.stem == "public_published":
            rows = pd.concat([rows, rows.assign(device="cuda", value=0.4321)])
        rows.to_csv(file, index=False)
    for name, page in report.pages(report.read(copied)).items():
        assert page == (made / name).read_text(encoding="utf-8")
    other = report.read(copied, "cuda")
    assert set(other) == {"public_published", "timing", "quantile_curves"}
    assert other["public_published"]["value"].eq(0.4321).all()


def test_absent_files_say_which_command_makes_them(tmp_path):
    pages = report.pages(report.read(tmp_path))
    text = "\n".join(pages.values())
    for command, _ in report.FILES.values():
        assert f"Not run yet: `python -m reproduce {command}`." in text
    assert "(not run)" in section(pages["REPORT.md"], "Verdict")
    planned = report.FILES["public_held-out"][1]
    assert f"| `public_held-out.csv` | `public` | 0 of {planned} | 0 |" in text


def test_fits_that_lack_or_diverged_are_told(copied):
    rows = pd.read_csv(copied / "public_held-out.csv", dtype={"split": str})
    lost = (rows["dataset"] == "adult") & (rows["method"] == "MM") & (rows["seed"] == 1)
    diverged = row(method="MM", seed=1, split="1", value=math.nan)
    write(copied, "public_held-out", [*rows[~lost].to_dict("records"), diverged])
    steps = 0.001 * np.arange(4)
    adult = {("LightGBM", "AUC"): 0.8 + steps, ("Members", "AUC"): 0.81 + steps}
    adult["GCM", "AUC"] = 0.9 + steps[:2]
    write(copied, "search_adult", table(adult, experiment="search"))
    text = "\n".join(report.pages(report.read(copied)).values())
    planned = {name: count for name, (_, count) in report.FILES.items()}
    assert f"| `public` | 54 of {planned['public_held-out']} | 1 |" in text
    assert "(n = 2, 1 diverged)" in text.split("# Appendix A.")[1]
    assert f"| `search_adult.csv` | `search` | 10 of {planned['search_adult']} | 0 |" in text
    means = text.split("# 8. Search")[1].split("| Method |")[1].split("\n\n")[0]
    assert means.splitlines() == [
        " Adult, AUC |",
        "| --- | ---: |",
        "| Members | **0.8115** |",
        "| GCM | 0.9005 (n = 2) |",
        "| LightGBM | 0.8015 |",
    ]
