"""Models and how they are trained, by the options of an estimator or the size of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import Randomness, one_thread
from pyro_gcm._utils.validation import (
    ArrayLike,
    as_tensor,
    seed_of,
    told_once,
)
from pyro_gcm.estimators.training import (
    Trained,
    TrainingPlan,
    TrainingRows,
    trained,
    yes_no_or_auto,
)
from pyro_gcm.inference.epochs import MOST
from pyro_gcm.inference.training_data import weighed
from pyro_gcm.models import GCM, IGCM, MemberGCM
from pyro_gcm.models.build import cost_shape_of
from pyro_gcm.models.members import CROSSED_ROWS, MemberSettings, warn_of_few
from pyro_gcm.nets import MemberEncoder, TabularFeatures
from pyro_gcm.nets.revenue_maps import member_map
from pyro_gcm.nets.tabular_features import count_numeric
from pyro_gcm.responses import Classes, Continuous, Response, Several

#: Members that leave out a row: the averaged prediction of two improves about as long as that of
#: all, and each sees three quarters of the rows until it sees all of them.
LEFT_OUT = 2
#: Weight of the prior of members, in rows, for so many rows: it says nothing beside more, and fewer
#: are trained on for an epoch or two.
PRIOR, FEW_ROWS = 5.0, range(20, 1000)


@one_thread()
@torch.inference_mode(False)  # with gradients, whatever the caller has switched off
@told_once()
def fit_members(
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    response: str = "binary",
    settings: MemberSettings | None = None,
    early_stopping: bool | str = "auto",
    groups: ArrayLike | None = None,
    ordered: Sequence[Sequence[int]] = (),
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: bool = True,
) -> Trained:
    """Build and train a GCM of members on rows (x, r, y) in the units of the data.

    :param x: [n, x_dim]; `r`: [n, r_dim], in which the prediction is to rise; `y`: [n].
    :param sample_weight: how much each row counts, [n], as in `fit`.
    :param response: a name that `GCM` takes, such as "binary", "continuous" or "survival".
    :param settings: by default those of `MemberSettings.for_response`.
    :param early_stopping: whether each row is left out by two of the members, whose prediction
        of it says how many epochs are best (`inference.cross_fit`). "auto" does so for 20 to 20,000
        rows: with more, the default number of epochs does not overfit. `settings` have the most
        epochs.
    :param groups: a label for each row, [n], of which rows with the same one are left out together.
    :param ordered: groups of columns of x for the levels of ordered variables, as in `adult.x`
        "education=1", "education=2", ... (`nets.TabularFeatures`).
    :raises ValueError: for wrong shapes, values or options, before any work is done.

    >>> import torch
    >>> from pyro_gcm import fit_members
    >>> x, r = torch.randn(200, 3), torch.rand(200, 2)
    >>> y = (x[:, 0] + r.sum(1) > 1).float()
    >>> fit_members(x, r, y, progress=False).model.predict(x[:4], r[:4]).shape
    torch.Size([4])
    """
    stops = yes_no_or_auto("early_stopping", early_stopping)
    columns, r_dim = _matrix("x", x), _matrix("r", r).shape[1]
    if sample_weight is not None:  # a row of weight 0 is no row
        columns = columns[weighed(sample_weight, len(columns))[0].to(columns.device)]
    shape = *columns.shape, r_dim
    chosen = settings or MemberSettings.for_response(response, *shape, count_numeric(columns))
    # The epochs of the table are no bound of early stopping.
    seed = seed_of(seed)
    options: Any = {"ordered": ordered, "searches": settings is None, "seed": seed}
    plan = members_plan(chosen, response, shape, stops, **options)
    rows = TrainingRows(x, r, y, sample_weight, (), ordered, groups)
    fitted = trained(plan, rows, seed=seed, device=device, progress=progress)
    assert fitted.settings is not None
    return fitted._replace(settings=replace(fitted.settings, epochs=len(fitted.result.rows)))


def _matrix(name: str, columns: ArrayLike) -> Tensor:
    found = as_tensor(name, columns)
    if found.dim() != 2 or not found.numel():
        raise ValueError(f"{name} must be a matrix [rows, columns], got shape {tuple(found.shape)}")
    return found


def plan_of(options: Any, response: str | Response, rows: TrainingRows, seed: int) -> TrainingPlan:
    """How the options of an estimator have a model made and trained on rows.

    That is a GCM of members, or one that is trained with the defaults of `fit` but for the options
    that are given: a GCM with another prior, or an IGCM for options without one.

    :param response: as `GCM` takes it.
    """
    stops = yes_no_or_auto("early_stopping", options.early_stopping)
    if stops == "auto" and options.epochs is not None:
        stops = False  # a number of epochs that was asked for is not looked for

    def given(*names: str) -> dict[str, Any]:
        return {name: v for name in names if (v := getattr(options, name)) is not None}

    training = given("epochs", "batch_size", "learning_rate")
    sizes = given("hidden", "alternatives", "costs")
    if (p0 := getattr(options, "cured", None)) is not None:
        # Several costs have late events that pass for ones that never come.
        sizes = {"alternatives": 1, "costs": 1, **sizes}
    count, x_dim, r_dim = rows.shape
    prior: Any = getattr(options, "prior", None)
    if isinstance(prior, str) and prior == "members":
        if "hidden" in sizes:
            sizes["width"] = sizes.pop("hidden")
        sizes |= given("members", "dropout")
        settings: Any = MemberSettings.for_response(response, *rows.shape, count_numeric(rows.x))
        searches = options.epochs is None
        if searches:
            warn_of_few(count)
        more: Any = {"ordered": rows.ordered, "searches": searches, "p0": p0, "seed": seed}
        more["concave"] = rows.concave
        settings = replace(settings, **sizes, **training)
        plan = members_plan(settings, response, rows.shape, stops, **more)
        return plan._replace(prior=PRIOR if count in FEW_ROWS else 0.0)
    searches = stops is not False and count >= CROSSED_ROWS.start
    if searches and rows.groups is not None:
        raise ValueError(
            "groups are held out together by members alone (prior='members'): pass epochs=, so "
            "that no rows are held out, or groups=None"
        )
    make: Any = IGCM
    if hasattr(options, "prior"):
        make = partial(GCM, prior=prior, p0=p0, concave=rows.concave)
    model = make(x_dim, r_dim, response=response, seed=seed, **sizes)
    defaults = vars(model.training_defaults(count))
    return TrainingPlan(model, {**defaults, **training}, searches=searches)


def members_plan(
    settings: MemberSettings,
    response: str | Response,
    shape: tuple[int, int, int],
    stops: bool | str,
    *,
    searches: bool,
    ordered: Sequence[Sequence[int]] = (),
    p0: str | None = None,
    concave: Sequence[int] = (),
    seed: int = 0,
) -> TrainingPlan:
    """A GCM of members with these settings.

    :param shape: numbers of rows, of covariates and of revenues.
    :param stops: whether members leave out rows, which say when to stop.
    :param searches: whether that may be later than `settings` have it.
    :param ordered: as in `TrainingRows`; `p0`, `concave`: as `GCM` takes them.
    """
    count, *columns = shape
    asked = stops is True or (stops == "auto" and count in CROSSED_ROWS)
    few = count < CROSSED_ROWS.start
    left_out = min(LEFT_OUT, settings.members // 2) if asked and not few else 0
    if left_out:
        # With scaling "output" their first layers are the same but for signs, so that those that
        # see a row learn it by heart for those that do not: noise was predicted out of fold.
        settings = replace(settings, scaling="input")
    most = MOST * settings.epochs if left_out and searches else settings.epochs
    own: Any = {"response": response, "p0": p0, "ordered": ordered, "seed": seed}
    own["concave"] = concave
    model = build_members(settings, *columns, **own)
    training = vars(settings.training(model)) | {"epochs": most}
    return TrainingPlan(model, training, left_out=left_out, settings=settings)


def build_members(
    settings: MemberSettings,
    x_dim: int,
    r_dim: int,
    *,
    response: str | Response = "binary",
    p0: Any = None,
    concave: Sequence[int] = (),
    ordered: Sequence[Sequence[int]] = (),
    seed: int = 0,
) -> MemberGCM:
    """An untrained GCM of members.

    :param response, p0, concave: as `GCM` takes them.
    :param ordered: groups of columns of x for the levels of ordered variables (`TabularFeatures`).
    """
    knots: Any = {name: getattr(settings, name) for name in ("knots", "min_rows", "flat")}
    shape = cost_shape_of(settings.alternatives, settings.costs)
    with Randomness(seed).in_use():
        steps = settings.steps if settings.bins else 0.0
        features = TabularFeatures(x_dim, settings.bins, steps=steps, ordered=ordered)
        encoder = MemberEncoder(
            x_dim,
            settings.members,
            settings.width,
            dropout=settings.dropout,
            features=features,
            scaling=settings.scaling,
        )
        map_shape, levels = (encoder.members, *shape), response == "quantile"
        maps: Any = None  # where not all revenues have one map, the model makes them
        if not (concave or isinstance(response, Classes | Several)):
            maps = member_map(r_dim, map_shape, levels=levels, seed=seed, **knots)
        if response == "continuous" and not settings.equal_weights:
            response = Continuous(encoder.out_dim, ())
    sizes: Any = {"alternatives": settings.alternatives, "costs": settings.costs}
    parts: Any = {"members": encoder, "response": response, "revenue_map": maps, "p0": p0}
    parts["concave"] = concave
    return MemberGCM(x_dim, r_dim, seed=seed, **sizes, **parts)
