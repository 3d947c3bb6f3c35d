"""Whole distributions: GCM beside NGBoost, quantile boosting, isotonic and linear regression.

Ten random 4:1 splits of public sets, and ten simulated ones whose distributions are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

from pyro_gcm.estimators import GCMRegressor
from reproduce.curves import judged
from reproduce.data.ordered_data import REAL, SIMULATED, Array, Table
from reproduce.runs import Refused, Scores
from reproduce.study import Study

#: Levels of the quantile models.
LEVELS = np.linspace(0.025, 0.975, 39)
#: Trees among which those of a booster of the mean are chosen by cross-validation.
_TREES = (10, 20, 40, 80, 160, 320)
_FOLDS = 5
#: Share of the training rows that tells when to stop.
_HELD = 0.15


class Predicted(ABC):
    """Distributions of y for some rows."""

    #: Share of the rows in which some quantiles cross.
    crossings = 0.0

    @abstractmethod
    def cdf(self, values: Array) -> Array:
        """Pr(y <= value) at values [T], [n, T]."""

    @abstractmethod
    def quantiles(self, levels: Array) -> Array:
        """[n, L]."""

    def log_density(self, y: Array) -> Array | None:
        """[n], or None for a distribution without a density."""
        return None


Predict = Callable[[Table], Predicted]


class _Ours(Predicted):
    def __init__(self, model: GCMRegressor, rows: Table) -> None:
        self.model, self.columns = model, rows.columns

    def cdf(self, values: Array) -> Array:
        return self.model.cdf(self.columns, values)

    def quantiles(self, levels: Array) -> Array:
        return self.model.predict_quantiles(self.columns, levels)

    def log_density(self, y: Array) -> Array:
        return self.model.log_prob(self.columns, y)


def _gcm(response: str, prior: str) -> Callable[[Table, int], Predict]:
    def fit(learn: Table, seed: int) -> Predict:
        options: Any = {"monotonic_cst": learn.directions, "random_state": seed, "prior": prior}
        model = GCMRegressor(response=response, **options).fit(learn.columns, learn.y)
        return lambda rows: _Ours(model, rows)

    return fit


class _Scipy(Predicted):
    """A frozen distribution of scipy, one for every row."""

    def __init__(self, law: Any) -> None:
        self.law = law

    def cdf(self, values: Array) -> Array:
        found: Array = self.law.cdf(values[:, None]).T
        return found

    def quantiles(self, levels: Array) -> Array:
        found: Array = self.law.ppf(levels[:, None]).T
        return found

    def log_density(self, y: Array) -> Array:
        found: Array = self.law.logpdf(y)
        return found


def _ngboost(name: str) -> Callable[[Table, int], Predict]:
    """NGBoost with its defaults, stopped on a part of the rows and fitted again on all."""

    def fit(learn: Table, seed: int) -> Predict:
        try:
            import ngboost
            from ngboost import distns
        except ImportError as error:
            raise Refused(f"NGBoost: pip install ngboost ({error})") from error
        x, y, held = learn.columns, learn.y, _held(len(learn), seed)

        def made(count: int) -> Any:
            law = getattr(distns, name)
            options: Any = {"verbose": False, "random_state": seed, "n_estimators": count}
            return ngboost.NGBRegressor(Dist=law, **options)

        parts = {"X_val": x[held], "Y_val": y[held], "early_stopping_rounds": 50}
        first = made(2000).fit(x[~held], y[~held], **parts)
        best = 1 + int(first.best_val_loss_itr or 0)
        model = made(best).fit(x, y)
        return lambda rows: _Scipy(model.pred_dist(rows.columns).dist)

    return fit


def _held(rows: int, seed: int) -> Any:
    order = np.random.default_rng(seed).permutation(rows)
    return np.isin(np.arange(rows), order[: int(_HELD * rows)])


class _Quantiles(Predicted):
    """Quantiles [n, L] that were predicted one by one; sorted, with straight lines between them."""

    def __init__(self, found: Array, lowest: float, highest: float) -> None:
        self.crossings = float((np.diff(found) < 0.0).any(1).mean())
        inner = np.sort(found, 1)
        ends = np.minimum(lowest, inner[:, :1]), np.maximum(highest, inner[:, -1:])
        self._knots = np.hstack([ends[0], inner, ends[1]])
        self._levels = np.concatenate([[0.0], LEVELS, [1.0]])

    def cdf(self, values: Array) -> Array:
        return np.stack([np.interp(values, row, self._levels) for row in self._knots])

    def quantiles(self, levels: Array) -> Array:
        return np.stack([np.interp(levels, self._levels, row) for row in self._knots])


def _quantile_boosting(learn: Table, seed: int) -> Predict:
    """A LightGBM for every level, stopped on a part of the rows and fitted again on all.

    LightGBM refuses monotone constraints for quantiles.
    """
    try:
        import lightgbm
    except ImportError as error:
        raise Refused("LightGBM: pip install pyro-gcm[boosting]") from error
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
        return _Quantiles(found, y.min(), y.max())

    return predict


class _Steps(Predicted):
    """Distribution functions [n, U] that are constant between values [U]."""

    def __init__(self, values: Array, below: Array) -> None:
        self.values, self.below = values, below

    def cdf(self, values: Array) -> Array:
        at = np.searchsorted(self.values, values, side="right")
        return np.hstack([np.zeros((len(self.below), 1)), self.below])[:, at]

    def quantiles(self, levels: Array) -> Array:
        at = [
            (self.below < level - 1e-12).sum(1).clip(max=len(self.values) - 1) for level in levels
        ]
        return np.stack([self.values[each] for each in at], 1)


def _isotonic(learn: Table, seed: int) -> Predict:
    """Isotonic distributional regression of y on the mean that a monotone booster predicts.

    Henzi, Ziegel and Gneiting (2021): Pr(y <= t) is for every t the antitonic regression of
    1{y <= t} on the score. The scores of the training rows are of boosters that did not see them.
    """
    x, y = learn.columns, learn.y
    folds = list(KFold(_FOLDS, shuffle=True, random_state=seed).split(x))

    def made(trees: int) -> HistGradientBoostingRegressor:
        options: Any = {"early_stopping": False, "random_state": seed}
        return HistGradientBoostingRegressor(
            max_iter=trees, monotonic_cst=learn.directions, **options
        )

    stages = judged.trees_by_folds(made, x, y, folds, _TREES)
    best = int(np.square(stages - y).mean(1).argmin())
    booster = made(_TREES[best]).fit(x, y)
    values, (scores, place) = np.unique(y), np.unique(stages[best], return_inverse=True)
    weight = np.bincount(place)
    fitted = []
    for value in values:
        share = np.bincount(place, weights=y <= value) / weight
        fitted.append(isotonic_regression(share, sample_weight=weight, increasing=False))
    table = np.stack(fitted, 1)  # [scores, values]

    def predict(rows: Table) -> Predicted:
        score = booster.predict(rows.columns)
        # Between two scores of the training rows, a straight line between their distributions.
        at = np.interp(score, scores, np.arange(len(scores)))
        low = np.floor(at).astype(int)
        share = (at - low)[:, None]
        high = np.minimum(low + 1, len(scores) - 1)
        return _Steps(values, (1.0 - share) * table[low] + share * table[high])

    return predict


def _linear(learn: Table, seed: int) -> Predict:
    """Least squares, and a normal distribution as wide as its residuals."""
    model = LinearRegression().fit(learn.columns, learn.y)
    error = learn.y - model.predict(learn.columns)
    freedom = max(1, len(error) - 1 - learn.columns.shape[1])
    spread = float(np.sqrt(np.square(error).sum() / freedom))
    return lambda rows: _Scipy(norm(model.predict(rows.columns), spread))


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


QUICK_ROWS = 150
#: Thresholds of the integral that is the CRPS, the same for all methods.
_THRESHOLDS = 400
_COVERAGES = (0.5, 0.8, 0.95)
#: The metrics of a table, in this order.
METRICS = ("log score", "CRPS", "mean |F - F0|", *(f"coverage {c:.0%}" for c in _COVERAGES))
WIDTHS = (*(f"width {c:.0%}" for c in _COVERAGES), "crossings", "seconds of a fit")


def thresholds(y: Array) -> Array:
    """Middles of equal steps from half a range below training outcomes to half a range above."""
    low, high = y.min(), y.max()
    margin = 0.5 * (high - low)
    edges = np.linspace(low - margin, high + margin, _THRESHOLDS + 1)
    middles: Array = 0.5 * (edges[1:] + edges[:-1])
    return middles


def scores(predicted: Predicted, learn: Table, test: Table) -> Scores:
    """Scores of distributions of test rows; no log score without a density."""
    values = thresholds(learn.y)
    below = predicted.cdf(values)
    gaps = np.square(below - (test.y[:, None] <= values)).sum(1) * (values[1] - values[0])
    found = {"CRPS": float(gaps.mean()), "crossings": predicted.crossings}
    density = predicted.log_density(test.y)
    if density is not None:
        found["log score"] = float(density.mean())
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


def report(table: pd.DataFrame, name: str) -> str:
    """Scores and coverages of one data set."""
    return judged.report(table, name, METHODS, METRICS)


def widths(table: pd.DataFrame, name: str) -> str:
    """Widths of the intervals of one data set, and the rows in which quantiles cross."""
    return judged.report(table, name, METHODS, WIDTHS)


STUDY = Study(
    *(
        "distribution",
        str(__doc__),
        [*REAL, SIMULATED],
        METHODS,
        judged.runner(METHODS, scores),
        "13",
    ),
    quick={"rows": QUICK_ROWS},
)
