"""Members and the GCM of the paper as methods of the search: their spaces, and how they are fitted.

What depends on the size of a table is searched as a factor on its default, so that settings found
on some rows of a data set suit all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyro_gcm import GCM, FitResult, fit
from pyro_gcm.inference.epochs import best_epoch
from pyro_gcm.members import build_members
from pyro_gcm.models.member_settings import MemberSettings
from pyro_gcm.training import AdamW
from reproduce.methods import Predictor, Rows
from reproduce.runs import Settings

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
    """Members on these rows; see `reproduce.methods.spaces`."""
    sizes = rows.x.shape[1], rows.r.shape[1]
    chosen = member_settings(settings, len(rows.y), *sizes)
    model = build_members(chosen, *sizes, response=rows.response, seed=seed)
    options = {**vars(chosen.training(model))}
    return _trained(model, rows, until, seed, options)


def fit_gcm(rows: Rows, until: Rows | int, settings: Settings, seed: int) -> tuple[Predictor, int]:
    """A GCM with a sampled z on these rows; see `reproduce.methods.spaces`."""
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
