"""How an estimator trains its model: early stopping, warm starts and bootstrap samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm.inference import FitResult, fit
from pyro_gcm.training import gathered

#: Rows of a prior, at most.
PRIOR_ROWS = 200


class TrainingRows(NamedTuple):
    """Rows as a model reads them, and their weights or None."""

    x: Tensor
    r: Tensor
    y: Tensor
    weight: Tensor | None

    @property
    def counted(self) -> Tensor:
        """Indices of the rows that count."""
        counts = torch.ones(len(self.y)) if self.weight is None else self.weight
        return counts.nonzero()[:, 0]

    def resampled(self, seed: int) -> TrainingRows:
        """A bootstrap sample of the rows that count, drawn again until it has what they have.

        That is two values of y, and an event among times.
        """
        generator, index = torch.Generator().manual_seed(seed), self.counted
        kinds = self.y if self.y.dim() == 1 else self.y[:, 1].isfinite()
        wanted = min(2, len(kinds[index].unique()))
        while True:
            drawn = index[torch.randint(len(index), (len(index),), generator=generator)]
            if len(kinds[drawn].unique()) >= wanted:
                return self.take(drawn)

    def take(self, index: Tensor) -> TrainingRows:
        """The rows `index`."""
        weight = None if self.weight is None else self.weight[index]
        return TrainingRows(self.x[index], self.r[index], self.y[index], weight)

    def with_prior(self, widths: Sequence[int], weight: float, seed: int) -> TrainingRows:
        """These rows, and others that keep predictions near the base rate where rows are few.

        They are a catalytic prior (Huang et al., PNAS 2020): every column, and y, is that of
        another row, so that nothing can be learned from them but how y is distributed.

        :param widths: as in `trained`.
        :param weight: of all of them, as a number of rows.
        """
        generator = torch.Generator().manual_seed(seed)
        weight_of = torch.ones(len(self.y)) if self.weight is None else self.weight
        index, others = self.counted, min(len(self.counted), PRIOR_ROWS)
        mean = float(weight_of[index].double().mean())

        def another() -> Tensor:
            return index[torch.randint(len(index), (others,), generator=generator)]

        x = torch.cat([block[another()] for block in self.x.split(list(widths), 1)], 1)
        r = torch.stack([column[another()] for column in self.r.unbind(1)], 1)
        own = torch.full((others,), mean * weight / others, dtype=torch.float64)
        return TrainingRows(
            torch.cat([self.x, x]),
            torch.cat([self.r, r]),
            torch.cat([self.y, self.y[another()]]),
            torch.cat([weight_of.double(), own]),
        )


@dataclass(frozen=True)
class Recipe:
    """A model and how it is trained.

    :param build: function seed -> untrained model.
    :param options: function model -> options of `fit` and `FitSettings`, `searches` for the number
        of epochs among them.
    :param again: epochs of a training that goes on; as many as in `options` by default.
    :param prior: weight of `TrainingRows.with_prior`, as a number of rows; 0 for none.
    """

    build: Callable[[int], Any]
    options: Callable[[Any], Mapping[str, Any]]
    again: int | None = None
    prior: float = 0.0


def trained(
    recipe: Recipe,
    rows: TrainingRows,
    *,
    widths: Sequence[int],
    seed: int,
    like: FitResult | None = None,
    before: Any = None,
    **common: Any,
) -> tuple[Any, FitResult]:
    """A trained model, and the result of its training.

    :param widths: columns of x that stand for one of the table, one after the other.
    :param like: of an earlier training, whose epochs are taken in place of those of the recipe.
    :param before: a trained model that is trained on, in its own units.
    :param common: options of `fit` and `FitSettings`.
    """
    model = recipe.build(seed) if before is None else before
    options = {**recipe.options(model), "standardize": before is None}
    if before is not None:
        options |= {"epochs": recipe.again or options["epochs"], "searches": 0, "left_out": 0}
    if like is not None:
        found = like.searches or like.crossed is not None
        options |= {"epochs": None, "searches": like} if found else {"epochs": len(like.rows)}
        options["left_out"] = 0
    if recipe.prior:
        if before is None:  # the units are those of the rows themselves
            model.learn_units(*rows.take(rows.counted)[:3])
        rows, options["standardize"] = rows.with_prior(widths, recipe.prior, seed), False
    options |= {"sample_weight": rows.weight, "seed": seed, **common}
    return model, fit(model, rows.x, rows.r, rows.y, **gathered(options))
