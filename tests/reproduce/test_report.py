"""The report: its text from made-up results, and the template from the committed ones."""

import json
import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from toys import options, row, table

from reproduce import drawing, quoted, report, tables
from reproduce.methods import methods_of
from reproduce.released import Z_DIM
from reproduce.results import RESULTS
from reproduce.runs import COLUMNS
from reproduce.tasks import TASKS


def every_file(folder, seeds=3):
    """One small file of most kinds of results."""
    rng = np.random.default_rng(0)
    names = ("public_held-out", "public_published", "quantile", "ablation", "open")
    rows = {name: [] for name in names}
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
                    more = {"variant": "published", "split": "fixed", "metric": metric}
                    more["value"] = value
                    rows["public_published"].append(row(**same, **more))
            for level in (0.1, 0.3, 0.5, 0.7, 0.9):
                error = 0.1 + 0.01 * abs(place - 1) + level / 9
                more = {"dataset": "simulation", "protocol": "tuned", "split": "", "seed": seed}
                metric = f"MAE r={level}"
                rows["quantile"].append(row(**more, method=method, metric=metric, value=error))
        for variant in ("published", "default"):
            for size in (4, 8):
                settings = json.dumps({"z_dim": size, "num_particles": 8})
                cell = {"variant": variant, "split": "fixed", "seed": seed, "settings": settings}
                rows["ablation"].append(row(**cell, value=0.78 + 0.001 * size + 1e-4 * seed))
    rows["quantile_paper_setting"] = [each | {"protocol": "paper"} for each in rows["quantile"]]
    rows["timing"] = [
        row(
            split="", method=method, metric="ms per batch", value=cost,
            settings=json.dumps({"revenues": 1024, "rows": 64, "x": treatment}),
        )
        for method, cost in (("MM", 1.0), ("GCM", 3.0))
        for treatment in ("one by one", "cached")
    ]  # fmt: skip
    rows["checks"] = [
        row(
            dataset=name, variant="published", split="fixed", method=method, metric=task.metric,
            value=0.7,
        )
        for method in methods_of("checks")
        for name, task in TASKS.items()
    ]  # fmt: skip
    for name, lines in rows.items():
        write(folder, name, lines)


def write(folder, name, rows):
    pd.DataFrame(rows, columns=COLUMNS).to_csv(folder / f"{name}.csv", index=False)


def text_of(folder):
    return report.report(report.read(folder))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    every_file(folder)
    return folder, text_of(folder)


@pytest.fixture
def filled(made, tmp_path):
    """The report of small results, which are put into `tmp_path`."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return made[1]


def section(text, title):
    return text.split(f"## {title}")[1].split("\n## ")[0]


@pytest.mark.long(keep=0)
def test_the_committed_report_is_complete_and_of_the_committed_results(tmp_path):
    results = report.read(RESULTS)
    text = report.report(results)
    assert text == (RESULTS.parent / "REPORT.md").read_text(encoding="utf-8")
    assert "{{" not in text
    assert "Not run" not in text
    assert "(not run)" not in text
    assert "Not complete" not in text
    assert not re.search(r"\bnan\b", text)
    named = {part.split(")")[0] for part in text.split("](figures/")[1:]}
    assert named == {file.name for file in (RESULTS.parent / "figures").iterdir()}
    commands = {command for command, _ in report.FILES.values()}
    assert all(f"`{command}`" in text for command in commands)
    assert all(task.title in text for task in TASKS.values())
    for name in results:
        if name not in ("datasets", "soak", "timing", "quantile_curves"):
            count, diverged = report._fits(results, name)
            planned = report.FILES[name][1]
            assert count == planned or (name in report.GROWING and count < planned), name
            assert diverged == 0


def test_the_report_starts_with_a_verdict_on_every_claim_and_a_map_of_the_paper():
    text = report.TEMPLATE.read_text(encoding="utf-8")
    titles = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert titles[:2] == ["Verdict", "Where everything in the paper is"]
    verdicts = re.findall(r"^\| \d+ \|.*?\| \*\*(.*?)\*\*", section(text, "Verdict"), re.MULTILINE)
    known = ("holds", "holds in part", "holds with its code", "holds in its code only")
    known += ("holds in part, in its code only", "holds for one revenue only", "does not hold")
    known += ("holds in part, with ours",)
    assert len(verdicts) == 12
    assert set(verdicts) == set(known)
    places = section(text, "Where everything in the paper is")
    for number in (1, 2, 3, 5, 6, 8):
        assert re.search(rf"\| (Tables? .*{number}|Tables 6 and 7)", places)
    assert all(f"Figure {number}" in places for number in (3, 6))


@pytest.mark.long(keep=0)
def test_the_report_is_of_one_device_but_for_the_times(tmp_path, filled):
    for name in ("public_published", "timing"):
        rows = pd.read_csv(tmp_path / f"{name}.csv")
        write(tmp_path, name, pd.concat([rows, rows.assign(device="cuda", value=0.4321)]))
    both = text_of(tmp_path)
    title = "3. Public data sets (Table 3)"
    assert section(both, title) == section(filled, title)
    assert "Device: cuda" in both
    other = report.read(tmp_path, "cuda")
    assert set(other) == {"public_published", "timing"}
    assert other["public_published"]["value"].eq(0.4321).all()


@pytest.mark.long(keep=0)
def test_report_is_the_same_twice_and_in_any_order_of_rows(tmp_path, filled):
    results = report.read(tmp_path)
    assert text_of(tmp_path) == filled
    for file in tmp_path.glob("*.csv"):
        rows = pd.read_csv(file, keep_default_na=False, dtype=str)
        rows.sample(frac=1.0, random_state=1).to_csv(file, index=False)
    assert text_of(tmp_path) == filled
    for name, rows in report.read(tmp_path).items():
        pd.testing.assert_frame_equal(rows, results[name])


def test_absent_files_say_which_command_makes_them(tmp_path):
    text = text_of(tmp_path)
    for command, _ in report.FILES.values():
        assert f"Not run yet: `python -m reproduce {command}`." in text
    assert "**Not complete: " in text
    assert "(not run)" in section(text, "Verdict")
    planned = report.FILES["public_held-out"][1]
    assert f"| `public_held-out.csv` | `public --tune` | 0 of {planned} | 0 |" in text
    assert ".png" not in text


def test_quick_and_partial_results_are_told(tmp_path, filled):
    quick = [row(split="10", settings='{"epochs":1,"rows":200}')]
    write(tmp_path, "public_confirmation", quick)
    head = text_of(tmp_path).split("## Verdict")[0]
    assert "**Fits of `--quick`, whose scores mean nothing: `public_confirmation.csv`.**" in head
    assert "Not complete: `quantile_tuning.csv`, `quantile.csv`" in head
    assert "`timing.csv`" not in head


@pytest.mark.long(keep=0)
def test_diverged_fits_are_counted_in_the_files_and_the_cell(tmp_path, filled):
    rows = pd.read_csv(tmp_path / "public_held-out.csv").to_dict("records")
    lost = {"dataset": "adult", "method": "MM", "seed": 1}
    rows = [each for each in rows if any(each[name] != value for name, value in lost.items())]
    write(tmp_path, "public_held-out", [*rows, row(**lost, split="1", value=math.nan)])
    text = text_of(tmp_path)
    planned = report.FILES["public_held-out"][1]
    assert f"| `public --tune` | 72 of {planned} | 1 |" in text
    assert "(n = 2, 1 diverged)" in section(text, "Appendix A. Held-out tables")


def test_the_stand_in_is_not_beside_the_paper(tmp_path, filled):
    rows = report.read(tmp_path)["public_published"]
    rows.loc[rows["dataset"] == "loan_psds", "value"] = 0.123456
    assert "0.1235" not in tables.published(rows)
    assert "Loan" not in tables.published(rows)
    lines = tables.stand_ins(rows).splitlines()
    assert lines[0] == "| Method | Loan (stand-in), accuracy |"
    assert lines[2].startswith("| MM | **0.1235")


@pytest.mark.parametrize(("value", "mark"), [(0.7840, ""), (0.7000, "†")])
def test_cells_of_the_paper_show_its_numbers_and_whether_the_intervals_meet(value, mark):
    # The paper: GCM on Adult 0.7844 ± 0.0025.
    values = [value, value + 1e-4, value + 2e-4]
    found = tables.published(table({("GCM (literal)", "AUC"): values})).splitlines()
    assert len(found) == 4
    assert found[2].startswith(f"| GCM (literal) | ours | **{value + 1e-4:.4f} ± 0.0002**{mark} |")
    assert found[3].startswith("|  | paper | 0.7844 ± 0.0025 |")


def test_standings_compare_with_the_method_that_was_first_before():
    before = table({("GCM (literal)", "AUC"): [0.9] * 2, ("GCM", "AUC"): [0.8] * 2})
    means = {"MM": 0.95, "GCM": 0.9, "GCM (literal)": 0.8, "IGCM": 0.6}
    cells = {(m, "AUC"): [mean, mean + 0.01 * (m == "GCM")] for m, mean in means.items()}
    line = tables.standings(table(cells), before, "GCM", "IGCM", "PWL").splitlines()[2]
    title, first, gcm, igcm, pwl = line.strip("| ").split(" | ")
    assert title == "Adult, AUC"
    assert first == "GCM (literal): 0.8000 ± 0.0000, place 3 of 4"
    # Differences 0.10 and 0.11, better: their variance times 1/2 + 1/4.
    half = stats.t.ppf(0.975, 1) * math.sqrt(0.75 * np.var([0.10, 0.11], ddof=1))
    assert gcm.endswith(f"place 2 of 4, behind -0.1050 ± {half:.4f}*")
    assert igcm.endswith("place 4 of 4, behind 0.2000 ± 0.0000*")
    assert pwl == "not run"


def test_tables_of_a_search_that_is_not_complete_say_what_is_missing(tmp_path):
    runs = [("LightGBM", "adult", 0.80, 4), ("Members", "adult", 0.81, 4), ("GCM", "adult", 0.9, 2)]
    runs += [("LightGBM", "auto_mpg", 2.5, 3)]
    rows = [
        row(experiment="search", dataset=name, method=method, split=str(split), seed=split,
            metric=TASKS[name].metric if name == "auto_mpg" else "AUC", value=value + 0.001 * split)
        for method, name, value, splits in runs
        for split in range(splits)
    ]  # fmt: skip
    for name in ("adult", "auto_mpg"):
        write(tmp_path, f"search_{name}", [fit for fit in rows if fit["dataset"] == name])
    found = section(text_of(tmp_path), "9. Search of thirty trials")
    means, differences = (part.split("\n\n")[0] for part in found.split("| Method |")[1:3])
    assert means.splitlines() == [
        " Adult, AUC | Auto MPG, RMSE |",
        "| --- | ---: | ---: |",
        "| Members | **0.8115** | not run |",
        "| GCM | 0.9005 (n = 2) | not run |",
        "| LightGBM | 0.8015 | **2.501** |",
    ]
    assert [line.split("|")[1].strip() for line in differences.splitlines()[2:]] == [
        "GCM",
        "LightGBM",
    ]
    assert "not run |" in differences
    log_scores = found.split("Log score in nats")[1]
    assert log_scores.split("\n\n")[1:4:2] == ["Not run."] * 2
    planned = report.FILES["search_adult"][1]
    assert f"| `search_adult.csv` | `search` | 10 of {planned} | 0 |" in text_of(tmp_path)


def test_an_untouched_data_set_without_fits_is_told(tmp_path):
    rows = [
        row(experiment="untouched", dataset="fair", method=method, split=str(split), seed=split,
            value=value + 0.001 * split, settings="{}")
        for method, value in (("Members", 0.7), ("LightGBM", 0.6))
        for split in range(2)
    ]  # fmt: skip
    write(tmp_path, "untouched", rows)
    found = section(text_of(tmp_path), "10. Eight untouched data sets")
    assert "Affairs (`fair`): 6,366 rows" in found
    assert "| Members | **0.7005 " in found
    assert "Doctor visits (`randhie`): not run." in found


def test_an_ablation_of_one_data_set_says_that_the_other_was_not_run(tmp_path):
    rows = [
        row(experiment="members_ablation", dataset="adult", method=method, metric=metric,
            split=str(split), seed=split, value=0.5 + 0.01 * split, settings="{}")
        for method in ("default", "members: K = 1")
        for metric in ("AUC", "log score")
        for split in range(2)
    ]  # fmt: skip
    write(tmp_path, "members_ablation", rows)
    found = section(text_of(tmp_path), "9. Search of thirty trials")
    adult, auto_mpg = found.split("### What members are made of")[1].split("Auto MPG:")
    assert "| members | K = 1 | 0.0000" in adult
    assert auto_mpg.strip() == "Not run."


def test_two_settings_for_one_fit_are_refused(tmp_path):
    write(tmp_path, "public_held-out", [row(), row(settings='{"hidden": 16}')])
    with pytest.raises(ValueError, match="GCM on adult, seed 0 has two settings, expected one"):
        report.read(tmp_path)


@pytest.mark.parametrize("name", ["public_published", "checks", "ablation"])
def test_rows_of_a_former_split_are_refused(tmp_path, name):
    settings = json.dumps({"z_dim": 4, "num_particles": 8})
    rows = [row(split=split, settings=settings) for split in ("fixed", "0")]
    write(tmp_path, name, rows)
    with pytest.raises(ValueError, match="GCM on adult, seed 0 has the split 0, expected 'fixed'"):
        report.read(tmp_path)


def test_quick_fits_beside_those_of_the_released_table_are_refused(tmp_path):
    shared = {"dataset": "auto_mpg", "split": "fixed", "metric": "RMSE"}
    rows = [row(**shared, method="MM", settings=text) for text in ("{}", '{"rows": 200}')]
    write(tmp_path, "public_released", rows)
    with pytest.raises(ValueError, match="MM on auto_mpg, seed 0 has two settings"):
        report.read(tmp_path)
    own = [json.dumps({"loss_type": kind, "z_dim": Z_DIM}) for kind in (0, 1)]
    write(tmp_path, "public_released", [row(**shared, settings=text) for text in own])
    assert len(report.read(tmp_path)["public_released"]) == 2


@pytest.mark.long(keep=0)
def test_every_figure_that_the_report_names_is_drawn(tmp_path, filled):
    (tmp_path / "quantile_curves").mkdir()
    for method in ("MM", "GCM"):
        shutil.copy(RESULTS / "quantile_curves" / f"{method}.csv", tmp_path / "quantile_curves")
    report.main(options(report, tmp_path, "--results", str(tmp_path)))
    text = (tmp_path / "REPORT.md").read_text(encoding="utf-8")
    named = set(re.findall(r"!\[[^]]*\]\(([^)]+)\)", text))
    drawn = {f"figures/{file.name}" for file in (tmp_path / "figures").iterdir()}
    assert named == drawn == {"figures/held_out.png", "figures/quantile_curves_1.png"}


@pytest.mark.parametrize(("name", "gcm", "igcm"), [("adult", 2, 1), ("auto_mpg", 5, 3)])
def test_places_go_by_the_metric(name, gcm, igcm):
    strict = {"PosNN": 0.85, "MM": 0.84, "SMM": 0.83, "CMNN": 0.90, "SMNN": 0.82, "GCM": 0.86}
    means = strict | {"Hint": 0.80, "PWL": 0.81, "IGCM": 0.88}
    cells = {(method, TASKS[name].metric): [mean] for method, mean in means.items()}
    found = table(cells, dataset=name)
    expected = ", ".join("{}" if other == name else "–" for other in TASKS)
    assert quoted.place(found, "GCM") == expected.format(gcm)
    assert quoted.place(found, "IGCM") == expected.format(igcm)
    assert quoted.ahead(found) == ("1 of 1" if name == "adult" else "0 of 1")


def test_figures_of_curves_show_gcm_beside_four_others():
    groups = list(drawing.curve_groups(["MM", "A", "B", "C", "D", "GCM"]).values())
    assert groups == [["MM", "A", "B", "C", "GCM"], ["D", "GCM"]]


def rows_of(**metrics):
    return table({("GCM", name): values for name, values in metrics.items()})


#: The paper: GCM 0.7844, PosNN 0.7597, MM 0.7791.
CLOSE = {"GCM": 0.7744, "PosNN": 0.7697, "MM": 0.7791}
APART = table({(m, "AUC"): [v - 1e-5, v, v + 1e-5] for m, v in CLOSE.items()})
CHOSEN = {"learning_rate": 0.03, "hidden": 64, "weight_decay": 1e-4, "form": "splines"}
ERRORS = {("GCM", "MAE r=0.1"): [0.1, 0.3], ("MM", "MAE r=0.1"): [0.2, 0.21]}
ERRORS |= {("GCM", "MAE r=0.3"): [0.1, 0.3], ("MM", "MAE r=0.3"): [0.1, 0.2]}
RATES = pd.concat(
    table({("IGCM", "violation rate"): values}, dataset=name)
    for name, values in (("adult", [0.1, 0.2]), ("blog", [0.01, 0.01]), ("compas", [0.02]))
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (lambda: tables.averages(rows_of(AUC=[0.9, 0.6, 0.6]), "AUC"), "| GCM | 0.7 |"),
        (
            lambda: tables.averages(rows_of(AUC=[1] * 3).assign(seconds=[1, 7, 2]), "seconds"),
            "| GCM | 2 |",  # the median
        ),
        (
            lambda: tables.settings(rows_of(AUC=[0.8]).assign(settings=json.dumps(CHOSEN))),
            "| GCM | 0.03 / 64 / 0.0001, form splines |",
        ),
        (
            lambda: quoted.apart(APART, "adult"),
            "2 of 3 comparisons have a dagger, and in 1 ours is better; ours minus the paper's AUC "
            "is from -0.0100 to +0.0100.",
        ),
        (lambda: quoted.apart(APART, "compas"), "not run"),
        # COMPAS 0.6945 against 0.6934, Loan Defaulter 0.6528 both.
        (lambda: quoted.ahead(None), "4 of 6"),
        # GCM of the paper among PosNN, MM, SMM, CMNN and SMNN: 0.6945 against MM 0.6976.
        (lambda: quoted.place(None, "GCM"), "1, 2, 1, 3, 1, 2"),
        (lambda: quoted.firsts(table(ERRORS)), "1 of 2"),
        (lambda: quoted.violations(RATES, "IGCM"), "1 to 15 %"),
    ],
    ids=[
        *("mean", "median time", "settings", "apart", "apart, not run", "ahead", "places"),
        *("levels at which GCM is first", "violations"),
    ],
)
def test_numbers_of_the_text_are_those_of_the_results(text, expected):
    assert text().splitlines()[-1] == expected
