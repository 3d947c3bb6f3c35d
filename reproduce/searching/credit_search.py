"""Credit scores after a search: every rival at its best of thirty trials on each split.

The splits and tables are those of the study `credit`. A trial learns from four fifths of the
training rows of a split and is judged by log loss on the last fifth; the best settings learn from
all of them. With directions and without, the search is made anew. `GCMClassifier`, which takes no
part, has its defaults and the results of that study.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from sklearn.metrics import log_loss

from reproduce.data.credit_tables import TITLES
from reproduce.defaults.credit import prepared, scored, tested
from reproduce.methods.credit import lacking, version_of
from reproduce.methods.credit_spaces import SPACES
from reproduce.rendering.credit_prices import report
from reproduce.rendering.credit_scores import MODES
from reproduce.runs import Fit, Scores
from reproduce.searching.optuna_search import OptunaSearch
from reproduce.searching.tuning import VALIDATION_LOSS
from reproduce.study import Study, each

TRIALS, QUICK_TRIALS = 30, 2
#: Part of the training rows of a split that judges the trials.
JUDGING = 0.2


def cells(fit: Fit) -> Iterable[Fit]:
    """A search with the directions, and one without."""
    return [replace(fit, variant=mode) for mode in MODES]


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One search and the scores of what it chose; none where the package lacks."""
    if lacking(fit.method):
        return {"seconds": 0.0, "epochs": 0}
    start, searched = time.process_time(), SPACES[fit.method]
    rows, train = prepared(fit)
    grown = len(rows.y) - round(JUDGING * len(rows.y))
    grow, judge = slice(0, grown), slice(grown, None)
    search = OptunaSearch(
        f"{fit.dataset}/{fit.method}/{fit.variant}/{fit.split}",
        partial(searched.space, n=grown, d=rows.X.shape[1]),
        searched.default,
    )
    losses = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(fit.options.get("trials", TRIALS)):
            settings = {**search.ask(), **searched.fixed, **searched.of_trials}
            predict = train(rows.X[grow], rows.y[grow], **settings)
            judged = tested(predict, rows.X[judge])
            losses.append(float(log_loss(rows.y[judge], judged)))
            search.tell(losses[-1])
        begun = time.process_time()
        predict = train(rows.X, rows.y, **search.best(), **searched.fixed)
        spent = time.process_time() - begun
        found = scored(rows.y_test, tested(predict, rows.X_test))
    return {
        **found,
        "seconds of a fit": spent,
        VALIDATION_LOSS: min(losses),
        f"{VALIDATION_LOSS} of the first trial": losses[0],
        "seconds": time.process_time() - start,
        "epochs": 0,
    }


STUDY = Study(
    *("credit_search", str(__doc__), TITLES, SPACES, run, each(TITLES, report)),
    count=5,
    cells=cells,
    settings=version_of,
    needs={"optuna": "reproduce"},
    quick={"rows": 500, "trials": QUICK_TRIALS},
    jobs=1,
)
