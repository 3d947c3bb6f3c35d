"""Training of a baseline, with the options of `pyro_gcm.fit`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import Optimizer

from pyro_gcm._validation import ArrayLike, kind, matrix, same_rows, vector
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.training import FitResult, Trainer, TrainingOptions, described
from pyro_gcm.training.options import Schedule


def fit(
    model: Baseline,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    *,
    standardize: bool = True,
    epochs: int = 100,
    batch_size: int = 256,
    learning_rate: float = 0.01,
    optimizer: Callable[..., Optimizer] | None = None,
    schedule: Schedule = "cosine",
    clip_norm: float | None = 10.0,
    validation: float = 0.0,
    patience: int | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: bool = True,
    checkpoint: str | Path | None = None,
    callback: Callable[[int], None] | None = None,
) -> FitResult:
    """Train a baseline on rows (x, r, y) in the units of the data.

    The options have the same meaning as in `pyro_gcm.fit`: the same seed gives the same rows in the
    same order, with the same optimiser, schedule, clipping and selection of the best epoch.

    :param model: trained in place, from its current weights.
    :param x: [n, x_dim]; `r`: [n, r_dim]; `y`: [n], 0 or 1 if the response is binary.
    :returns: the history of `model.loss`, a mean over rows with y in standardised units.
    :raises TypeError: if the model is not a baseline, or an option has a wrong type.
    :raises ValueError: for wrong shapes, values or options, before training starts.
    :raises RuntimeError: if the loss is not finite.
    """
    if not isinstance(model, Baseline):
        raise TypeError(f"model must be an instance of Baseline, got {kind(model)}")
    options = TrainingOptions(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        optimizer=optimizer,
        schedule=schedule,
        clip_norm=clip_norm,
        validation=validation,
        patience=patience,
        seed=seed,
        device=device,
        progress=progress,
        checkpoint=checkpoint,
        callback=callback,
    )
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
    data = list(columns.values())
    with torch.random.fork_rng(devices=[options.target] if options.target.type == "cuda" else []):
        torch.manual_seed(options.seed)
        order = torch.Generator().manual_seed(options.seed)
        parts = options.parts(len(data[0]), order)
        model.to(options.target)
        parameters = dict(model.named_parameters())
        identity = {"model": described(model)}
        trainer = _BaselineTrainer(model, parameters, options, data, parts, order, identity)
        if standardize:
            model.learn_units(*(column[parts[0]] for column in data))
        model.train()
        return trainer.run()


class _BaselineTrainer(Trainer):
    """Minimises the loss of a baseline."""

    def backward(self, batch: list[Tensor]) -> Tensor:
        loss: Tensor = self.model.loss(*batch)
        loss.backward()
        return loss * len(batch[0])

    def held_out_loss(self, batch: list[Tensor]) -> float:
        # The loss of PWL differentiates the score.
        with torch.enable_grad():
            return self.model.loss(*batch).item() * len(batch[0])
