"""How good predicted counts are: rate, deviance, CRPS, and calibration by bands of the rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.estimators.counter import poisson_deviance
from pyro_gcm.plots.axes import GREY, PALETTE
from pyro_gcm.report.page import Block, Fact, Facts, Figure, Figures, Paragraph, Table, drawn
from pyro_gcm.report.subject import Array, Subject, amount, counted, quoted

#: Bands of the predicted rate.
_BANDS = 10


def of_counts(subject: Subject) -> tuple[list[Block], str]:
    """Blocks on a model of counts, and a sentence."""
    counts, exposure, scores = np.asarray(subject.y, float), subject.exposures, subject.scores
    means = subject.predictions * exposure
    rate, target = float(counts.sum() / exposure.sum()), quoted(subject.target)
    deviance = float(poisson_deviance(counts, means).mean())
    alone = float(poisson_deviance(counts, rate * exposure).mean())
    named = subject.estimator.exposure
    over = f"{amount(exposure.sum())} of {quoted(named)}" if named is not None else "these rows"
    facts = [
        Fact(f"{counts.sum():,.0f}", "events", f"Sum of {target} in {over}."),
        Fact(amount(rate), "rate", f"Events in one unit of exposure; {over} in all."),
        Fact(
            amount(means.sum()), "predicted", "Sum of the predicted means; compare the events seen."
        ),
        Fact(
            amount(deviance),
            "deviance",
            f"Mean Poisson deviance of a row; lower is better. One rate for all has "
            f"{amount(alone)}, so that D² is {scores['d2']:.3f}.",
        ),
        Fact(
            amount(scores["crps"]),
            "CRPS",
            "Mean continuous ranked probability score, in events; lower is better. It is the "
            "distance of the predictive distribution from the count.",
        ),
        Fact(
            f"{scores['log_score']:.4f}",
            "log score",
            "Mean logarithm of the probability of the count; higher is better.",
        ),
    ]
    bands = bands_of(subject.predictions, counts, exposure)
    close = ((bands["observed"] - bands["predicted"]).abs() <= 2.0 * bands["standard_error"]).sum()
    verdict = (
        f"The model predicts {amount(means.sum())} events, and {counts.sum():,.0f} came. In "
        f"{close} of {counted(len(bands), 'band')} of the predicted rate the observed rate agrees "
        "with it within what chance allows (two standard errors)."
    )
    heads = ["Predicted rate", "Observed rate", "Two standard errors", "Events", "Exposure"]
    shown = [
        [
            amount(band["predicted"]),
            amount(band["observed"]),
            amount(2.0 * band["standard_error"]),
            f"{band['events']:,.0f}",
            amount(band["exposure"]),
        ]
        for band in bands.to_dict("records")
    ]
    table = Table("Bands of the predicted rate, of about equal exposure", heads, shown)
    in_short = (
        f"{counts.sum():,.0f} events came where {amount(means.sum())} were predicted; the "
        f"predictions explain {scores['d2']:.3f} of the deviance (D²)"
    )
    return [Facts(facts), Paragraph(verdict), Figures([_figure(bands)]), table], f"{in_short}."


def bands_of(rates: Array, counts: Array, exposure: Array, bands: int = _BANDS) -> pd.DataFrame:
    """Predicted and observed rates of rows in the order of their predicted rates, in bands.

    :param rates: predicted, [n]; `counts`: seen, [n], over `exposure`, [n].
    :param bands: of about equal exposure, at most; rows with one rate are in one band.
    :returns: a row for each, with "predicted", "observed" and its "standard_error" (as rows
        differ, or of a Poisson count if that is larger), "events", "exposure" and "rows".
    """
    place = np.unique(rates, return_inverse=True)[1]
    before = np.cumsum(np.bincount(place, exposure)) - 0.5 * np.bincount(place, exposure)
    band = (before * bands / exposure.sum()).astype(int)[place]
    table = pd.DataFrame({"band": band, "events": counts, "exposure": exposure, "rows": 1})
    table["mean"] = rates * exposure
    sums = table.groupby("band").sum()
    sums["predicted"] = sums["mean"] / sums["exposure"]
    sums["observed"] = sums["events"] / sums["exposure"]
    apart = counts - sums["observed"].reindex(band).to_numpy() * exposure
    squares = pd.Series(apart**2).groupby(band).sum()
    spread = np.sqrt(np.maximum(squares, np.maximum(sums["events"], 1.0)))
    sums["standard_error"] = spread / sums["exposure"]
    kept = ["predicted", "observed", "standard_error", "events", "exposure", "rows"]
    return sums[kept].reset_index(drop=True)


def _figure(bands: pd.DataFrame) -> Figure:
    def draw(ax: Any) -> None:
        middle = float(bands["predicted"].mean())
        ax.axline((middle, middle), slope=1.0, color=GREY, linestyle="--", label="equal")
        style = {"color": PALETTE[0], "marker": "o", "markersize": 4, "capsize": 3}
        errors = 2.0 * bands["standard_error"]
        ax.errorbar(bands["predicted"], bands["observed"], errors, label="bands", **style)
        ax.set_xlabel("predicted rate")
        ax.set_ylabel("observed rate")
        ax.set_ylim(bottom=0.0)
        ax.legend()

    shown = ", ".join(
        f"{amount(band['predicted'])} predicted and {amount(band['observed'])} observed"
        for band in bands.to_dict("records")
    )
    caption = (
        "Calibration of the rate. Each point with a bar (two standard errors) is a band of rows "
        "with similar predicted rates; on the dashed line both agree."
    )
    return drawn(draw, f"Observed against predicted rates. Bands: {shown}.", caption)
