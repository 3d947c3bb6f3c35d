"""Whole distributions: GCM beside NGBoost, quantile boosting, isotonic and linear regression.

Ten random 4:1 splits of public sets, and ten simulated ones whose distributions are known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict

from pyro_gcm.estimators import GCMRegressor
from reproduce.curves import judged
from reproduce.data.ordered_data import REAL, SIMULATED, Array, Table
from reproduce.runs import Scores

#: Levels of the quantile models.
LEVELS = np.linspace(0.025, 0.975, 39)
#: Trees among which those of a booster of the mean are chosen by cross-validation.
_TREES = (10, 20, 40, 80, 160, 320)
_FOLDS = 5
#: Share of the training rows that tells when to stop.
_HELD = 0.15


class Predicted(NamedTuple):
    """Distributions of y for n rows.

    :param cdf: values [T] -> Pr(y <= value), [n, T].
    :param quantiles: levels [L] -> [n, L].
    :param log_density: y [n] -> [n]; None for a distribution without a density.
    :param crossings: share of the rows in which some quantiles cross.
    """

    cdf: Callable[[Array], Array]
    quantiles: Callable[[Array], Array]
    log_density: Callable[[Array], Array] | None = None
    crossings: float = 0.0


Predict = Callable[[Table], Predicted]


def _gcm(response: str, prior: str) -> Callable[[Table, int], Predict]:
    def fit(learn: Table, seed: int) -> Predict:
        options: Any = {"monotonic_cst": learn.directions, "random_state": seed, "prior": prior}
        model = GCMRegressor(response=response, **options).fit(learn.columns, learn.y)
        return lambda rows: Predicted(
            partial(model.cdf, rows.columns),
            partial(model.predict_quantiles, rows.columns),
            partial(model.log_prob, rows.columns),
        )

    return fit


def _of_scipy(law: Any) -> Predicted:
    """A frozen distribution of scipy, one for every row."""
    return Predicted(
        lambda values: law.cdf(values[:, None]).T,
        lambda levels: law.ppf(levels[:, None]).T,
        law.logpdf,
    )


def _ngboost(name: str) -> Callable[[Table, int], Predict]:
    """NGBoost with its defaults, stopped on a part of the rows and fitted again on all."""

    def fit(learn: Table, seed: int) -> Predict:
        import ngboost
        from ngboost import distns

        x, y, held = learn.columns, learn.y, _held(len(learn), seed)
        options: Any = {"Dist": getattr(distns, name), "verbose": False, "random_state": seed}
        parts = {"X_val": x[held], "Y_val": y[held], "early_stopping_rounds": 50}
        first = ngboost.NGBRegressor(**options, n_estimators=2000).fit(x[~held], y[~held], **parts)
        best = 1 + int(first.best_val_loss_itr or 0)
        model = ngboost.NGBRegressor(**options, n_estimators=best).fit(x, y)
        return lambda rows: _of_scipy(model.pred_dist(rows.columns).dist)

    return fit


def _held(rows: int, seed: int) -> Any:
    order = np.random.default_rng(seed).permutation(rows)
    return np.isin(np.arange(rows), order[: int(_HELD * rows)])


def _of_quantiles(found: Array, lowest: float, highest: float) -> Predicted:
    """Quantiles [n, L] that were predicted one by one; sorted, with straight lines between them."""
    inner, levels = np.sort(found, 1), np.concatenate([[0.0], LEVELS, [1.0]])
    ends = np.minimum(lowest, inner[:, :1]), np.maximum(highest, inner[:, -1:])
    knots = np.hstack([ends[0], inner, ends[1]])
    return Predicted(
        lambda values: np.stack([np.interp(values, row, levels) for row in knots]),
        lambda asked: np.stack([np.interp(asked, levels, row) for row in knots]),
        crossings=float((np.diff(found) < 0.0).any(1).mean()),
    )


def _quantile_boosting(learn: Table, seed: int) -> Predict:
    """A LightGBM for every level, stopped on a part of the rows and fitted again on all.

    LightGBM refuses monotone constraints for quantiles.
    """
    import lightgbm

    x, y, held = learn.columns, learn.y, _held(len(learn), seed)

    def model(level: float) -> Any:
        options: Any = {"objective": "quantile", "alpha": level, "n_jobs": 1, "verbose": -1}
        options |= {"random_state": seed}
        first = lightgbm.LGBMRegressor(n_estimators=500, **options)
        stop = lightgbm.early_stopping(20, verbose=False)
        part = {"eval_X": x[held], "eval_y": y[held], "callbacks": [stop]}
        first.fit(x[~held], y[~held], **part)
        best = max(1, int(first.best_iteration_ or 1))
        return lightgbm.LGBMRegressor(n_estimators=best, **options).fit(x, y)

    models = [model(level) for level in LEVELS]

    def predict(rows: Table) -> Predicted:
        found = np.stack([each.predict(rows.columns) for each in models], 1)
        return _of_quantiles(found, y.min(), y.max())

    return predict


def _of_steps(places: Array, below: Array) -> Predicted:
    """Distribution functions [n, U] that are constant between places [U]."""
    with_start = np.hstack([np.zeros((len(below), 1)), below])

    def quantiles(levels: Array) -> Array:
        short = (below[:, None] < levels[:, None] - 1e-12).sum(-1)
        return places[short.clip(max=len(places) - 1)]

    return Predicted(
        lambda values: with_start[:, np.searchsorted(places, values, side="right")], quantiles
    )


def _isotonic(learn: Table, seed: int) -> Predict:
    """Isotonic distributional regression of y on the mean that a monotone booster predicts.

    Henzi, Ziegel and Gneiting (2021): Pr(y <= t) is for every t the antitonic regression of
    1{y <= t} on the score. The scores of the training rows are of boosters that did not see them.
    """
    x, y = learn.columns, learn.y
    models = judged.boosters(HistGradientBoostingRegressor, learn, seed, _TREES)
    folds = KFold(_FOLDS, shuffle=True, random_state=seed)
    unseen = np.stack([cross_val_predict(model, x, y, cv=folds) for model in models])
    best = int(np.square(unseen - y).mean(1).argmin())
    booster = models[best].fit(x, y)
    # Between two scores of the training rows, a straight line between their distributions.
    values, falling = np.unique(y), {"increasing": False, "out_of_bounds": "clip"}
    curves = [IsotonicRegression(**falling).fit(unseen[best], y <= value) for value in values]

    def predict(rows: Table) -> Predicted:
        score = booster.predict(rows.columns)
        return _of_steps(values, np.stack([curve.predict(score) for curve in curves], 1))

    return predict


def _linear(learn: Table, seed: int) -> Predict:
    """Least squares, and a normal distribution as wide as its residuals."""
    model = LinearRegression().fit(learn.columns, learn.y)
    error = learn.y - model.predict(learn.columns)
    freedom = max(1, len(error) - 1 - learn.columns.shape[1])
    spread = float(np.sqrt(np.square(error).sum() / freedom))
    return lambda rows: _of_scipy(norm(model.predict(rows.columns), spread))


METHODS: dict[str, Callable[[Table, int], Predict]] = {
    "Members, distribution": _gcm("distribution", "members"),
    "Members, continuous": _gcm("continuous", "members"),
    "GCM, distribution": _gcm("distribution", "conditional"),
    "NGBoost, normal": _ngboost("Normal"),
    "NGBoost, log-normal": _ngboost("LogNormal"),
    "LightGBM quantiles": _quantile_boosting,
    "Isotonic on monotone boosting": _isotonic,
    "Linear normal": _linear,
}


#: Thresholds of the integral that is the CRPS, the same for all methods: middles of equal steps
#: from half a range below training outcomes to half a range above.
_THRESHOLDS = 400
_COVERAGES = (0.5, 0.8, 0.95)


def scores(predicted: Predicted, learn: Table, test: Table) -> Scores:
    """Scores of distributions of test rows; no log score without a density."""
    low, high = learn.y.min(), learn.y.max()
    step = 2.0 * (high - low) / _THRESHOLDS
    values = 0.5 * (3.0 * low - high) + step * (np.arange(_THRESHOLDS) + 0.5)
    below = predicted.cdf(values)
    gaps = np.square(below - (test.y[:, None] <= values)).sum(1) * step
    found = {"CRPS": float(gaps.mean()), "crossings": predicted.crossings}
    if predicted.log_density is not None:
        found["log score"] = float(predicted.log_density(test.y).mean())
    tails = [0.5 - 0.5 * c for c in _COVERAGES]
    ends = predicted.quantiles(np.array([*tails, *(1.0 - tail for tail in tails)]))
    for place, coverage in enumerate(_COVERAGES):
        low, high = ends[:, place], ends[:, place + len(tails)]
        inside = (low <= test.y) & (test.y <= high)
        found[f"coverage {coverage:.0%}"] = float(inside.mean())
        found[f"width {coverage:.0%}"] = float((high - low).mean())
    if test.truth is not None:
        at = np.quantile(learn.y, np.linspace(0.025, 0.975, 39))
        found["mean |F - F0|"] = float(np.abs(predicted.cdf(at) - test.truth(at)).mean())
    return found


STUDY = judged.study("distribution", __doc__, [*REAL, SIMULATED], METHODS, scores, "13")
