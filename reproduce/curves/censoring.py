"""Simulated event times with a known S0(t | x, r), seen in three ways: how far off curves are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import norm

from pyro_gcm.data import SurvivalTimes
from pyro_gcm.estimators import GCMSurvival
from reproduce.curves.turnbull import turnbull
from reproduce.intervals import mean_interval, samples
from reproduce.rendering.markdown import NOT_RUN, grid
from reproduce.runs import Fit, Scores
from reproduce.study import Study

Array = npt.NDArray[Any]
ROWS, QUICK_ROWS, TEST_ROWS = 1000, 60, 500
#: Spread of log T around its location.
SPREAD = 0.6
#: Name -> heading of its column.
DESIGNS = {
    "current status": "Current status",
    "interval": "Interval-censored",
    "right": "Exact and right-censored",
}
#: Times at which curves are compared.
TIMES = np.exp(norm.ppf(np.arange(1, 20) / 20.0))
METRIC = "mean |S - S0|"


def location(X: Array) -> Array:
    """Of log T: curved in x0 and x1, and lower the higher the third column, a dose, is."""
    found: Array = 0.7 * np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] - 1.2 * (X[:, 2] - 0.5)
    return found


def true_survival(X: Array) -> Array:
    """S0(t | x, r) at `TIMES`, [n, T]."""
    found: Array = norm.sf((np.log(TIMES) - location(X)[:, None]) / SPREAD)
    return found


def simulate(design: str, rows: int, seed: int) -> tuple[Array, SurvivalTimes]:
    """Columns x0, x1 and a dose, [rows, 3], and what is seen of the times.

    - current status: one look at a random time, which says whether the event had come.
    - interval: looks 0.5 apart on average, until one in five on average is the last.
    - right: exact unless censored at an independent time, about a third of the rows.
    """
    generator = np.random.default_rng([seed, rows])
    X = np.column_stack([generator.normal(size=(rows, 2)), generator.random(rows)])
    when = np.exp(location(X) + SPREAD * generator.normal(size=rows))
    if design == "current status":
        look = np.exp(generator.normal(0.0, 0.9, rows))
        return X, SurvivalTimes.current_status(look, when <= look)
    if design == "right":
        censored = generator.exponential(3.0, rows)
        return X, SurvivalTimes.right_censored(np.minimum(when, censored), when <= censored)
    lower, upper = np.zeros(rows), np.full(rows, np.inf)
    for row in range(rows):
        looks = np.cumsum(generator.exponential(0.5, generator.geometric(0.2)))
        lower[row] = np.max(looks[looks < when[row]], initial=0.0)
        upper[row] = np.min(looks[looks >= when[row]], initial=np.inf)
    return X, SurvivalTimes(lower, upper)


def _gcm(X: Array, y: SurvivalTimes, test: Array, seed: int, device: str) -> Array:
    model = GCMSurvival(monotonic_cst=[0, 0, 1], random_state=seed, device=device).fit(X, y)
    found: Array = model.predict_survival_function(test, True, times=TIMES)
    return found


def _turnbull(X: Array, y: SurvivalTimes, test: Array, seed: int, device: str) -> Array:
    curve = turnbull(y.lower.numpy(), y.upper.numpy())(TIMES)
    return np.tile(curve, (len(test), 1))


def _cox(X: Array, y: SurvivalTimes, test: Array, seed: int, device: str) -> Array:
    """Cox's model, for interval-censored times of their midpoints, as is often done."""
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    event = ~y.upper.isinf().numpy()
    lower, upper = y.lower.numpy(), y.upper.numpy()
    when = np.where(event, 0.5 * (lower + np.where(event, upper, 0.0)), lower)
    outcome = np.array(list(zip(event, when, strict=True)), dtype=[("e", "?"), ("t", "<f8")])
    model = CoxPHSurvivalAnalysis(alpha=1e-3).fit(X, outcome)
    curves = model.predict_survival_function(test, return_array=True)
    with_start = np.hstack([np.ones((len(test), 1)), curves])
    found: Array = with_start[:, np.searchsorted(model.unique_times_, TIMES, side="right")]
    return found


METHODS: dict[str, Callable[..., Array]] = {
    "GCM members": _gcm,
    "Cox": _cox,
    "Nonparametric": _turnbull,
}


def run(fit: Fit, device: str = "cpu") -> Scores:
    """The mean distance of the curves of one method from the true ones."""
    X, y = simulate(fit.dataset, fit.options.get("rows", ROWS), fit.seed)
    test, _ = simulate("right", TEST_ROWS, 1000 + fit.seed)
    start = time.perf_counter()
    found = METHODS[fit.method](X, y, test, fit.seed, device)
    cost = {"seconds": time.perf_counter() - start, "epochs": 0.0}
    return {METRIC: float(np.abs(found - true_survival(test)).mean()), **cost}


def report(table: pd.DataFrame) -> str:
    """Mean distance and its interval over the simulations; the nearest method in bold."""
    if table.empty:
        return f"{NOT_RUN.capitalize()}."
    values = samples(table[table["metric"] == METRIC], ["method", "dataset"])
    cells = {key: mean_interval(of_key) for key, of_key in values.items()}
    return grid(cells, DESIGNS, dict.fromkeys(DESIGNS, True), order=METHODS)


STUDY = Study(
    *("censoring", str(__doc__), DESIGNS, METHODS, run, report),
    counted="seeds",
    protocol="simulated",
    quick={"rows": QUICK_ROWS},
    needs={"sksurv": "compare"},
    left_out=[("current status", "Cox")],
)
