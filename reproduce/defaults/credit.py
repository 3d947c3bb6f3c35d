"""Credit scores with directions and without: what monotonicity costs on four tables.

Every method has its defaults, the directions of the table by name and the same random splits: up to
10,000 rows to learn from, a quarter as many to test on. The price of monotonicity is the score of
the same model without constraints less that with them, on the same split.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from reproduce.data.credit_tables import TABLES, TITLES, Split, split
from reproduce.methods.credit import METHODS, Predict, Train, lacking, version_of
from reproduce.rendering.credit_scores import MODES, report
from reproduce.runs import Fit, Scores
from reproduce.scores import expected_calibration_error
from reproduce.study import Study, each

#: Rows of a split at most, and of --quick.
ROWS, QUICK_ROWS = 12_500, 500
#: A method of minutes a fit -> the splits that it gets.
SLOW = {"EBM": 2}


def cells(fit: Fit) -> Iterable[Fit]:
    """A fit with the directions, and one without."""
    if int(fit.split) >= SLOW.get(fit.method, fit.seed + 1):
        return []
    modes = MODES if METHODS[fit.method].free else MODES[:1]
    return [replace(fit, variant=mode) for mode in modes]


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one method on one split; none where its package lacks."""
    if lacking(fit.method):
        return {"seconds": 0.0, "epochs": 0}
    rows, train = prepared(fit)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predict = train(rows.X, rows.y)
        spent = time.process_time() - start
        found = scored(predict, rows)
    return {**found, "seconds of a fit": spent, "seconds": spent, "epochs": 0}


def prepared(fit: Fit) -> tuple[Split, Train]:
    """The rows of a fit, and its method with the directions that it has: (X, y, **options)."""
    directions = TABLES[fit.dataset].directions if fit.variant == MODES[0] else {}
    train = partial(METHODS[fit.method].fit, directions=directions, seed=fit.seed)
    return split(fit.dataset, fit.seed, fit.options.get("rows", ROWS)), train


def scored(predict: Predict, rows: Split) -> Scores:
    """The scores of a prediction on the test rows of a split."""
    probability = predict(rows.X_test).astype("float64").clip(0.0, 1.0)
    return {
        "AUC": roc_auc_score(rows.y_test, probability),
        "log loss": log_loss(rows.y_test, probability),
        "Brier score": brier_score_loss(rows.y_test, probability),
        "calibration error": expected_calibration_error(probability, rows.y_test),
    }


STUDY = Study(
    *("credit", str(__doc__), TITLES, METHODS, run, each(TITLES, report)),
    count=5,
    cells=cells,
    settings=version_of,
    quick={"rows": QUICK_ROWS},
    jobs=1,
)
