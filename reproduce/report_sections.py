"""The sections of the report: sentences around the tables of `reproduce.report_tables`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from statistics import mean

import pandas as pd

from reproduce import report_tables as tables
from reproduce.ablation import with_sizes
from reproduce.findings import EVERYWHERE, FINDINGS, FORMS, OPEN_TRACK, STAND_IN
from reproduce.report_figures import curve_groups
from reproduce.report_statistics import (
    Interval,
    faster_from,
    largest_contrast,
    mean_interval,
    meet,
    paired_interval,
    samples,
)
from reproduce.tasks import PAPER, TASKS
from reproduce.timing import TIMED, by_revenues

#: File of results -> the command that makes it.
COMMANDS = {
    "datasets": "datasets",
    "quantile_tuning": "quantile --tune",
    "quantile": "quantile --tune",
    "quantile_paper_setting": "quantile --setting paper",
    "public_published": "public --protocol published",
    "checks": "checks",
    "public_tuning": "public --tune",
    "public_held-out": "public --tune",
    "public_confirmation": "public --protocol confirmation",
    "ablation": "ablation",
    "timing": "timing",
    "open_tuning": "open --tune",
    "open": "open --tune",
}
TREATMENTS = ("one by one", "at once", "cached")
#: Tables of results by the name of their file.
Results = Mapping[str, pd.DataFrame]


def not_run(name: str) -> str:
    """What stands where the table of a file should be."""
    return f"Not run yet: `python -m reproduce {COMMANDS[name]}`."


def data_sets(results: Results) -> str:
    """Section 2."""
    if "datasets" not in results:
        return not_run("datasets")
    return (
        "The published variant is built to have the paper's rows and columns; the default one has "
        f"the right labels and columns.\n\n{tables.datasets_table(results['datasets'])}"
    )


def quantile(results: Results) -> str:
    """Section 3."""
    parts = [
        "Mean absolute error of the predicted quantile on 1,000 new rows, lower is better; one fit "
        "a seed, each with its own training data.",
        "### Tuned",
    ]
    if "quantile" in results:
        table = results["quantile"]
        parts += [
            f"Every method at the best of its six settings, chosen on rows of another seed; "
            f"{table['seed'].nunique()} seeds. GCM takes the level through Phi^-1, its default for "
            "levels, in which the true quantiles of these data are straight lines; the others take "
            "the level as it is, as in the paper.",
            tables.quantile_table(table),
            "Paired difference, method minus GCM on the same seeds: positive where GCM has the "
            "smaller error, * where the interval excludes 0.",
            tables.quantile_differences(table),
            "Chosen settings:",
            tables.settings_table(table),
        ]
    else:
        parts.append(not_run("quantile"))
    if "quantile_curves" in results:
        parts.append("Curves over training, seed 0, GCM in every figure:")
        parts += [
            f"![Quantile curves of {', '.join(group)}](figures/{name})"
            for name, group in curve_groups(results["quantile_curves"]).items()
        ]
    parts.append("### The paper's setting")
    if "quantile_paper_setting" in results:
        paper = pd.read_csv(PAPER / "quantile_mae.csv")
        parts += [
            "Plain SGD; the paper gives no learning rate, ours is 0.1 for every method. GCM has "
            "its identity map of the level.",
            tables.quantile_beside_paper(results["quantile_paper_setting"], paper),
            "Where the intervals are apart we do not know why: the paper does not say its learning "
            "rate, and the baselines here are the paper's forms as far as they could be read. SMNN "
            "is slow from its published start, here as on the data sets of section 4.",
        ]
    else:
        parts.append(not_run("quantile_paper_setting"))
    return "\n\n".join(parts)


def published(results: Results) -> str:
    """Section 4."""
    if "public_published" not in results:
        return not_run("public_published")
    table, paper = results["public_published"], pd.read_csv(PAPER / "public_datasets.csv")
    parts = [
        "**The epoch is the best one on the test rows, and there is one split** (the fixed one of "
        "the literature where there is one, or else one random split). As far as can be read, the "
        "published numbers were made in this way. The intervals are over "
        f"{table['seed'].nunique()} seeds on that split, and say nothing of other splits. Settings "
        "are those of the paper's Table 5 for every method; for RMSE, where it is silent, GCM and "
        "IGCM have one spread for all rows and the mean over z outside the logarithm (appendix "
        "D.3), but for the paper's loss of IGCM. GCM (literal) stands beside the "
        "paper's GCM and IGCM (paper loss) beside its IGCM.",
        tables.published_table(table, paper),
        _best_epoch(table),
    ]
    if any(TASKS[name].stand_in for name in set(table["dataset"]) if name in TASKS):
        parts += [
            "The stand-in for Loan Defaulter is another set of real loans. Its numbers cannot be "
            "compared with the paper's. " + STAND_IN,
            tables.stand_in_table(table),
        ]
    checks = tables.checks_table(results["checks"]) if "checks" in results else not_run("checks")
    parts += [
        "### Checks",
        "Logistic or least-squares regression and untuned monotone boosting (scikit-learn) on the "
        "same split, of all inputs and of the revenues alone. No epoch is chosen on the test rows. "
        "Boosting draws only above 10,000 rows, where it stops early: intervals are over seeds.",
        checks,
    ]
    counted = (
        "The paper's cells of GCM and of IGCM are compared twice, with the default objective and "
        "with the literal or the paper's loss: 11 comparisons with 9 cells."
    )
    return "\n\n".join(
        [*parts, "### Where they do not meet", counted, EVERYWHERE, *_apart(table, paper)]
    )


def _best_epoch(table: pd.DataFrame) -> str:
    gains = []
    for name, task in TASKS.items():
        rows = table[table["dataset"] == name]
        best = samples(rows[rows["metric"] == task.metric], "method")
        last = samples(rows[rows["metric"] == f"{task.metric}, last epoch"], "method")
        differences = [paired_interval(best[m], last[m]).mean for m in best if m in last]
        finite = [abs(difference) for difference in differences if not math.isnan(difference)]
        if finite:
            gains.append(f"{task.title} {mean(finite):.4f}")
    return f"Gain of the best epoch over the last one, mean over methods: {', '.join(gains)}."


def _apart(table: pd.DataFrame, paper: pd.DataFrame) -> list[str]:
    ours, theirs = tables.published_intervals(table), tables.paper_intervals(paper)
    sentences = []
    for name, task in TASKS.items():
        pairs = [
            (interval, theirs[beside, task.title])
            for method, beside in tables.PAPER_METHODS.items()
            if (interval := ours.get((method, task.title)))
        ]
        verdicts = [meet(*pair) for pair in pairs]
        apart = verdicts.count(False)
        if not apart:
            continue
        gaps = [our.mean - their.mean for our, their in pairs if not math.isnan(our.mean)]
        better = sum(gap < 0 if task.metric == "RMSE" else gap > 0 for gap in gaps)
        sentences.append(
            f"**{task.title}**: {apart} of {len(pairs)} comparisons are apart, and in {better} "
            f"ours is better. Ours minus the paper's {task.metric} is from {min(gaps):+.4f} to "
            f"{max(gaps):+.4f}. {FINDINGS[name]}"
        )
    return sentences or ["No cell with two intervals is apart."]


def held_out(results: Results) -> str:
    """Section 5."""
    if "public_held-out" not in results:
        return not_run("public_held-out")
    table = results["public_held-out"]
    parts = [
        f"{table['split'].nunique()} random 4:1 splits, the same for every method. The epoch is "
        "chosen on a tenth of a split's training rows; the settings, one of six for every method, "
        "once for all splits on training rows of the first split (at most 20,000), so that on the "
        "others this one choice has seen some of their test rows. The test parts of random splits "
        "overlap, so the interval of the difference to the first is the corrected resampled one of "
        "Nadeau and Bengio (2003); the interval of the mean is the plain one and too narrow to "
        "compare methods with. Positive differences are worse. Violations: share of random pairs "
        "of revenues, from one rounding step to the whole range apart, at which the prediction "
        "falls by more than rounding, in float64; as the closest pairs differ by less than that, "
        "it stays below 1 even for a function that falls everywhere.",
        *FORMS,
        "![Behind the first, by data set](figures/held_out.png)",
        *_rankings(table, {"violation rate": "Violations"}),
        "### Confirmation on further splits",
        _confirmation(results),
        "### AUC, log score and calibration",
        *_of_the_distribution(table),
        "### Chosen settings",
        tables.settings_table(table),
    ]
    return "\n\n".join(parts)


def _of_the_distribution(table: pd.DataFrame) -> list[str]:
    """What tells methods apart where accuracy and RMSE do not."""
    return [
        "These tell methods apart where accuracy does not. * where the corrected interval of the "
        "paired difference to the first of the column excludes 0. AUC, higher is better:",
        tables.metric_table(table, "AUC", lower_is_better=False),
        "Log score in nats a row, higher is better:",
        tables.metric_table(table, "log score", lower_is_better=False),
        "Calibration error, of the probability or of the levels of a continuous y, lower is "
        "better:",
        tables.metric_table(table, "calibration error", lower_is_better=True),
    ]


def _confirmation(results: Results) -> str:
    if "public_confirmation" not in results:
        return not_run("public_confirmation")
    table, before = results["public_confirmation"], results["public_held-out"]
    return (
        f"The same methods and settings on {table['split'].nunique()} further random splits, which "
        "had not been looked at when forms and settings were chosen. They are of the same rows: "
        "about nine tenths of their test rows (1 - 0.8^10) were test rows of a split above, so "
        "that this guards against luck with splits, not with rows. Differences are to the method "
        "that is first above, named beforehand, with intervals as above.\n\n"
        f"{tables.confirmation_table(table, before)}"
    )


def open_track(results: Results) -> str:
    """Section 8."""
    if "open" not in results:
        return not_run("open")
    parts = [
        *OPEN_TRACK,
        *_rankings(results["open"], {}),
        "### AUC, log score and calibration of the open track",
        *_of_the_distribution(results["open"]),
        "### Chosen settings of the open track",
        tables.settings_table(results["open"]),
    ]
    return "\n\n".join(parts)


def _rankings(table: pd.DataFrame, extra: Mapping[str, str]) -> list[str]:
    parts = []
    for name, task in TASKS.items():
        if name in set(table["dataset"]):
            parts += [f"### {task.title}", tables.ranking_table(table, name, extra)]
    return parts


def ablation(results: Results) -> str:
    """Section 6."""
    if "ablation" not in results:
        return not_run("ablation")
    table = with_sizes(results["ablation"])
    paper = pd.read_csv(PAPER / "ablation_adult.csv")
    parts = [
        "AUC on Adult, best epoch on the test rows of one split, intervals over seeds; D is the "
        "latent dimension and N the sample number. The paper's label is the published one, so its "
        "numbers stand beside that one only.",
        "![Every cell with its interval](figures/ablation.png)",
    ]
    for variant in sorted(set(table["variant"]), reverse=True):
        rows = table[table["variant"] == variant]
        beside = paper if variant == "published" else None
        for method in tables.known_first(rows["method"]):
            parts += [
                f"### {method}, label {variant}",
                tables.ablation_table(rows, beside, method),
                _spread(rows[rows["method"] == method]),
            ]
            if beside is not None:
                theirs = list(tables.paper_ablation(paper, method).values())
                parts.append(f"In the paper the cells {_range(theirs)}.")
    return "\n\n".join(parts)


def _range(cells: list[Interval]) -> str:
    means = [cell.mean for cell in cells if not math.isnan(cell.mean)]
    halves = [cell.half for cell in cells if not math.isnan(cell.half)]
    text = f"go from {min(means):.4f} to {max(means):.4f}, a range of {max(means) - min(means):.4f}"
    return f"{text}; their intervals are ± {mean(halves):.4f} on average" if halves else text


def _spread(rows: pd.DataFrame) -> str:
    values = samples(rows, ["N", "D"])
    text = f"The cells {_range([mean_interval(each) for each in values.values()])}."
    if len(values) < 2:
        return text
    high, low, contrast = largest_contrast(values)
    half = "" if math.isnan(contrast.half) else f" ± {contrast.half:.4f}"
    ends = " ".join(_ends(rows, name) for name in ("N", "D"))
    return (
        f"{text} {ends} The largest paired contrast is N = {high[0]}, D = {high[1]} minus "
        f"N = {low[0]}, D = {low[1]}: {contrast.mean:.4f}{half} (n = {contrast.count}), picked out "
        f"of {math.comb(len(values), 2)} contrasts, for which the interval is not corrected."
    )


def _ends(rows: pd.DataFrame, name: str) -> str:
    """The largest size minus the smallest, paired by seed, over all cells that have it."""
    by_seed = rows.pivot_table("value", "seed", name)
    low, high = by_seed.columns.min(), by_seed.columns.max()
    gap = mean_interval(by_seed[high] - by_seed[low])
    half = "" if math.isnan(gap.half) else f" ± {gap.half:.4f}"
    return f"{name} = {high} minus {name} = {low}, over all cells: {gap.mean:+.4f}{half}."


def timing(results: Results) -> str:
    """Section 7."""
    if "timing" not in results:
        return not_run("timing")
    table = results["timing"]
    long = pd.read_csv(PAPER / "inference_time.csv").assign(x="paper")
    paper = long.pivot_table("ms_per_batch", ["method", "x"], "number_of_r", sort=False)
    parts = [
        "Median milliseconds a batch of 64 rows of COMPAS, one thread, all sides in turn in one "
        "process. x is encoded anew for every revenue (one by one), once for all pairs in one call "
        "(at once), or once a row (cached). The paper's device is another one.",
        "![Time against the number of revenues](figures/timing.png)",
    ]
    for device in sorted(set(table["device"])):
        wide = times(table, device)
        counts = [count for count in wide.columns if count in paper.columns]
        ratio = wide.div(wide.T["GCM", "cached"], axis="columns")
        theirs = paper[counts].div(paper[counts].T["GCM", "paper"], axis="columns")
        parts += [
            f"### Device: {device}",
            "Milliseconds:",
            tables.time_table(pd.concat([wide, paper[counts]])),
            "Ratio to GCM cached; the paper's to its GCM:",
            tables.time_table(pd.concat([ratio, theirs])),
            f"GCM cached is faster than {_faster(wide, ('GCM', 'cached'))}. In the paper GCM is "
            f"faster than {_faster(paper, ('GCM', 'paper'))}.",
        ]
    return "\n\n".join(parts)


def times(table: pd.DataFrame, device: str) -> pd.DataFrame:
    """Milliseconds on a device, the sides in the order of the paper."""
    wide = by_revenues(table[table["device"] == device]).sort_index(axis="columns")
    return wide.loc[[s for s in itertools.product(TIMED, TREATMENTS) if s in wide.index]]


def _faster(wide: pd.DataFrame, gcm: tuple[str, str]) -> str:
    clauses, by_side = [], wide.T
    methods, treatments = (wide.index.get_level_values(level) for level in (0, 1))
    for side in zip(methods, treatments, strict=True):
        if side[0] == "GCM":
            continue
        start = faster_from(by_side[gcm], by_side[side])
        name = " ".join(part for part in side if part != "paper")
        clauses.append(f"{name} {'never' if start is None else f'from R = {start} on'}")
    return ", ".join(clauses)
