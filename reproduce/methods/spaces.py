"""The methods of the search: where settings are looked for, and how a method is fitted.

A method is one entry of `SEARCHED`, with two functions:

- `space(trial, n, d)` returns settings for n training rows of d columns: `_space` makes it from
  ranges. A resumed search reads the values from the settings, which are written as JSON.
- `fit(rows, until, settings, seed)` trains on `rows` and returns the model and its rounds: trees of
  a booster, epochs of a network. `until` says how long: if it is `Rows`, the method stops early on
  them and returns the number of rounds up to the best; if it is a number, it runs that many rounds.
  A diverging fit raises `Diverged`.

A model has `predict(x, r)`: Pr(y = 1) or the mean of y. For a continuous y it may also have
`log_prob(x, r, y)` and `cdf(x, r, y)` (`density=True`); one without is given a Gaussian around its
mean. It runs in one thread.

What depends on the size of a table is searched as a factor on its default, so that settings found
on some rows of a data set suit all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reproduce.methods import Predictor, Rows
from reproduce.methods.boosting import MonotoneBoosting
from reproduce.runs import Settings

if TYPE_CHECKING:
    from optuna import Trial
from dataclasses import replace

from pyro_gcm import GCM, FitResult, fit
from pyro_gcm.estimators.plans import build_members
from pyro_gcm.inference.epochs import best_epoch
from pyro_gcm.models.members import MemberSettings
from pyro_gcm.training import AdamW

#: Alternatives and costs of each, by name.
_EVENTS = {"1x2": (1, 2), "3x3": (3, 3), "6x4": (6, 4)}

#: Members of every trial, more of which never hurt, and cost time. The first trial has the defaults
#: of the library.
MEMBERS: Settings = {
    "members": 16,
    "width factor": (1.0, [0.5, 1.0, 2.0]),
    "epochs factor": (1.0, (0.5, 2.0, "log")),
    "dropout factor": (1.0, (0.0, 2.0)),
    "learning_rate": (0.008, (0.002, 0.02, "log")),
    "weight_decay": (0.01, (1e-3, 0.1, "log")),
    "flat": (False, [False, True]),
    "event": ("3x3", list(_EVENTS)),
}
#: A GCM with a sampled z.
SAMPLED: Settings = {
    "hidden": (32, [16, 32, 64, 128]),
    "epochs factor": (1.5, (0.5, 3.0, "log")),
    "learning_rate": (0.01, (0.001, 0.03, "log")),
    "weight_decay": (1e-4, (1e-5, 0.1, "log")),
    "event": ("3x3", list(_EVENTS)),
    "revenue_map": ("piecewise_linear", ["piecewise_linear", "positive_linear"]),
    "z_dim": (4, [2, 4, 8]),
}


def member_settings(settings: Settings, rows: int, x_dim: int, r_dim: int) -> MemberSettings:
    """The settings of the library that those of the search stand for, on a table of this size.

    What they leave out is the library's default.
    """
    own = dict(settings)
    default = MemberSettings.for_table(rows, x_dim, r_dim)
    alternatives, costs = _EVENTS[own.pop("event", "3x3")]
    return replace(
        default,
        width=round(default.width * own.pop("width factor", 1.0)),
        epochs=max(2, round(default.epochs * own.pop("epochs factor", 1.0))),
        dropout=round(default.dropout * own.pop("dropout factor", 1.0), 3),
        alternatives=alternatives,
        costs=costs,
        **own,
    )


def fit_members_of(rows: Rows, until: Rows | int, settings: Settings, seed: int) -> tuple[GCM, int]:
    """Members on these rows; see the module."""
    sizes = rows.x.shape[1], rows.r.shape[1]
    chosen = member_settings(settings, len(rows.y), *sizes)
    model = build_members(chosen, *sizes, response=rows.response, seed=seed)
    options = {**vars(chosen.training(model))}
    return _trained(model, rows, until, seed, options)


def fit_gcm(rows: Rows, until: Rows | int, settings: Settings, seed: int) -> tuple[Predictor, int]:
    """A GCM with a sampled z on these rows; see the module."""
    own, sizes = dict(settings), (rows.x.shape[1], rows.r.shape[1])
    table = MemberSettings.for_table(len(rows.y), *sizes)
    alternatives, costs = _EVENTS[own.pop("event")]
    decay, factor = own.pop("weight_decay"), own.pop("epochs factor")
    options = {
        "epochs": max(2, round(table.epochs * factor)),
        "batch_size": table.batch_size,
        "learning_rate": own.pop("learning_rate"),
        "optimizer": _decaying(decay),
    }
    model = GCM(
        *sizes, response=rows.response, seed=seed, alternatives=alternatives, costs=costs, **own
    )
    return _trained(model, rows, until, seed, options)


def _decaying(decay: float) -> Callable[..., AdamW]:
    return lambda parameters, lr: AdamW(parameters, lr=lr, weight_decay=decay)


def _trained(
    model: GCM, rows: Rows, until: Rows | int, seed: int, options: dict[str, Any]
) -> tuple[GCM, int]:
    """The model trained for a number of epochs, or for the best on the rows `until`."""
    if isinstance(until, int):
        options = {**options, "epochs": until}
    else:
        options = {**options, "validation": (until.x, until.r, until.y)}
    result: FitResult = fit(model, rows.x, rows.r, rows.y, seed=seed, progress=False, **options)
    return model, until if isinstance(until, int) else best_epoch(result)


#: Trees that a booster has at most, and those without a lower loss after which it stops.
MOST_TREES, PATIENCE = 2_000, 50


@dataclass(frozen=True)
class Searched:
    """A method of the search.

    :param space: function (trial, rows, columns) -> settings; see above. None for a method without
        settings, whose final fits are those of its defaults.
    :param fit: function (rows, until, settings, seed) -> model and rounds; see above.
    :param default: the searched values of the first trial, inside the space.
    :param density: the model of a continuous y has a density of its own.
    :param package: the package that it needs, of the extra "boosting" if not of `pyro_gcm`.
    """

    space: Callable[[Trial, int, int], Settings] | None
    fit: Callable[[Rows, Rows | int, Settings, int], tuple[Predictor, int]]
    default: Settings
    density: bool = False
    package: str = "pyro_gcm"


def _boosting(library: Any, trees: str, **fixed: Any) -> Callable[..., tuple[Predictor, int]]:
    """The `fit` of a library of boosting; `trees` is its name for their number."""

    def fit(rows: Rows, until: Rows | int, settings: Settings, seed: int) -> tuple[Predictor, int]:
        columns = rows.x, rows.r, rows.y

        def made(count: int) -> MonotoneBoosting:
            options = {**fixed, **settings, trees: count}
            return MonotoneBoosting(library, response=rows.response, seed=seed, **options)

        if isinstance(until, int):
            return made(until).fit(*columns), until
        validation = until.x, until.r, until.y
        model = made(MOST_TREES).fit(*columns, validation=validation, patience=PATIENCE)
        assert model.trees is not None
        return model, model.trees

    return fit


#: The range of a smallest leaf ends at a tenth of the rows, but not below 20 or above 200.
_LEAF = ("rows",)
_RATE, _SHARE, _HALF = (0.05, (0.01, 0.3, "log")), (1.0, (0.3, 1.0)), (0.5, 1.0)
_LEAVES, _PENALTY = (31, (4, 128, "log")), (1e-3, 100.0, "log")
_LIGHTGBM = {
    "learning_rate": _RATE,
    "num_leaves": _LEAVES,
    "reg_lambda": (1e-3, _PENALTY),
    "min_child_samples": (20, _LEAF),
    "colsample_bytree": _SHARE,
    "subsample": (1.0, _HALF),
    "monotone_constraints_method": ("basic", ["basic", "intermediate", "advanced"]),
}
_XGBOOST = {
    "learning_rate": _RATE,
    "max_leaves": _LEAVES,
    "reg_lambda": (1.0, _PENALTY),
    "min_child_weight": (1.0, (0.1, 100.0, "log")),
    "colsample_bytree": _SHARE,
    "subsample": (1.0, _HALF),
}
# Its trees are symmetric, of 2^depth leaves: 4 to 128. There is no smallest leaf in them. The
# default of `leaf_estimation_iterations` would be another one above 200 trees than below: the model
# with the number of trees found would not be the one that stopped there.
_CATBOOST = {
    "learning_rate": _RATE,
    "depth": (6, (2, 7)),
    "l2_leaf_reg": (3.0, (0.1, 100.0, "log")),
    "random_strength": (1.0, (0.1, 10.0, "log")),
    "leaf_estimation_iterations": (10, (1, 10, "log")),
    "rsm": _SHARE,
    "subsample": (0.8, _HALF),
}
_HIST = {
    "learning_rate": _RATE,
    "max_leaf_nodes": _LEAVES,
    "l2_regularization": (1e-3, _PENALTY),
    "min_samples_leaf": (20, _LEAF),
    "max_features": _SHARE,
}


def _searched(table: Mapping[str, Any], fit: Callable[..., Any], **more: Any) -> Searched:
    """A method with a table: name -> its value in the first trial and its range, or a constant.

    A range is (low, high) or (low, high, "log"), or choices in a list.
    """

    def space(trial: Trial, n: int, d: int) -> Settings:
        return {
            name: _asked(trial, name, of[1], n) if isinstance(of, tuple) else of
            for name, of in table.items()
        }

    default = {name: of[0] for name, of in table.items() if isinstance(of, tuple)}
    return Searched(space, fit, default, **more)


def _asked(trial: Trial, name: str, of: Any, n: int) -> Any:
    if isinstance(of, list):
        return trial.suggest_categorical(name, of)
    low, high, *log = (2, min(200, max(20, n // 10)), "log") if of == _LEAF else of
    suggest: Any = trial.suggest_int if isinstance(low, int) else trial.suggest_float
    return suggest(name, low, high, log=bool(log))


_GROWN = {"tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0}
#: Name -> method, in the order of the tables. The first trial has the library's own defaults (no
#: penalty is a small one), but a learning rate that suits early stopping.
SEARCHED: dict[str, Searched] = {
    "Members": _searched(MEMBERS, fit_members_of, density=True),
    "Members, default": Searched(None, fit_members_of, {}, density=True),
    "GCM": _searched(SAMPLED, fit_gcm, density=True),
    "LightGBM": _searched(
        *(_LIGHTGBM, _boosting("lightgbm", "n_estimators", n_jobs=1, subsample_freq=1)),
        package="lightgbm",
    ),
    "XGBoost": _searched(
        *(_XGBOOST, _boosting("xgboost", "n_estimators", n_jobs=1, **_GROWN)), package="xgboost"
    ),
    "CatBoost": _searched(
        *(_CATBOOST, _boosting("catboost", "iterations", thread_count=1, bootstrap_type="MVS")),
        package="catboost",
    ),
    "HistGradientBoosting": _searched(_HIST, _boosting("sklearn", "max_iter")),
}
