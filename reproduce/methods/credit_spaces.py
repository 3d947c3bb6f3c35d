"""Where the settings of the rivals of credit scoring are looked for.

A space is a function (trial, n, d) as in `reproduce.methods.spaces`, whose settings are options of
the method's function in `reproduce.methods.credit`. LightGBM, XGBoost, CatBoost and
HistGradientBoosting have their number of trees searched with the rest and set no rows aside to stop
early on; YDF and EBM do, as by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reproduce.methods.spaces import SEARCHED
from reproduce.runs import Settings

if TYPE_CHECKING:
    from optuna import Trial


@dataclass(frozen=True)
class CreditSpace:
    """The space of one method.

    :param space: see the module.
    :param default: the searched values of the first trial.
    :param fixed: options of every fit.
    :param of_trials: options of trials alone, which make them short.
    """

    space: Callable[..., Settings]
    default: Settings
    fixed: Settings = field(default_factory=dict)
    of_trials: Settings = field(default_factory=dict)


def _boosting(name: str, trees: str, **fixed: object) -> CreditSpace:
    """The space of the search of other tables, and the number of trees."""
    searched = SEARCHED[name]

    def space(trial: Trial, n: int, d: int) -> Settings:
        assert searched.space is not None
        return {**searched.space(trial, n, d), trees: trial.suggest_int(trees, 30, 500, log=True)}

    return CreditSpace(space, {**searched.default, trees: 100}, fixed)


def _ydf(trial: Trial, n: int, d: int) -> Settings:
    return {
        "num_trees": trial.suggest_int("num_trees", 30, 500, log=True),
        "shrinkage": trial.suggest_float("shrinkage", 0.01, 0.3, log=True),
        "max_depth": trial.suggest_int("max_depth", 2, 8),
        "min_examples": trial.suggest_int("min_examples", 2, 200, log=True),
        "l2_regularization": trial.suggest_float("l2_regularization", 1e-3, 100.0, log=True),
        "num_candidate_attributes_ratio": trial.suggest_float(
            "num_candidate_attributes_ratio", 0.3, 1.0
        ),
    }


def _ebm(trial: Trial, n: int, d: int) -> Settings:
    return {
        "learning_rate": trial.suggest_float("learning_rate", 0.005, 0.1, log=True),
        "max_leaves": trial.suggest_int("max_leaves", 2, 4),
        "min_samples_leaf": trial.suggest_int("min_samples_leaf", 2, 100, log=True),
        "max_bins": trial.suggest_int("max_bins", 16, 1024, log=True),
        "smoothing_rounds": trial.suggest_int("smoothing_rounds", 0, 200),
    }


def _glum(trial: Trial, n: int, d: int) -> Settings:
    return {
        "bins": trial.suggest_int("bins", 3, 30, log=True),
        "alpha": trial.suggest_float("alpha", 1e-6, 1e-1, log=True),
    }


def _logistic(trial: Trial, n: int, d: int) -> Settings:
    return {"C": trial.suggest_float("C", 1e-3, 1e3, log=True)}


#: Name -> space, in the order of the tables. Not searched are the other ways of LightGBM, which
#: are in its space; CatBoost with combinations of categories, which can break a direction; EBM with
#: interactions and GCM, whose fits take too long; and Perpetual, whose one setting is its time.
SPACES: Mapping[str, CreditSpace] = {
    "LightGBM": _boosting("LightGBM", "n_estimators", subsample_freq=1),
    "XGBoost": _boosting(
        "XGBoost", "n_estimators", tree_method="hist", grow_policy="lossguide", max_depth=0
    ),
    "CatBoost": _boosting(
        "CatBoost", "iterations", bootstrap_type="MVS", border_count=64, max_ctr_complexity=1
    ),
    "HistGradientBoosting": _boosting("HistGradientBoosting", "max_iter"),
    "YDF": CreditSpace(
        _ydf,
        {
            "num_trees": 300,
            "shrinkage": 0.1,
            "max_depth": 6,
            "min_examples": 5,
            "l2_regularization": 1e-3,
            "num_candidate_attributes_ratio": 1.0,
        },
    ),
    "EBM, no interactions": CreditSpace(
        _ebm,
        {
            "learning_rate": 0.015,
            "max_leaves": 2,
            "min_samples_leaf": 4,
            "max_bins": 1024,
            "smoothing_rounds": 75,
        },
        of_trials={"outer_bags": 1},
    ),
    "glum, scorecard": CreditSpace(_glum, {"bins": 10, "alpha": 1e-4}),
    "Logistic regression": CreditSpace(_logistic, {"C": 1.0}),
}
