"""How an estimator makes its model and trains it: plans and bootstrap samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyro_gcm._utils.validation import positive, positive_int, shown
from pyro_gcm.inference import Crossed, FitResult, cross_fit, fit, search_epochs
from pyro_gcm.inference.epochs import MOST, SCHEDULE
from pyro_gcm.members import build_members
from pyro_gcm.models import GCM, IGCM, MemberGCM
from pyro_gcm.models.base import OrderEventModel
from pyro_gcm.models.member_settings import CROSSED_ROWS, MemberSettings, warn_of_few
from pyro_gcm.responses import Response

#: Rows of a prior, at most.
PRIOR_ROWS = 200
#: Weight of the prior of members, in rows, for so many rows: it says nothing beside more, and fewer
#: are trained on for an epoch or two.
PRIOR, FEW_ROWS = 5.0, range(20, 1000)
#: Options of the training, and sizes of a model, by their names in `fit` and in `GCM`.
_OF_TRAINING = {"epochs": positive_int, "batch_size": positive_int, "learning_rate": positive}
_OF_MODELS = dict.fromkeys(("hidden", "alternatives", "costs"), positive_int)


class TrainingRows(NamedTuple):
    """Rows as a model reads them, and their weights, above 0, or None.

    :param widths: columns of x that stand for one of the table, one after the other.
    :param ordered: groups of columns of x that stand for the levels of an ordered category.
    :param groups: a number for each row, [n], that rows share which are held out together, or None.
    """

    x: Tensor
    r: Tensor
    y: Tensor
    weight: Tensor | None
    widths: Sequence[int]
    ordered: Sequence[Sequence[int]] = ()
    groups: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of rows, of covariates and of revenues."""
        return len(self.y), self.x.shape[1], self.r.shape[1]

    @property
    def weights(self) -> Tensor:
        """Weights of the rows, of 1 where all are equal."""
        return torch.ones(len(self.y)) if self.weight is None else self.weight

    def resampled(self, seed: int) -> TrainingRows:
        """A bootstrap sample of the rows, or of groups, drawn again until it has what they have.

        That is two values of y, and an event among times.
        """
        generator = torch.Generator().manual_seed(seed)
        units = torch.arange(len(self.y)).split(1)
        if self.groups is not None:
            units = self.groups.argsort(stable=True).split(self.groups.bincount().tolist())
        kinds = self.y if self.y.dim() == 1 else self.y[:, 1].isfinite()
        wanted = min(2, len(kinds.unique()))
        while True:
            chosen = torch.randint(len(units), (len(units),), generator=generator)
            drawn = torch.cat([units[unit] for unit in chosen.tolist()])
            if len(kinds[drawn].unique()) >= wanted:
                return self.take(drawn)

    def parted(self, share: float, most: int, seed: int) -> tuple[TrainingRows, TrainingRows]:
        """A random share of the rows, and others, of at most so many; a group is on one side."""
        generator = torch.Generator().manual_seed(seed)
        mixed = torch.randperm(len(self.y), generator=generator)[:most]
        cut = int(share * len(mixed))
        if self.groups is not None:
            group = self.groups[mixed]
            place = torch.randperm(int(group.max()) + 1, generator=generator)[group]
            place, order = place.sort(stable=True)
            mixed = mixed[order]
            cut = int((place < place[cut]).sum()) or int((place == place[0]).sum())
        return self.take(mixed[:cut]), self.take(mixed[cut:])

    def take(self, index: Tensor) -> TrainingRows:
        """The rows `index`."""
        weight, groups = (
            None if of_rows is None else of_rows[index] for of_rows in (self.weight, self.groups)
        )
        x, r, y = self.x[index], self.r[index], self.y[index]
        return self._replace(x=x, r=r, y=y, weight=weight, groups=groups)

    def with_prior(self, weight: float, seed: int) -> TrainingRows:
        """These rows, and others that keep predictions near the base rate where rows are few.

        They are a catalytic prior (Huang et al., PNAS 2020): every column, and y, is that of
        another row, so that nothing can be learned from them but how y is distributed.

        :param weight: of all of them, as a number of rows.
        """
        generator = torch.Generator().manual_seed(seed)
        count, others = len(self.y), min(len(self.y), PRIOR_ROWS)
        mean = float(self.weights.double().mean())

        def another() -> Tensor:
            return torch.randint(count, (others,), generator=generator)

        x = torch.cat([block[another()] for block in self.x.split(list(self.widths), 1)], 1)
        r = torch.stack([column[another()] for column in self.r.unbind(1)], 1)
        own = torch.full((others,), mean * weight / others, dtype=torch.float64)
        groups = self.groups
        if groups is not None:
            groups = torch.cat([groups, 1 + groups.max() + torch.arange(others)])
        return self._replace(
            x=torch.cat([self.x, x]),
            r=torch.cat([self.r, r]),
            y=torch.cat([self.y, self.y[another()]]),
            weight=torch.cat([self.weights.double(), own]),
            groups=groups,
        )


@dataclass(frozen=True)
class TrainingPlan:
    """A model and how it is trained.

    :param build: function seed -> untrained model.
    :param options: function model -> options of `fit`.
    :param prior: weight of `TrainingRows.with_prior`, as a number of rows; 0 for none.
    :param left_out: by how many members each row is left out, which say when to stop.
    :param searches: whether to search for the number of epochs.
    """

    build: Callable[[int], GCM | IGCM]
    options: Callable[[Any], Mapping[str, Any]]
    prior: float = 0.0
    left_out: int = 0
    searches: bool = False


class Trained(NamedTuple):
    """A trained model, the result of its training, and what predicts rows out of fold, if any."""

    model: Any
    result: FitResult
    crossed: Crossed | None = None


def gcm_plan(
    options: Any,
    response: str | Response,
    rows: TrainingRows,
    *,
    p0: str | None = None,
) -> TrainingPlan:
    """A GCM, of members or with another prior, as the options of an estimator have it.

    :param response: as `GCM` takes it.
    :param p0: as `GCM` takes it.
    """
    training, sizes, stops = _asked(options)
    if p0 is not None:  # several costs have late events that pass for ones that never come
        sizes = {"alternatives": 1, "costs": 1, **sizes}
    if not isinstance(options.prior, str) or options.prior != "members":
        sizes |= {"prior": options.prior, "p0": p0}
        return _plain(options, GCM, response, rows, training, sizes, stops)
    count, x_dim, r_dim = rows.shape
    if options.dropout is not None:
        training["dropout"] = options.dropout
    if "hidden" in sizes:
        sizes["width"] = sizes.pop("hidden")
    members = positive_int("members", options.members)
    settings = MemberSettings.for_response(response, count, x_dim, r_dim)
    settings = replace(settings, members=members, **sizes, **training)

    if options.epochs is None:
        warn_of_few(count)
    settings, left_out = settings.crossing(count, stops)

    def build(seed: int) -> MemberGCM:
        own: Any = {"response": deepcopy(response), "p0": p0, "ordered": rows.ordered}
        return build_members(settings, x_dim, r_dim, seed=seed, **own)

    most = MOST * settings.epochs if left_out and options.epochs is None else settings.epochs

    def of_members(model: MemberGCM) -> dict[str, Any]:
        return vars(settings.training(model)) | {"epochs": most}

    prior = PRIOR if count in FEW_ROWS else 0.0
    return TrainingPlan(build, of_members, prior, left_out)


def igcm_plan(options: Any, response: str | Response, rows: TrainingRows) -> TrainingPlan:
    """An IGCM, as the options of an estimator have it; see `gcm_plan`."""
    return _plain(options, IGCM, response, rows, *_asked(options))


def _plain(
    options: Any,
    make: Callable[..., GCM | IGCM],
    response: str | Response,
    rows: TrainingRows,
    training: Mapping[str, Any],
    parts: Mapping[str, Any],
    stops: bool | str,
) -> TrainingPlan:
    """A model that is trained with the defaults of `fit`, but for the options that are given.

    Its epochs are searched for unless they are given or rows are few.
    """
    count, x_dim, r_dim = rows.shape
    searches = stops is not False and count >= CROSSED_ROWS.start
    if searches and rows.groups is not None:
        raise ValueError(
            "groups are held out together by members alone (prior='members'): pass epochs=, so "
            "that no rows are held out, or groups=None"
        )

    def build(seed: int) -> GCM | IGCM:
        return make(x_dim, r_dim, response=deepcopy(response), seed=seed, **parts)

    def of_training(model: OrderEventModel) -> dict[str, Any]:
        return {**vars(model.training_defaults(count)), **training}

    return TrainingPlan(build, of_training, searches=searches)


def _asked(options: Any) -> tuple[dict[str, Any], dict[str, Any], bool | str]:
    """Options of the training and sizes of the model without those that are None; when it stops."""
    stops = options.early_stopping
    stops = bool(stops) if isinstance(stops, np.bool_) else stops
    if not isinstance(stops, bool | str) or stops not in (True, False, "auto"):
        raise ValueError(f'early_stopping must be "auto", True or False, got {shown(stops)}')
    if stops == "auto" and options.epochs is not None:
        stops = False  # a number of epochs that was asked for is not looked for
    training, sizes = (
        {n: check(n, v) for n, check in of.items() if (v := getattr(options, n)) is not None}
        for of in (_OF_TRAINING, _OF_MODELS)
    )
    return training, sizes, stops


def trained(
    plan: TrainingPlan,
    rows: TrainingRows,
    *,
    seed: int,
    like: FitResult | None = None,
    **common: Any,
) -> Trained:
    """A trained model, and the result of its training.

    :param like: of an earlier training, whose epochs are taken in place of those of the plan.
    :param common: options of `fit`.
    """
    model = plan.build(seed)
    options = dict(plan.options(model))
    if like is not None:
        options["epochs"] = like.best_epoch
        if plan.left_out or plan.searches:
            options["schedule"] = SCHEDULE
    if plan.prior:
        model.learn_units(*rows[:3])  # the units are those of the rows themselves
        rows, options["standardize"] = rows.with_prior(plan.prior, seed), False
    options |= {"sample_weight": rows.weight, "seed": seed, **common}
    columns = rows.x, rows.r, rows.y
    if like is None and plan.left_out:
        options |= {"left_out": plan.left_out, "groups": rows.groups}
        return Trained(model, *cross_fit(model, *columns, **options))
    if like is None and plan.searches:
        options |= {"epochs": search_epochs(model, *columns, **options), "schedule": SCHEDULE}
    return Trained(model, fit(model, *columns, **options))
