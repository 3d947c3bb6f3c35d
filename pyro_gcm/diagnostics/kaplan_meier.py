"""Kaplan and Meier's estimate of a survival curve from right-censored times of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import norm

from pyro_gcm._utils.validation import kind, share
from pyro_gcm.data.survival_times import SurvivalTimes


def kaplan_meier(y: SurvivalTimes, level: float = 0.95) -> pd.DataFrame:
    """The product-limit estimate of Pr(T > t), with a band for each time by itself.

    Rows that entered late are at risk from their entry on. The band is that of log(-log S) with
    Greenwood's variance (Kalbfleisch and Prentice 2002, section 1.4).

    :param y: exact and right-censored times.
    :param level: of the band, in (0, 1).
    :returns: a row for each time of an event, in rising order: "time", "survival" from that time
        on, "lower" and "upper" (NaN where the estimate is 0), "at_risk", the rows that were
        observed just before, and "events".
    :raises TypeError: for anything but `SurvivalTimes`.
    :raises ValueError: for left- or interval-censored times, and if no event was seen.

    >>> from pyro_gcm.data.survival_times import SurvivalTimes
    >>> y = SurvivalTimes.right_censored([2.0, 3.0, 3.0, 5.0], [True, True, False, True])
    >>> kaplan_meier(y)[["time", "survival", "at_risk"]].values.tolist()
    [[2.0, 0.75, 4.0], [3.0, 0.5, 3.0], [5.0, 0.0, 1.0]]
    """
    if not isinstance(y, SurvivalTimes):
        raise TypeError(f"y must be data.SurvivalTimes, got {kind(y)}")
    share("level", level, "a probability")
    event = y.is_exact.numpy()
    if not (event | y.upper.isinf().numpy()).all():
        raise ValueError(f"y must have exact and right-censored times, got {y!r}")
    if not event.any():
        raise ValueError("y must have at least one exact time, got censored ones alone")
    last, entry = y.lower.numpy(), y.entry.numpy()
    time, events = np.unique(last[event], return_counts=True)
    at_risk = np.searchsorted(np.sort(entry), time) - np.searchsorted(np.sort(last), time)
    with np.errstate(divide="ignore", invalid="ignore"):
        survival = np.cumprod(1.0 - events / at_risk)
        variance = np.cumsum(events / (at_risk * (at_risk - events)))
        width = norm.ppf(0.5 + 0.5 * level) * np.sqrt(variance) / -np.log(survival)
        lower, upper = survival ** np.exp(width), survival ** np.exp(-width)
    ends = {"lower": lower, "upper": upper}
    ends = {name: np.where(survival > 0.0, end, np.nan) for name, end in ends.items()}
    columns = {"time": time, "survival": survival, **ends, "at_risk": at_risk, "events": events}
    return pd.DataFrame(columns)
