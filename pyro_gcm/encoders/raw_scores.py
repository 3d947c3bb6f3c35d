"""Raw scores of the first trees of a booster, by library: log-odds, or values of a continuous y."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyro_gcm._utils.threads import one_thread_of_trees

Array = npt.NDArray[np.float64]


class _Library(NamedTuple):
    trees: Callable[[Any], int]
    score: Callable[[Any, Array, int], Any]


def _staged(estimator: Any, inputs: Array, trees: int) -> Any:
    classifies = hasattr(estimator, "staged_decision_function")
    stages = estimator.staged_decision_function if classifies else estimator.staged_predict
    with one_thread_of_trees():
        return next(islice(stages(inputs), trees - 1, None))


_LIBRARIES = {
    "sklearn": _Library(lambda estimator: estimator.n_iter_, _staged),
    "xgboost": _Library(
        lambda estimator: estimator.get_booster().num_boosted_rounds(),
        lambda estimator, inputs, trees: estimator.predict(
            inputs, output_margin=True, iteration_range=(0, trees)
        ),
    ),
    "lightgbm": _Library(
        # The estimator of scikit-learn's kind, or the booster in it, which a file holds.
        lambda estimator: getattr(estimator, "booster_", estimator).num_trees(),
        lambda estimator, inputs, trees: estimator.predict(
            inputs, raw_score=True, num_iteration=trees
        ),
    ),
    "catboost": _Library(
        lambda estimator: estimator.tree_count_,
        lambda estimator, inputs, trees: estimator.predict(
            inputs,
            prediction_type="RawFormulaVal",
            ntree_end=trees,
            thread_count=estimator.get_params().get("thread_count", -1),
        ),
    ),
}


class RawScore(NamedTuple):
    """The raw score of a fitted estimator of a library of `baselines.MonotoneBoosting`.

    Every library adds the trees of a row one after the other, in the same order for every row and
    batch. A sum of floats in a fixed order does not fall where no term falls, so that the score
    does not fall, bit for bit, in a revenue in which no tree falls.

    :param library: its name there.
    :param offset: what was subtracted from the outcomes that the estimator was trained on.
    """

    library: str
    estimator: Any
    offset: float = 0.0

    @property
    def trees(self) -> int:
        """How many trees there are."""
        return int(_LIBRARIES[self.library].trees(self.estimator))

    def __call__(self, inputs: Array, trees: int) -> Array:
        """The sum over at most so many trees, the first, [B], for inputs [B, columns]."""
        trees = min(trees, self.trees)
        values = _LIBRARIES[self.library].score(self.estimator, inputs, trees)
        return np.asarray(values, dtype=np.float64) + self.offset
