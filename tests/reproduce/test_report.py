"""The report: its intervals, and its text from made-up results."""

import argparse
import json
import math

import numpy as np
import pandas as pd
import pytest
from made_up_results import row
from reproduce.findings import FINDINGS
from scipy import stats

from reproduce import report, report_figures, report_tables
from reproduce.checks import CHECKS
from reproduce.runs import COLUMNS
from reproduce.tasks import TASKS


def every_file(folder, seeds=3):
    """One small file of each kind of results."""
    rng = np.random.default_rng(0)
    rows = {
        "public_held-out": [],
        "public_published": [],
        "quantile": [],
        "ablation": [],
        "open": [],
    }
    for seed in range(seeds):
        for place, method in enumerate(("MM", "GCM", "IGCM", "GCM (literal)")):
            for name, task in TASKS.items():
                value = 0.8 + 0.01 * place + 0.001 * rng.normal()
                same = {"dataset": name, "seed": seed, "method": method}
                held = same | {"split": str(seed)}
                for metric in (task.metric, "log score", "calibration error", "violation rate"):
                    cell = row(**held, metric=metric, value=value)
                    rows["public_held-out"].append(cell)
                    rows["open"].append(cell | {"experiment": "open"})
                for metric in (task.metric, f"{task.metric}, last epoch"):
                    rows["public_published"].append(
                        row(**same, variant="published", metric=metric, value=value)
                    )
            for level in (0.1, 0.3, 0.5, 0.7, 0.9):
                rows["quantile"].append(
                    row(
                        dataset="simulation",
                        protocol="tuned",
                        split="",
                        seed=seed,
                        method=method,
                        metric=f"MAE r={level}",
                        value=0.1 + 0.01 * abs(place - 1) + level / 9,
                    )
                )
        for variant in ("published", "default"):
            for size in (4, 8):
                settings = json.dumps({"z_dim": size, "num_particles": 8})
                cell = {"variant": variant, "seed": seed, "settings": settings}
                rows["ablation"].append(row(**cell, value=0.78 + 0.001 * size + 1e-4 * seed))
    rows["quantile_paper_setting"] = [each | {"protocol": "paper"} for each in rows["quantile"]]
    rows["timing"] = [
        row(
            split="",
            method=method,
            metric="ms per batch",
            value=cost * count**power,
            settings=json.dumps({"revenues": count, "rows": 64, "x": treatment}),
        )
        for method, cost in (("MM", 1.0), ("GCM", 3.0))
        for treatment, power in (("one by one", 1.0), ("cached", 0.1))
        for count in (1, 2, 4, 16)
    ]
    rows["checks"] = [
        row(dataset=name, variant="published", method=method, metric=task.metric, value=0.7)
        for method in CHECKS
        for name, task in TASKS.items()
    ]
    for name, lines in rows.items():
        write(folder, name, lines)


def write(folder, name, rows):
    pd.DataFrame(rows, columns=COLUMNS).to_csv(folder / f"{name}.csv", index=False)


def text_of(folder):
    return report.report(report.read(folder))


def section(text, title):
    return text.split(f"## {title}")[1].split("\n## ")[0]


def test_the_report_is_of_one_device_but_for_the_times(tmp_path):
    every_file(tmp_path)
    text = text_of(tmp_path)
    for name in ("public_published", "timing"):
        rows = pd.read_csv(tmp_path / f"{name}.csv")
        write(tmp_path, name, pd.concat([rows, rows.assign(device="cuda", value=0.4321)]))
    both = text_of(tmp_path)
    title = "4. Public data sets, published protocol (Table 3)"
    assert section(both, title) == section(text, title)
    assert "### Device: cuda" in both
    other = report.read(tmp_path, "cuda")
    assert set(other) == {"public_published", "timing"}
    assert other["public_published"]["value"].eq(0.4321).all()


def test_the_checks_stand_under_the_published_protocol(tmp_path):
    every_file(tmp_path)
    title = "4. Public data sets, published protocol (Table 3)"
    checks = section(text_of(tmp_path), title).split("### Checks")[1].split("###")[0]
    lines = [line.split(" | ") for line in checks.splitlines() if "0.7000" in line]
    assert [line[0] for line in lines] == [f"| {method}" for method in sorted(CHECKS)]
    assert all(len(line) == 1 + len(TASKS) for line in lines)
    (tmp_path / "checks.csv").unlink()
    assert "Not run yet: `python -m reproduce checks`." in section(text_of(tmp_path), title)


def test_report_is_the_same_twice_and_in_any_order_of_rows(tmp_path):
    every_file(tmp_path)
    text, results = text_of(tmp_path), report.read(tmp_path)
    assert text_of(tmp_path) == text
    for file in tmp_path.glob("*.csv"):
        table = pd.read_csv(file, keep_default_na=False, dtype=str)
        table.sample(frac=1.0, random_state=1).to_csv(file, index=False)
    assert text_of(tmp_path) == text
    for name, table in report.read(tmp_path).items():
        pd.testing.assert_frame_equal(table, results[name])


def test_absent_files_say_which_command_makes_them(tmp_path):
    text = text_of(tmp_path)
    for command in (
        "datasets", "quantile --tune", "quantile --setting paper", "public --tune",
        "public --protocol published", "ablation", "timing", "open --tune",
    ):  # fmt: skip
        assert f"Not run yet: `python -m reproduce {command}`." in text
    assert f"`public_held-out.csv`: none of {report.PLAN['public_held-out']} fits yet." in text
    assert ".png" not in text


def test_diverged_fits_are_counted_in_the_summary_and_the_cell(tmp_path):
    every_file(tmp_path)
    rows = pd.read_csv(tmp_path / "public_held-out.csv").to_dict("records")
    lost = {"dataset": "adult", "method": "MM", "seed": 1}
    rows = [each for each in rows if any(each[name] != value for name, value in lost.items())]
    write(tmp_path, "public_held-out", [*rows, row(**lost, split="1", value=math.nan)])
    text = text_of(tmp_path)
    planned = report.PLAN["public_held-out"]
    assert f"`public_held-out.csv`: 72 of {planned} fits, 1 diverged." in text
    assert "(n = 2, 1 diverged)" in section(text, "5. Public data sets, held-out")


def test_the_stand_in_is_not_in_the_column_of_the_paper(tmp_path):
    every_file(tmp_path)
    rows = pd.read_csv(tmp_path / "public_published.csv")
    rows.loc[rows["dataset"] == "loan_psds", "value"] = 0.123456
    write(tmp_path, "public_published", rows)
    shown = section(text_of(tmp_path), "4. Public data sets, published protocol (Table 3)")
    lines = shown.splitlines()
    header = next(line.split(" | ") for line in lines if "Loan Defaulter, ACC" in line)
    column = header.index("Loan Defaulter, ACC")
    table = [line.split(" | ") for line in lines if line.count(" | ") == len(header) - 1]
    ours = {cells[column] for cells in table if cells[1] == "ours"}
    assert ours == {"not run: needs the Zenodo file"}
    assert not any("0.1235" in cell for cells in table for cell in cells)
    assert next(line for line in lines if "0.1235" in line).startswith("| MM | **0.1235")
    paper = {cells[column].strip("*") for cells in table if cells[1] == "paper"}
    assert "0.6528 ± 0.0004" in paper
    assert "Loan (stand-in)**" not in shown.split("### Where they do not meet")[1]


def test_cells_of_the_paper_show_its_numbers_and_whether_the_intervals_meet(tmp_path):
    paper = pd.DataFrame([{"method": "GCM", "dataset": "Adult", "value": 0.7844, "ci95": 0.0025}])
    for value, verdict in ((0.7840, "meet"), (0.7000, "**apart**")):
        rows = [
            row(seed=seed, method="GCM (literal)", value=value + 1e-4 * seed) for seed in range(3)
        ]
        text = report_tables.published_table(pd.DataFrame(rows), paper)
        lines = [line.split(" | ") for line in text.splitlines()]
        start = next(at for at, cells in enumerate(lines) if "GCM (literal)" in cells[0])
        assert lines[start + 1][1:3] == ["paper", "**0.7844 ± 0.0025**"]
        assert lines[start + 2][1:3] == ["intervals", verdict]


def test_every_data_set_of_the_paper_has_a_finding():
    assert set(FINDINGS) == {name for name, task in TASKS.items() if not task.stand_in}


def test_summary_names_the_first_and_the_places(tmp_path):
    every_file(tmp_path)
    text = section(text_of(tmp_path), "1. Summary")
    assert "Adult, held-out, 3 splits: GCM (literal) is first" in text
    assert "GCM is in place 3 of 4" in text
    assert "Blog Feedback, held-out, 3 splits: MM is first" in text
    assert "tuned: GCM has the smallest error at 5 of 5 levels" in text


def test_confirmation_compares_with_the_method_that_was_first_before(tmp_path):
    every_file(tmp_path)  # GCM (literal) is first on Adult, IGCM second, GCM third
    means = {"MM": 0.95, "GCM": 0.9, "GCM (literal)": 0.8, "IGCM": 0.6}
    rows = [
        row(**{"protocol": "confirmation", "split": str(n), "seed": n, "method": m, "value": v})
        for m, mean in means.items()
        for n, v in ((10, mean), (11, mean + 0.01 * (m == "GCM")))
    ]
    write(tmp_path, "public_confirmation", rows)
    text = text_of(tmp_path)
    assert "Adult, held-out, 2 further splits: MM is first with AUC 0.95" in text
    assert "Adult, held-out, 3 splits: GCM (literal) is first" in text
    shown = text.split("### Confirmation on further splits")[1].split("###")[0]
    lines = [line.strip("| ").split(" | ") for line in shown.splitlines() if "| Adult" in line]
    assert [line[1:4] for line in lines] == [
        ["GCM", "3 of 4", "2 of 4"], ["GCM (literal)", "1 of 4", "3 of 4"],
        ["IGCM", "2 of 4", "4 of 4"],
    ]  # fmt: skip
    # Differences 0.10 and 0.11, better: their variance times 1/2 + 1/4.
    half = stats.t.ppf(0.975, 1) * math.sqrt(0.75 * np.var([0.10, 0.11], ddof=1))
    assert lines[0][5:] == [f"-0.1050 ± {half:.4f}"]
    assert lines[2][5:] == ["0.2000 ± 0.0000"]
    assert lines[1][-1] == "was first"


def test_the_ablation_says_what_a_larger_size_brings(tmp_path):
    every_file(tmp_path)
    told = section(text_of(tmp_path), "6. Ablation (Tables 6 and 7)")
    assert told.count("D = 8 minus D = 4, over all cells: +0.0040 ± 0.0000.") == 2


def test_timing_says_from_which_number_of_revenues_on(tmp_path):
    every_file(tmp_path)
    text = section(text_of(tmp_path), "7. Time (Table 8)")
    assert "GCM cached is faster than MM one by one from R = 4 on, MM cached never." in text
    assert "In the paper GCM is faster than MM from R = 32 on" in text


def test_two_settings_for_one_fit_are_refused(tmp_path):
    write(tmp_path, "public_held-out", [row(), row(settings='{"hidden": 16}')])
    with pytest.raises(ValueError, match="GCM on adult, seed 0 has two settings, expected one"):
        report.read(tmp_path)


def test_every_figure_that_the_report_names_is_drawn(tmp_path):
    every_file(tmp_path)
    (tmp_path / "quantile_curves").mkdir()
    for method in ("MM", "GCM"):
        curves = [{"method": method, "step": 0, "r": r, "-1.00": r, "1.00": r} for r in (0.1, 0.9)]
        pd.DataFrame(curves).to_csv(tmp_path / "quantile_curves" / f"{method}.csv", index=False)
    parser = argparse.ArgumentParser()
    report.add_arguments(parser)
    report.main(parser.parse_args(["--results", str(tmp_path), "--output", str(tmp_path)]))
    text = (tmp_path / "REPORT.md").read_text(encoding="utf-8")
    named = {part.split(")")[0] for part in text.split("](")[1:]}
    drawn = {f"figures/{file.name}" for file in (tmp_path / "figures").iterdir()}
    assert named == drawn
    assert len(drawn) == 4


def test_quantile_figures_show_gcm_beside_four_others():
    curves = pd.DataFrame({"method": ["MM", "A", "B", "C", "D", "GCM"]})
    groups = list(report_figures.curve_groups(curves).values())
    assert groups == [["MM", "A", "B", "C", "GCM"], ["D", "GCM"]]
