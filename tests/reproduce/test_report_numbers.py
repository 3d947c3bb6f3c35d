"""Numbers in the report's sentences and tables, worked out by hand from made-up results."""

import json

import pandas as pd
from made_up_results import row

from reproduce import report_claims, report_sections, report_summary, report_tables
from reproduce.runs import COLUMNS
from reproduce.simulation import LEVELS


def table(cells, **more):
    """Rows of `(method, metric) -> values`, one a seed and split."""
    rows = [
        row(**more, method=method, metric=metric, split=str(at), seed=at, value=value)
        for (method, metric), values in cells.items()
        for at, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def line_of(text, start):
    return next(line for line in text.splitlines() if line.startswith(start))


def test_the_held_out_difference_of_igcm_and_gcm_has_the_corrected_interval():
    # Mean 0.005, deviation 0.00258: ± 0.0041 by the plain interval, ± 0.0058 by the corrected one.
    gaps = (0.002, 0.004, 0.006, 0.008)
    cells = {("GCM", "AUC"): [0.8] * 4, ("IGCM", "AUC"): [0.8 + gap for gap in gaps]}
    claims = report_claims.claims({"public_held-out": table(cells)})
    assert "exclude 0: held-out, nowhere." in claims
    claims = report_claims.claims({"public_published": table(cells, protocol="published")})
    assert "exclude 0: published, ahead on Adult." in claims


def test_comparisons_that_are_apart_are_counted_with_those_that_are_better():
    # The paper: GCM 0.7844, PosNN 0.7597, MM 0.7791.
    means = {"GCM": 0.7744, "PosNN": 0.7697, "MM": 0.7791}
    cells = {(m, "AUC"): [v - 1e-5, v, v + 1e-5] for m, v in means.items()}
    text = report_sections.published({"public_published": table(cells, protocol="published")})
    assert (
        "**Adult**: 2 of 3 comparisons are apart, and in 1 ours is better. Ours minus the paper's "
        "AUC is from -0.0100 to +0.0100." in text
    )


def test_the_gain_of_the_best_epoch_is_a_mean_over_methods():
    cells = {
        ("GCM", "AUC"): [0.80, 0.82], ("GCM", "AUC, last epoch"): [0.79, 0.79],
        ("MM", "AUC"): [0.80, 0.80], ("MM", "AUC, last epoch"): [0.80, 0.80],
    }  # fmt: skip
    text = report_sections.published({"public_published": table(cells, protocol="published")})
    assert "Gain of the best epoch over the last one, mean over methods: Adult 0.0100." in text


def test_the_cells_of_the_ablation_have_their_range_and_mean_interval():
    parts = []
    for size, (low, high) in {4: (0.78, 0.80), 8: (0.81, 0.81)}.items():
        settings = json.dumps({"z_dim": size, "num_particles": 8})
        cells = {("GCM", "AUC"): [low, high]}
        parts.append(table(cells, settings=settings, variant="published"))
    text = report_sections.ablation({"ablation": pd.concat(parts)})
    # Student's t with one degree of freedom: 12.7062 * 0.01 = 0.1271, and 0.
    assert (
        "The cells go from 0.7900 to 0.8100, a range of 0.0200; their intervals are ± 0.0635 on "
        "average." in text
    )


def quantile(errors):
    """Results of `method -> errors by seed`, the same at every level."""
    cells = {(m, f"MAE r={level}"): e for m, e in errors.items() for level in LEVELS}
    return table(cells, experiment="quantile", dataset="simulation")


def test_the_summary_counts_the_levels_at_which_gcm_is_clearly_first():
    results = quantile({"GCM": [0.1, 0.2, 0.3], "MM": [0.2, 0.301, 0.401]})
    text = report_summary.summary({"quantile": results})
    assert "smallest error at 5 of 5 levels; at 5 of them its paired interval" in text
    results = quantile({"GCM": [0.1, 0.2, 0.3], "MM": [0.2, 0.301, 0.401], "PWL": [0.3, 0.1, 0.3]})
    text = report_summary.summary({"quantile": results})
    assert "smallest error at 5 of 5 levels; at 0 of them its paired interval" in text


def test_differences_of_quantile_errors_are_marked_where_they_exclude_zero():
    errors = {"GCM": [0.1, 0.2, 0.3], "MM": [0.2, 0.301, 0.401], "PWL": [0.3, 0.1, 0.3]}
    text = report_tables.quantile_differences(quantile(errors))
    assert line_of(text, "| MM").count("0.1007 ± 0.0014*") == len(LEVELS)
    assert "*" not in line_of(text, "| PWL")


def test_the_papers_quantile_errors_stand_beside_ours():
    paper = pd.DataFrame([{"method": "GCM", "r": r, "mae": r / 10, "ci95": 0.001} for r in LEVELS])
    text = report_tables.quantile_beside_paper(quantile({"GCM": [0.0499, 0.0501]}), paper)
    lines = text.splitlines()
    at = lines.index(line_of(text, "| GCM | ours"))
    wanted = [f"**{level / 10:.4f} ± 0.0010**" for level in LEVELS]
    assert lines[at + 1].strip("| ").split(" | ")[-len(LEVELS) :] == wanted
    # ± 0.0013 at 0.05, so that it meets 0.05 ± 0.001 and no other.
    verdicts = ["**apart**", "**apart**", "meet", "**apart**", "**apart**"]
    assert lines[at + 2].strip("| ").split(" | ")[-len(LEVELS) :] == verdicts


def test_a_ranking_has_the_mean_of_more_metrics_and_the_median_time():
    cells = {("GCM", "AUC"): [0.8, 0.9, 0.7], ("GCM", "violation rate"): [0.1, 0.2, 0.6]}
    results = table(cells)
    results["seconds"] = [1.0, 7.0, 2.0] * 2
    text = report_tables.ranking_table(results, "adult", {"violation rate": "Violations"})
    assert text.splitlines()[2].endswith("| first | 0.3 | 2.0 |")


def test_times_of_the_paper_are_divided_by_those_of_its_gcm():
    parts = [
        table({(method, "ms per batch"): [ms]}, settings=json.dumps({"revenues": 1, "x": x}))
        for method, x, ms in (("GCM", "cached", 2.0), ("MM", "cached", 1.0), ("MM", "at once", 3.0))
    ]
    text = report_sections.timing({"timing": pd.concat(parts)})
    ratios = text.split("Ratio to GCM")[1]
    assert line_of(ratios, "| MM | at once").startswith("| MM | at once | 1.50 |")
    # Table 8 of the paper: MM 1.51 ms and GCM 11.66 ms for one revenue.
    assert line_of(ratios, "| MM | paper").startswith("| MM | paper | 0.13 |")
