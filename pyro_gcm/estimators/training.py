"""How an estimator trains its model: early stopping, warm starts and bootstrap samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm.inference import FitResult, fit


class TrainingRows(NamedTuple):
    """Rows as a model reads them, and their weights or None."""

    x: Tensor
    r: Tensor
    y: Tensor
    weight: Tensor | None

    def resampled(self, seed: int) -> TrainingRows:
        """A bootstrap sample of the rows that count, the first with both of two values of y."""
        generator = torch.Generator().manual_seed(seed)
        counts = torch.ones(len(self.y)) > 0 if self.weight is None else self.weight > 0
        index = counts.nonzero()[:, 0]
        values = min(2, len(self.y[index].unique(dim=0)))
        while True:
            drawn = index[torch.randint(len(index), (len(index),), generator=generator)]
            if len(self.y[drawn].unique(dim=0)) >= values:
                break
        weight = None if self.weight is None else self.weight[drawn]
        return TrainingRows(self.x[drawn], self.r[drawn], self.y[drawn], weight)


@dataclass(frozen=True)
class Recipe:
    """A model and how it is trained.

    :param build: function seed -> untrained model.
    :param options: function model -> options of `fit`, `searches` for the number of epochs among
        them.
    """

    build: Callable[[int], Any]
    options: Callable[[Any], Mapping[str, Any]]


def trained(
    recipe: Recipe,
    rows: TrainingRows,
    *,
    seed: int,
    like: FitResult | None = None,
    before: Any = None,
    **common: Any,
) -> tuple[Any, FitResult]:
    """A trained model, and the result of its training.

    :param like: of an earlier training, whose epochs are taken in place of those of the recipe.
    :param before: a trained model that is trained on, in its own units.
    :param common: options of `fit`.
    """
    model = recipe.build(seed) if before is None else before
    options = {**recipe.options(model), "standardize": before is None}
    if before is not None:
        options["searches"] = 0
    if like is not None:
        options |= {"epochs": len(like.rows), "searches": like if like.searches else 0}
    columns = rows.x, rows.r, rows.y
    result = fit(model, *columns, **options, sample_weight=rows.weight, seed=seed, **common)
    return model, result
