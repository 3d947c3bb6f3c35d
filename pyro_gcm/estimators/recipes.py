"""Models of the estimators, and how they are trained, from the options of an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from pyro_gcm._utils.validation import positive, positive_int, shown
from pyro_gcm.estimators.training import Recipe
from pyro_gcm.inference.epoch_search import MOST
from pyro_gcm.members import build_members
from pyro_gcm.models import GCM, IGCM, MemberGCM
from pyro_gcm.models.member_settings import MemberSettings, left_out_of, warn_of_few
from pyro_gcm.models.story import OrderEventModel

#: Options of the training, whose names are those of `fit`.
_OF_TRAINING = ("epochs", "batch_size", "learning_rate")
#: Weight of the prior of members, in rows, for so many rows: it says nothing beside more, and fewer
#: are trained on for an epoch or two.
PRIOR, FEW_ROWS = 5.0, range(20, 1000)
#: Sizes of a model, whose names are those of `GCM` and `IGCM`.
_OF_MODELS = ("hidden", "alternatives", "costs")


def gcm_recipe(
    options: Any,
    rows: int,
    x_dim: int,
    r_dim: int,
    ordered: Sequence[Sequence[int]],
) -> Recipe:
    """A GCM, of members or with another prior, as the options of an estimator have it."""
    training, sizes = _training(options), _sizes(options)
    of_times = options.response == "survival"
    p0 = options.cured if of_times else None
    if p0 is not None:  # several costs have late events that pass for ones that never come
        sizes = {"alternatives": 1, "costs": 1, **sizes}
    if not isinstance(options.prior, str) or options.prior != "members":

        def build(seed: int) -> GCM:
            return GCM(
                x_dim,
                r_dim,
                response=options.new_response(),
                prior=options.prior,
                p0=p0,
                seed=seed,
                **sizes,
            )

        return _plain(build, rows, training, options.early_stopping)
    dropout = options.dropout
    if dropout is not None and (isinstance(dropout, bool) or not isinstance(dropout, Real)):
        raise ValueError(f"dropout must be a probability in [0, 1), got {dropout!r}")
    of_table = MemberSettings.for_times if of_times else MemberSettings.for_table
    settings = replace(
        of_table(rows, x_dim, r_dim),
        members=positive_int("members", options.members),
        **_given(width=sizes.pop("hidden", None), dropout=dropout, **sizes, **training),
    )

    def members(seed: int) -> GCM:
        response = options.new_response()
        return build_members(
            settings, x_dim, r_dim, response=response, p0=p0, ordered=ordered, seed=seed
        )

    stops = options.early_stopping
    if options.epochs is None:
        warn_of_few(rows)
    elif stops == "auto":
        stops = False  # a number of epochs that was asked for is not looked for
    left_out = min(left_out_of(rows, stops), settings.members // 2)
    most = MOST * settings.epochs if left_out and options.epochs is None else settings.epochs
    looked_for = {"left_out": left_out, "epochs": most, "schedule": "default"}

    def of_members(model: MemberGCM) -> dict[str, Any]:
        return {**settings.training(model)._asdict(), "elbo": settings.bound, **looked_for}

    return Recipe(members, of_members, settings.epochs, PRIOR if rows in FEW_ROWS else 0.0)


def igcm_recipe(options: Any, rows: int, x_dim: int, r_dim: int) -> Recipe:
    """An IGCM, as the options of an estimator have it."""
    chosen = _sizes(options)

    def build(seed: int) -> IGCM:
        return IGCM(x_dim, r_dim, response=options.new_response(), seed=seed, **chosen)

    return _plain(build, rows, _training(options), options.early_stopping)


def _plain(build: Any, rows: int, training: dict[str, Any], early_stopping: Any) -> Recipe:
    """A model that is trained with the defaults of `fit`, but for the options that are given."""

    def of_training(model: OrderEventModel) -> dict[str, Any]:
        searches = int(early_stopping is True)
        own = {"searches": searches, "schedule": "default"}
        return {**model.training_defaults(rows)._asdict(), **training, **own}

    return Recipe(build, of_training)


def _training(options: Any) -> dict[str, Any]:
    asked = options.early_stopping
    if not isinstance(asked, bool) and not (isinstance(asked, str) and asked == "auto"):
        raise ValueError(f'early_stopping must be "auto", True or False, got {shown(asked)}')
    found = _given(**{name: getattr(options, name) for name in _OF_TRAINING})
    for name in ("epochs", "batch_size"):
        if name in found:
            found[name] = positive_int(name, found[name])
    if "learning_rate" in found:
        found["learning_rate"] = positive("learning_rate", found["learning_rate"])
    return found


def _sizes(options: Any) -> dict[str, Any]:
    given = _given(**{name: getattr(options, name) for name in _OF_MODELS})
    return {name: positive_int(name, value) for name, value in given.items()}


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
