"""Training of a baseline, with the options of `pyro_gcm.fit`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.evaluating import check_trainable
from pyro_gcm._utils.options import flag
from pyro_gcm._utils.threads import one_thread, torch_threads
from pyro_gcm._utils.validation import ArrayLike, full_precision, kind, matrix, same_rows, vector
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.training import (
    FitResult,
    Trainer,
    TrainingOptions,
    described,
    rows_in_memory,
    selected,
)
from pyro_gcm.training.result import entropy, warn_if_worse


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
        patience, seed, device, progress, checkpoint, callback and threads, with
        the meaning that they have in `pyro_gcm.fit` and `pyro_gcm.FitSettings`; those that a model
        may choose there are 100 epochs, batches of 256, a rate of 0.01, Adam, "cosine" and 10. The
        same seed gives the same rows in the same order.
    :returns: the history of `model.loss`, a mean over rows with y in standardised units.
    :raises TypeError: if the model is not a baseline, or an option has a wrong type.
    :raises ValueError: for wrong shapes, values or options, before training starts.
    :raises RuntimeError: if loss, gradient or weights are not finite.
    """
    data = checked_rows(model, x, r, y)
    standardize = flag("standardize", standardize)
    given = TrainingOptions(**options)
    order = torch.Generator().manual_seed(given.seed)
    parts = given.parts(len(data[0]), order)
    check_trainable(model)
    with torch_threads(given.threads):
        model.to(given.target)
        parameters = dict(model.named_parameters())
        identity = {"model": described(model), "standardize": standardize}
        rows = rows_in_memory(
            *(data, parts, given.batch_size, order, given.target),
            prepare=lambda columns: list(model.standardized(*columns)),
        )
        trainer = _BaselineTrainer(model, parameters, given, rows, identity)
        with trainer.randomness.in_use():
            if standardize:
                model.learn_units(*selected(data, parts[0]))
            model.train()
        result = trainer.run()
    warn_if_worse(result, _constant_loss(model, selected(data[2:], parts[0])[0].double()))
    return result


def _constant_loss(model: Baseline, y: Tensor) -> float | None:
    """The loss of the best score that is the same for all rows; None where levels move it."""
    if model.response == "quantile":
        return None
    if model.response == "binary":
        return entropy(y, torch.full_like(y, 1.0 / len(y)))
    return float(y.cpu().var(correction=0) / model.y_units.scale.double().cpu().square())


def checked_rows(model: Baseline, x: ArrayLike, r: ArrayLike, y: ArrayLike) -> list[Tensor]:
    """The columns x, r and y as tensors.

    :raises TypeError: if the model is not a baseline with parameters in float32 or float64.
    :raises ValueError: for wrong shapes or values.
    """
    if not isinstance(model, Baseline):
        raise TypeError(f"model must be an instance of Baseline, got {kind(model)}")
    full_precision(model)
    columns = {
        "x": matrix("x", x, model.x_dim, "x_dim"),
        "r": matrix("r", r, model.r_dim, "r_dim"),
        "y": vector("y", y),
    }
    same_rows(**columns)
    if model.response == "binary":
        other = columns["y"][(columns["y"] != 0) & (columns["y"] != 1)]
        if len(other):
            raise ValueError(f"y must be 0 or 1 for response='binary', got {float(other[0]):g}")
    model.check_revenues("r", columns["r"])
    return list(columns.values())


class _BaselineTrainer(Trainer):
    """Minimises the loss of a baseline."""

    model: Baseline

    def backward(self, batch: list[Tensor]) -> Tensor:
        loss: Tensor = self.model.standard_loss(*batch)
        loss.backward()
        return loss.detach() * len(batch[0])

    def loss(self, batch: list[Tensor]) -> float:
        # The loss of PWL differentiates the score.
        with torch.enable_grad():
            return self.model.standard_loss(*batch).item() * len(batch[0])
