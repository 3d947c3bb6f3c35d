"""Scores of survival curves on right-censored test rows, by scikit-survival where it has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Times of the integrated Brier score, and bins of the log score.
POINTS, BINS = 50, 10
#: Weight of the uniform distribution over the bins in every log score: no score is infinite.
UNIFORM = 0.01
#: Groups of the calibration error, at most, and rows of a group, at least.
GROUPS, GROUP_ROWS = 5, 25


def brier_times(y: Array) -> Array:
    """Times [POINTS] from the 10th to the 90th percentile of the events of a whole table."""
    low, high = np.quantile(y["time"][y["event"]], [0.1, 0.9])
    return np.linspace(low, high, POINTS)


def log_edges(y: Array) -> Array:
    """Edges [BINS] of the bins of the log score: deciles of the events of the training rows.

    The last bin goes on to infinity.
    """
    return np.unique(np.quantile(y["time"][y["event"]], np.arange(1, BINS) / BINS))


def survival_scores(
    learn: Array, test: Array, risk: Array, at_times: Array, times: Array, at_edges: Array
) -> dict[str, float]:
    """Concordances, time-dependent AUC, Brier and log score, and calibration of test rows.

    Weights by the probability of being censored come from the training rows. Test rows are followed
    up to the last of the times only, which changes no Brier score, and integrals are over the
    times at which some are. The time-dependent AUC is the cumulative and dynamic one: of rows with
    an event by t against rows without, by Pr(T <= t), the mean over times.

    :param learn: (event, time) of training rows; `test`: of test rows, [n].
    :param risk: higher where the event is to come earlier, [n].
    :param at_times: Pr(T > t) at `times`, [n, POINTS].
    :param at_edges: at `log_edges`, [n, E].
    """
    from sksurv.metrics import (
        concordance_index_censored,
        concordance_index_ipcw,
        cumulative_dynamic_auc,
        integrated_brier_score,
    )

    followed = test.copy()
    end = times[-1] * (1.0 + 1e-9)
    followed["event"] &= test["time"] <= end
    followed["time"] = np.minimum(test["time"], end)
    # Before the first of its rows a test set says nothing, and after the last one neither.
    inside = (times >= followed["time"].min()) & (times < followed["time"].max())
    events = followed["time"][followed["event"]]
    between = inside & (times >= events.min())  # an AUC needs an event
    auc = cumulative_dynamic_auc(learn, followed, 1.0 - at_times[:, between], times[between])
    middle = POINTS // 2
    return {
        "Harrell's C": float(concordance_index_censored(test["event"], test["time"], risk)[0]),
        "Uno's C": float(concordance_index_ipcw(learn, followed, risk)[0]),
        "integrated Brier score": float(
            integrated_brier_score(learn, followed, at_times[:, inside], times[inside])
        ),
        "log score": log_score(test, at_edges, log_edges(learn)),
        "time-dependent AUC": float(auc[1]),
        "calibration error": calibration_error(test, at_times[:, middle], times[middle]),
    }


def calibration_error(test: Array, survival: Array, time: float) -> float:
    """Mean absolute difference of predicted and observed survival at a time, over groups of rows.

    Groups are quantiles of the prediction, five or fewer, of 25 rows or more; what was observed
    of a group is its Kaplan-Meier estimate. Rows count equally.

    :param survival: Pr(T > time), [n].
    """
    from sksurv.nonparametric import kaplan_meier_estimator

    count = max(1, min(GROUPS, len(test) // GROUP_ROWS))
    edges = np.quantile(survival, np.arange(1, count) / count)
    group = np.searchsorted(edges, survival)
    gaps = np.zeros(len(test))
    for rows in (group == each for each in np.unique(group)):
        at, curve = kaplan_meier_estimator(test["event"][rows], test["time"][rows])
        observed = np.append(1.0, curve)[np.searchsorted(at, time, side="right")]
        gaps[rows] = abs(survival[rows].mean() - observed)
    return float(gaps.mean())


def log_score(test: Array, at_edges: Array, edges: Array) -> float:
    """Mean log-probability of what was seen of a time, in nats a row, the same for every method.

    An event has the probability of its bin, and a censored row that of its bin and all later ones;
    the bins' probabilities are mixed with 1 % of the uniform distribution.

    :param at_edges: Pr(T > edge), [n, E].
    :param edges: [E], rising.
    """
    rows = len(test)
    curve = np.hstack([np.ones((rows, 1)), at_edges, np.zeros((rows, 1))])
    bins = -np.diff(curve, axis=1)
    bins = (1.0 - UNIFORM) * bins + UNIFORM / bins.shape[1]
    own = np.searchsorted(edges, test["time"], side="left")
    later = bins[:, ::-1].cumsum(1)[:, ::-1]
    each = np.arange(rows)
    seen = np.where(test["event"], bins[each, own], later[each, own])
    return float(np.log(seen).mean())
