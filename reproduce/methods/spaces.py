"""The methods of the search: where settings are looked for, and how a method is fitted.

`fit(rows, until, settings, seed)` trains on `rows` and returns the model and its rounds: trees of
a booster, epochs of a network. `until` says how long: if it is `Rows`, the method stops early on
them and returns the number of rounds up to the best; if it is a number, it runs that many rounds.
A diverging fit raises `Diverged`. A model has `predict(x, r)`: Pr(y = 1) or the mean of y. For a
continuous y it may also have a density; one without is given a Gaussian around its mean. It runs in
one thread.

`spaces.json` has the settings of each method: constants, and ranges or choices with the value of
the first trial. That has the library's own defaults (no penalty is a small one), but a learning
rate that suits early stopping. What depends on the size of a table is searched as a factor on its
default, so that settings found on some rows of a data set suit all of them. The range "rows" of a
smallest leaf ends at a tenth of the rows, but not below 20 or above 200. All trials of members have
16 of them, more of which never hurt, and cost time. CatBoost's trees are symmetric, of 2^depth
leaves, and have no smallest one; the default of its `leaf_estimation_iterations` would be another
one above 200 trees than below, so that the model with the number of trees found would not be the
one that stopped there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyro_gcm import GCM, fit
from pyro_gcm.baselines import MonotoneBoosting
from pyro_gcm.estimators.plans import build_members
from pyro_gcm.inference.epochs import best_epoch
from pyro_gcm.models.members import MemberSettings
from pyro_gcm.training import AdamW
from reproduce.methods import Predictor, Rows
from reproduce.runs import Settings, read_json

if TYPE_CHECKING:
    from optuna import Trial

#: Rows on which a fit stops early, or its number of rounds.
Until = Rows | int
#: Alternatives and costs of each, by name.
_EVENTS = {"1x2": (1, 2), "3x3": (3, 3), "6x4": (6, 4)}
#: Trees that a booster has at most, and those without a lower loss after which it stops.
MOST_TREES, PATIENCE = 2_000, 50


@dataclass(frozen=True)
class Searched:
    """A method of the search.

    :param settings: as in `spaces.json`; empty for a method whose final fits are of its defaults.
    :param fit: function (rows, until, settings, seed) -> model and rounds; see above.
    """

    settings: Mapping[str, Any]
    fit: Callable[[Rows, Until, Settings, int], tuple[Predictor, int]]

    @property
    def default(self) -> Settings:
        """The searched values of the first trial, inside the space."""
        return {n: of["default"] for n, of in self.settings.items() if isinstance(of, dict)}

    def space(self, trial: Trial, rows: int) -> Settings:
        """The settings of a trial on training rows of this number."""
        return {
            name: _asked(trial, name, of, rows) if isinstance(of, dict) else of
            for name, of in self.settings.items()
        }


def _asked(trial: Trial, name: str, of: Mapping[str, Any], rows: int) -> Any:
    if "choices" in of:
        return trial.suggest_categorical(name, of["choices"])
    leaves = 2, min(200, max(20, rows // 10)), "log"
    low, high, *log = leaves if of["range"] == "rows" else of["range"]
    suggest: Any = trial.suggest_int if isinstance(low, int) else trial.suggest_float
    return suggest(name, low, high, log=bool(log))


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


def _members(rows: Rows, until: Until, settings: Settings, seed: int) -> tuple[GCM, int]:
    sizes = rows.x.shape[1], rows.r.shape[1]
    chosen = member_settings(settings, len(rows.y), *sizes)
    model = build_members(chosen, *sizes, response=rows.response, seed=seed)
    return _trained(model, rows, until, seed, vars(chosen.training(model)))


def _gcm(rows: Rows, until: Until, settings: Settings, seed: int) -> tuple[GCM, int]:
    """A GCM with a sampled z."""
    own, sizes = dict(settings), (rows.x.shape[1], rows.r.shape[1])
    table = MemberSettings.for_table(len(rows.y), *sizes)
    alternatives, costs = _EVENTS[own.pop("event")]
    options = {
        "epochs": max(2, round(table.epochs * own.pop("epochs factor"))),
        "batch_size": table.batch_size,
        "learning_rate": own.pop("learning_rate"),
        "optimizer": partial(AdamW, weight_decay=own.pop("weight_decay")),
    }
    own |= {"response": rows.response, "alternatives": alternatives, "costs": costs}
    return _trained(GCM(*sizes, seed=seed, **own), rows, until, seed, options)


def _trained(
    model: GCM, rows: Rows, until: Until, seed: int, options: Mapping[str, Any]
) -> tuple[GCM, int]:
    """The model trained for a number of epochs, or for the best on the rows `until`."""
    how: dict[str, Any] = {**options, "seed": seed, "progress": False}
    if isinstance(until, int):
        fit(model, rows.x, rows.r, rows.y, **{**how, "epochs": until})
        return model, until
    stop = until.x, until.r, until.y
    return model, best_epoch(fit(model, rows.x, rows.r, rows.y, validation=stop, **how))


def _boosting(
    library: Any, trees: str, fixed: Settings, rows: Rows, until: Until, own: Settings, seed: int
) -> tuple[Predictor, int]:
    """A booster of a library; `trees` is its name for their number."""
    response: Any = rows.response
    columns, options = (rows.x, rows.r, rows.y), {**fixed, **own}
    options[trees] = until if isinstance(until, int) else MOST_TREES
    model = MonotoneBoosting(library, response=response, seed=seed, **options)
    if isinstance(until, int):
        return model.fit(*columns), until
    model.fit(*columns, validation=(until.x, until.r, until.y), patience=PATIENCE)
    assert model.trees is not None
    return model, model.trees


_XGBOOST = {"n_jobs": 1, "tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0}
#: Name -> how it is fitted: of boosters the library, its name for the number of trees, and what is
#: not searched.
_FITTED: dict[str, Callable[..., Any]] = {
    "LightGBM": partial(_boosting, "lightgbm", "n_estimators", {"n_jobs": 1, "subsample_freq": 1}),
    "XGBoost": partial(_boosting, "xgboost", "n_estimators", _XGBOOST),
    "CatBoost": partial(
        _boosting, "catboost", "iterations", {"thread_count": 1, "bootstrap_type": "MVS"}
    ),
    "HistGradientBoosting": partial(_boosting, "sklearn", "max_iter", {}),
    "GCM": _gcm,
}
_SPACES = read_json(__file__, "spaces.json")
#: Name -> method, in the order of the tables.
SEARCHED = {name: Searched(of, _FITTED.get(name, _members)) for name, of in _SPACES.items()}
