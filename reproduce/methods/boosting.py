"""Gradient boosting with monotone constraints, from four libraries."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from reproduce.runs import Settings

Array = np.ndarray[Any, Any]


class _Library(NamedTuple):
    estimator: str  # its module and its name, followed by "Classifier" or "Regressor"
    # (patience, inputs, outcomes) -> options and arguments of `fit` that stop early on these rows
    stopping: Callable[[int, Array, Array], tuple[Settings, Settings]]
    trees: Callable[[Any], int]  # of an estimator that stopped early: up to the best one
    defaults: Settings
    constraints: str = "monotone_constraints"  # 1 for an increasing column, 0 for a free one


_LIBRARIES = {
    "sklearn": _Library(
        "sklearn.ensemble.HistGradientBoosting",
        lambda patience, inputs, outcomes: (
            {"early_stopping": True, "n_iter_no_change": patience},
            {"X_val": inputs, "y_val": outcomes},
        ),
        lambda estimator: max(1, int(np.argmax(estimator.validation_score_))),  # 0: no tree
        {},
        "monotonic_cst",
    ),
    "xgboost": _Library(
        "xgboost.XGB",
        lambda patience, inputs, outcomes: (
            {"early_stopping_rounds": patience},
            {"eval_set": [(inputs, outcomes)], "verbose": False},
        ),
        lambda estimator: int(estimator.best_iteration) + 1,
        {"n_jobs": 1},
    ),
    "lightgbm": _Library(
        "lightgbm.LGBM",
        lambda patience, inputs, outcomes: (
            {},
            {
                **{"eval_X": inputs, "eval_y": outcomes},
                "callbacks": [import_module("lightgbm").early_stopping(patience, verbose=False)],
            },
        ),
        lambda estimator: int(estimator.best_iteration_),
        {"verbosity": -1, "n_jobs": 1},
    ),
    "catboost": _Library(
        "catboost.CatBoost",
        lambda patience, inputs, outcomes: (
            {"early_stopping_rounds": patience},
            {"eval_set": (inputs, outcomes)},
        ),
        lambda estimator: int(estimator.tree_count_),
        # With monotone constraints, catboost 1.2 gets the mean that it starts from wrong when it
        # drops the trees after the best one: it starts from 0, and y is centred.
        {
            **{"verbose": False, "allow_writing_files": False},
            **{"boost_from_average": False, "thread_count": 1},
        },
    ),
}


class MonotoneBoosting:
    """Gradient-boosted trees of [x, r] that are non-decreasing in every revenue.

    :param library: "sklearn" (`HistGradientBoosting*`), "xgboost", "lightgbm" or "catboost".
    :param response: "binary" (log loss) or "continuous" (squared error).
    :param seed: of the library's random choices.
    :param options: of the library's estimator under its own names; it runs on one thread.
    """

    def __init__(self, library: str, *, response: str, seed: int, **options: Any) -> None:
        self.library, self.response = _LIBRARIES[library], response
        self.options = {**self.library.defaults, **options, "random_state": seed}
        #: Trees up to the lowest loss in the validation rows; None without those.
        self.trees: int | None = None

    def fit(
        self,
        x: Tensor,
        r: Tensor,
        y: Tensor,
        *,
        validation: tuple[Tensor, Tensor, Tensor] | None = None,
        patience: int = 50,
    ) -> MonotoneBoosting:
        """Train on rows x [n, x_dim], r [n, r_dim] and y [n].

        :param validation: other rows to stop early on: training ends when their loss has not fallen
            for `patience` trees, and predictions use the trees up to the lowest loss.
        """
        inputs, outcomes = _inputs(x, r), y.double().numpy()
        # xgboost accepts no list, and catboost no tuple.
        sequence: Any = list if self.library is _LIBRARIES["catboost"] else tuple
        options = {self.library.constraints: sequence([0] * x.shape[1] + [1] * r.shape[1])}
        centred = sequence is list and self.response == "continuous"
        self.offset, arguments = float(outcomes.mean()) if centred else 0.0, Settings()
        if validation is not None:
            unseen = _inputs(*validation[:2]), validation[2].double().numpy() - self.offset
            stopping, arguments = self.library.stopping(patience, *unseen)
            options |= stopping
        module, name = self.library.estimator.rsplit(".", 1)
        kind = "Classifier" if self.response == "binary" else "Regressor"
        estimator = getattr(import_module(module), name + kind)(**{**self.options, **options})
        with threadpool_limits(1, user_api="openmp"):  # scikit-learn has no option for it
            self.estimator = estimator.fit(inputs, outcomes - self.offset, **arguments)
        self.trees = None if validation is None else self.library.trees(self.estimator)
        return self

    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        """Pr(y = 1) or the mean of y, float64 [B], for x [B, x_dim] and r [B, r_dim]."""
        name = "predict_proba" if self.response == "binary" else "predict"
        # The option of catboost holds for training alone.
        threads = {"thread_count": 1} if self.library is _LIBRARIES["catboost"] else {}
        with threadpool_limits(1, user_api="openmp"):
            if self.library is _LIBRARIES["sklearn"] and self.trees is not None:
                # scikit-learn alone would use the trees after the best one, too.
                stages = getattr(self.estimator, f"staged_{name}")(_inputs(x, r))
                found = next(islice(stages, self.trees - 1, None))
            else:
                found = getattr(self.estimator, name)(_inputs(x, r), **threads)
        values = torch.as_tensor(found[:, 1] if self.response == "binary" else found)
        return values.double() + self.offset


def _inputs(x: Tensor, r: Tensor) -> Array:
    return torch.cat([x.double(), r.double()], 1).numpy()
