"""Which response of a regressor is the better one for given rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pyro_gcm.estimators.training import Recipe, TrainingRows
from pyro_gcm.inference import fit
from pyro_gcm.inference.epoch_search import PATIENCE, SCHEDULE, VALIDATION
from pyro_gcm.training import gathered

#: The responses of a regressor, of which the first is taken where nothing speaks for another.
CHOICES = ("continuous", "distribution")
#: Rows that are looked at: fewer do not tell them apart, and more are not needed.
_FEWEST_ROWS, _MOST_ROWS = 100, 2000
#: Skewness of y, and the share of rows with one value, from which on y is no sum of many effects.
_SKEWED, _REPEATED = 0.75, 0.1


def better_response(
    recipe: Callable[[str, int], Recipe], rows: TrainingRows, *, seed: int, **common: Any
) -> str:
    """The response with the lower CRPS in rows that were held out.

    Both are trained only where y is skewed or often has the same value: there "continuous", a
    mixture of few normal densities, promises values of y that never come.

    :param recipe: function of a response and a number of rows -> how its model is trained.
    :param common: options of every `fit`.
    """
    counts = rows.counted
    if len(counts) < _FEWEST_ROWS or not _is_unusual(rows.y[counts]):
        return CHOICES[0]
    generator = torch.Generator().manual_seed(seed)
    mixed = counts[torch.randperm(len(counts), generator=generator)][:_MOST_ROWS]
    held, learn = (rows.take(part) for part in mixed.tensor_split([int(VALIDATION * len(mixed))]))
    weight = torch.ones(len(held.y)) if held.weight is None else held.weight
    scores = {}
    for name in CHOICES:
        one = recipe(name, len(learn.y))
        model = one.build(seed)
        stops = {"patience": PATIENCE, "schedule": SCHEDULE, "searches": 0, "left_out": 0}
        more = {"validation": tuple(held[:3]), "seed": seed, "sample_weight": learn.weight}
        # The weights that are best for the others are kept.
        fit(model, *learn[:3], **gathered({**one.options(model), **common, **more, **stops}))
        found = model.predictive(held.x, held.r).crps(held.y).cpu().double()
        scores[name] = float((weight * found).sum())
    return min(scores, key=scores.__getitem__)


def _is_unusual(y: Tensor) -> bool:
    centred = y - y.mean()
    skewness = centred.pow(3).mean() / centred.square().mean().pow(1.5)
    most = float(y.unique(return_counts=True)[1].max()) / len(y)
    return bool(skewness.abs() > _SKEWED) or _REPEATED < most < 1.0
