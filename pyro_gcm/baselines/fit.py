"""Training of a baseline, with the options of `pyro_gcm.fit`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import check_trainable, one_thread
from pyro_gcm._utils.validation import (
    ArrayLike,
    full_precision,
    matrix,
    same_rows,
    vector,
)
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.training.batches import RowsInMemory, selected
from pyro_gcm.training.loop import Training
from pyro_gcm.training.options import TrainingOptions
from pyro_gcm.training.result import FitResult, entropy, warn_if_worse


@one_thread()
@torch.inference_mode(False)  # with gradients, whatever the caller has switched off
def fit(
    model: Baseline,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    *,
    standardize: bool = True,
    **options: Any,
) -> FitResult:
    """Train a baseline on rows (x, r, y) in the units of the data.

    :param model: trained in place, from its current weights.
    :param x: [n, x_dim]; `r`: [n, r_dim]; `y`: [n], 0 or 1 if the response is binary.
    :param standardize: whether to learn the units of x, r and y from the training rows.
    :param options: epochs, batch_size, learning_rate, optimizer, schedule, clip_norm, validation,
        patience, seed, device, progress, checkpoint and callback, with the meaning that they have
        in `pyro_gcm.fit`; those that a model may choose there are 100 epochs, batches of 256, a
        rate of 0.01, Adam, "cosine" and 10. The same seed gives the same rows in the same order.
    :returns: the history of `model.loss`, a mean over rows with y in standardised units.
    :raises TypeError: if an option has a wrong type.
    :raises ValueError: for wrong shapes, values or options, before training starts.
    :raises RuntimeError: if loss, gradient or weights are not finite.
    """
    full_precision(model)
    rows = {
        "x": matrix("x", x, model.x_dim, "x_dim"),
        "r": matrix("r", r, model.r_dim, "r_dim"),
        "y": vector("y", y),
    }
    same_rows(**rows)
    data = [*rows.values()]
    other = data[2][(data[2] != 0) & (data[2] != 1)]
    if model.response == "binary" and len(other):
        raise ValueError(f"y must be 0 or 1 for response='binary', got {float(other[0]):g}")
    model.check_revenues("r", data[1])
    named = {name: v for name, v in sorted(vars(model).items()) if not name.startswith("_")}
    numbers = {name: v for name, v in named.items() if isinstance(v, bool | int | float | str)}
    given = TrainingOptions(**options)
    order = torch.Generator().manual_seed(given.seed)
    learn, held_out = given.parts(len(data[0]), order)
    check_trainable(model)
    model.to(given.target)
    columns = [column.to(given.target) for column in data]

    def batches(index: Tensor, order: torch.Generator | None) -> RowsInMemory:
        size = given.batch_size
        return RowsInMemory(columns, index, size, order, lambda rows: [*model.standardized(*rows)])

    def loss(batch: list[Tensor]) -> Tensor:
        return model.standard_loss(*batch) * len(batch[0])

    def score(batch: list[Tensor]) -> Tensor:
        with torch.enable_grad():  # the loss of PWL differentiates the score
            return loss(batch).detach()

    training = Training(
        *(model, dict(model.named_parameters()), loss, score),
        *(batches(learn, order), batches(held_out, None)),
        given,
        {"standardize": standardize, **numbers},
    )
    with training.randomness.in_use():
        if standardize:
            model.learn_units(*selected(data, learn))
        model.train()
    result = training.run()
    warn_if_worse(result, _constant_loss(model, selected(data[2:], learn)[0].double()))
    return result


def _constant_loss(model: Baseline, y: Tensor) -> float | None:
    """The loss of the best score that is the same for all rows; None where levels move it."""
    if model.response == "quantile":
        return None
    if model.response == "binary":
        return entropy(y, torch.full_like(y, 1.0 / len(y)))
    return float(y.cpu().var(correction=0) / model.y_units.scale.double().cpu().square())
