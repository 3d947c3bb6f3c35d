"""How an estimator trains its model: early stopping, warm starts and bootstrap samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm.inference import FitResult, fit
from pyro_gcm.members import VALIDATION, best_epoch


class TrainingRows(NamedTuple):
    """Rows as a model reads them, and their weights or None."""

    x: Tensor
    r: Tensor
    y: Tensor
    weight: Tensor | None

    def resampled(self, seed: int) -> TrainingRows:
        """A bootstrap sample of the rows that count, in which no class of 0 and 1 gets lost."""
        generator = torch.Generator().manual_seed(seed)
        counts = torch.ones(len(self.y)) > 0 if self.weight is None else self.weight > 0
        parts = [counts.nonzero()[:, 0]]
        if self.y.dim() == 1 and ((self.y == 0) | (self.y == 1)).all():
            parts = [((self.y == label) & counts).nonzero()[:, 0] for label in (0, 1)]
        drawn = torch.cat(
            [part[torch.randint(len(part), (len(part),), generator=generator)] for part in parts]
        )
        return self.take(drawn)

    def take(self, index: Tensor) -> TrainingRows:
        """The rows `index`."""
        weight = None if self.weight is None else self.weight[index]
        return TrainingRows(self.x[index], self.r[index], self.y[index], weight)


@dataclass(frozen=True)
class Recipe:
    """A model and how it is trained.

    :param build: function seed -> untrained model.
    :param options: function model -> options of `fit`.
    :param searches: on how many parts of the rows, one after the other, the number of epochs is
        looked for; 0 if it is not.
    """

    build: Callable[[int], Any]
    options: Callable[[Any], Mapping[str, Any]]
    searches: int


def trained(
    recipe: Recipe,
    rows: TrainingRows,
    *,
    seed: int,
    epochs: int | None = None,
    before: Any = None,
    **common: Any,
) -> tuple[Any, FitResult]:
    """A trained model, and the result of its training.

    :param epochs: in place of those of the recipe, which are not looked for then.
    :param before: a trained model that is trained on, in its own units.
    :param common: options of every `fit`.
    """
    common = {**common, "seed": seed, "sample_weight": rows.weight}

    def run(model: Any, **more: Any) -> FitResult:
        options = {**recipe.options(model), **common, **more}
        return fit(model, rows.x, rows.r, rows.y, **options)

    if before is not None:
        return before, run(before, standardize=False)
    more = {} if epochs is None else {"epochs": epochs}
    if recipe.searches and epochs is None:
        searches = [
            run(recipe.build(seed), validation=VALIDATION, seed=seed + part)
            for part in range(recipe.searches)
        ]
        more = {"epochs": best_epoch(*searches)}
    model = recipe.build(seed)
    return model, run(model, **more)
