"""Credit scores with directions and without: what monotonicity costs on four tables.

Every method has its defaults, the directions of the table by name and the same random splits: up to
10,000 rows to learn from, a quarter as many to test on. The price of monotonicity is the score of
the same model without constraints less that with them, on the same split; beside it stands its
interval by a paired bootstrap of the test rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from reproduce.data.credit_tables import TABLES, TITLES, Array, Split, split
from reproduce.methods.credit import METHODS, Predict, Rows, lacking, version_of
from reproduce.rendering.credit_prices import MODES, RESAMPLED
from reproduce.runs import Fit, Scores
from reproduce.scores import expected_calibration_error
from reproduce.study import Study

#: Rows of a split at most, and of --quick.
ROWS, QUICK_ROWS = 12_500, 500
#: Resamples of the test rows.
RESAMPLES = 1_000
#: Functions (y, probability).
_SCORES: dict[str, Callable[[Array, Array], float]] = {
    "AUC": roc_auc_score,
    "log loss": log_loss,
    "Brier score": brier_score_loss,
    "calibration error": lambda y, probability: expected_calibration_error(probability, y),
}


def cells(fit: Fit) -> Iterable[Fit]:
    """A fit with the directions, and one without."""
    modes = MODES if METHODS[fit.method].free else MODES[:1]
    return [replace(fit, variant=mode) for mode in modes]


def run(fits: list[Fit], device: str = "cpu") -> list[Scores]:
    """Scores of one method on one split, in each mode; none where its package lacks."""
    if lacking(fits[0].method):
        return [{} for _ in fits]
    clock = METHODS[fits[0].method].clock
    found, predicted = list[Scores](), dict[str, Array]()
    for fit in fits:
        rows, start = prepared(fit), clock()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predict = trained(fit, rows)
            spent = clock() - start
            probability = predict(rows.X_test).astype("float64").clip(0.0, 1.0)
        predicted[fit.variant] = probability
        scores = {name: score(rows.y_test, probability) for name, score in _SCORES.items()}
        found.append({**scores, "seconds of a fit": spent, "seconds": spent})
    if len(predicted) == len(MODES):
        found[-1] |= price_bounds(rows.y_test, *map(predicted.__getitem__, MODES), seed=fit.seed)
    return found


def prepared(fit: Fit) -> Split:
    """The rows of a fit."""
    return split(fit.dataset, fit.seed, fit.options.get("rows", ROWS))


def trained(fit: Fit, rows: Split) -> Predict:
    """The method of a fit, with the directions that it has."""
    directions = TABLES[fit.dataset].directions if fit.variant == MODES[0] else {}
    return METHODS[fit.method].fit(Rows(rows.X, rows.y, directions, fit.seed))


def price_bounds(y: Array, with_: Array, free: Array, *, seed: int) -> Scores:
    """Ends of 95 % intervals of the prices, by resampling test rows in pairs.

    The calibration error has none: resampled rows have a larger one, so that its are shifted.

    :param with_: probabilities with directions, and `free` those without, [B].
    """
    found: Scores = {}
    options: Any = {"paired": True, "vectorized": False, "method": "percentile"}
    options |= {"n_resamples": RESAMPLES}
    for name in RESAMPLED:

        def gap(y: Array, with_: Array, free: Array, name: str = name) -> float:
            price = _SCORES[name](y, free) - _SCORES[name](y, with_)
            return price if name == "AUC" else -price

        options |= {"random_state": np.random.default_rng(seed)}
        ends = stats.bootstrap((y, with_, free), gap, **options).confidence_interval
        found |= {f"{name}, price from": ends.low, f"{name}, price to": ends.high}
    return found


STUDY = Study(
    *("credit", str(__doc__), TITLES, METHODS, run, "B"),
    count=5,
    cells=cells,
    version=version_of,
    quick={"rows": QUICK_ROWS},
    jobs=1,
    file="credit_{dataset}",
    together=lambda fit: (fit.dataset, fit.split, fit.method),
)
