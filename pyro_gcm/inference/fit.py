"""Training: mini-batches of one data set, any Pyro bound, any torch optimiser."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pyro
import torch
from pyro.infer import ELBO, RenyiELBO, Trace_ELBO, TraceEnum_ELBO, TraceMeanField_ELBO
from torch import Tensor
from torch.optim import Optimizer

from pyro_gcm._validation import ArrayLike, kind, no_empty_column, one_of, positive, positive_int
from pyro_gcm.inference.checked_data import checked_data
from pyro_gcm.inference.importance_weighted_elbo import ImportanceWeightedELBO
from pyro_gcm.inference.program_trainer import Fittable, ProgramTrainer
from pyro_gcm.inference.temper import temper
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.training import FitResult, TrainingOptions, described

ELBOS: dict[str, Callable[..., ELBO]] = {
    "iwae": ImportanceWeightedELBO,
    "dreg": partial(ImportanceWeightedELBO, gradient="dreg"),
    "elbo": Trace_ELBO,
    "mean_field": TraceMeanField_ELBO,
    "renyi": RenyiELBO,
    "enum": TraceEnum_ELBO,
}


def fit(
    model: Fittable,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    c: ArrayLike | None = None,
    *,
    objective: str = "conditional",
    elbo: str | ELBO | None = None,
    num_particles: int = 32,
    temperature: float = 1.0,
    standardize: bool = True,
    epochs: int = 100,
    batch_size: int = 256,
    learning_rate: float = 0.01,
    optimizer: Callable[..., Optimizer] | None = None,
    schedule: Callable[[Optimizer, int], Any] | str | None = "cosine",
    clip_norm: float | None = 10.0,
    validation: float = 0.0,
    patience: int | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: bool = True,
    checkpoint: str | Path | None = None,
    callback: Callable[[int], None] | None = None,
) -> FitResult:
    """Train a model on rows (x, r, y) in the units of the data.

    The rows are put on the device once and visited in a new random order every epoch. All
    randomness comes from `seed`; torch's global generators are left as they were.

    :param model: a `GCM` or `IGCM`; put in training mode, trained in place, moved to the device.
    :param x: [n, x_dim]; `r`: [n, r_dim]; `y`: [n]. NaN in x or r is a missing value for a `GCM`
        under objective "joint".
    :param c: costs that were seen, [n, r_dim] in the units of r, NaN for the others, for a `GCM`
        with a binary response and one cost for each revenue; y may then be NaN where the outcome
        was not seen. Every row counts with what is known of it: log p(y, c_seen | x, r).
        Where a value of r is missing, either its cost or y has to be as well.
    :param objective: "conditional", log p(y | x, r); "joint", log p(x, r, y), needs prior
        "standard"; for `IGCM` also "response_revenue", log p(y, r | x), and "paper", its loss.
    :param elbo: "iwae", "dreg", "elbo", "mean_field", "renyi", "enum" or any Pyro ELBO; by default
        the one that suits: "enum" for a categorical prior, "elbo" for quantiles, else "iwae".
    :param num_particles: draws of z for each row and step, unless `elbo` is an object.
    :param temperature: factor on the log-densities of the latent sites (`inference.temper`); below
        1 the prior weighs less, as in a beta-VAE.
    :param standardize: learn the units of x, r and y from the training rows.
    :param learning_rate: of the optimiser at the start.
    :param optimizer: function (parameters, lr=...) -> optimiser; torch's Adam by default.
    :param schedule: "cosine" (down to 0), None, or a function (optimiser, total steps) -> a
        scheduler that is stepped after every batch.
    :param clip_norm: bound on the norm of the gradient, or None.
    :param validation: share of the rows, drawn with `seed`, kept for early stopping; the weights of
        the epoch with the lowest loss on them are kept.
    :param patience: epochs without improvement after which training stops; needs `validation`.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param progress: show a progress bar with the loss.
    :param checkpoint: file that holds the state after every epoch; if it exists, training goes on
        from there to the same numbers as an uninterrupted run. Removed at the end.
    :param callback: called with the number of steps done, before the first and after every step.
    :raises TypeError: for what is no such model, and options of a wrong type.
    :raises ValueError: for wrong shapes, values or options, before any work is done.
    :raises RuntimeError: if a parameter that the objective trains gets no gradient in the first
        step, or the loss is not finite.
    """
    if isinstance(model, type) or not hasattr(model, "training_pair"):
        raise TypeError(
            f"model must be a GCM or an IGCM, got {kind(model)}; "
            "pyro_gcm.baselines.fit trains baselines"
        )
    pair = model.training_pair(objective)
    bound = _bound(model, pair, elbo, num_particles)
    pair = _tempered(pair, positive("temperature", temperature))
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
    parameters = model.trained_parameters(objective)
    columns = checked_data(model, x, r, y, c, missing=pair.missing)
    for name in ("x", "r"):
        no_empty_column(name, columns[name])
    if columns["y"].isnan().all() and columns["c"].isnan().all():
        raise ValueError("y and c have no value at all, only NaN")
    data = list(columns.values())
    if getattr(bound, "gradient", "iwae") == "dreg" and any(d.isnan().any() for d in data[:2]):
        raise ValueError(
            "elbo='dreg' needs guide sites that are independent given the data, and draws of "
            "missing values depend on the others: use 'iwae'"
        )
    literal = not model.reads_x and objective in ("conditional", "response_revenue")
    if literal and temperature == 1.0:
        warnings.warn(
            f"prior='standard' under objective={objective!r} is the paper's literal loss: its "
            "optimum ignores x in z, and so in the costs. Use prior='conditional' to learn "
            "p(y | x, r).",
            stacklevel=2,
        )
    cuda = [options.target] if options.target.type == "cuda" else []
    with (
        torch.random.fork_rng(devices=cuda),
        # Whatever a program announces does not stay behind in Pyro's global store.
        pyro.get_param_store().scope(),
        _precision_of(parameters) if pair.enumerated else nullcontext(),
    ):
        torch.manual_seed(options.seed)
        order = torch.Generator().manual_seed(options.seed)
        parts = options.parts(len(data[0]), order)
        model.to(options.target)
        identity = {"objective": objective, "temperature": temperature, "loss": described(bound)}
        trainer = ProgramTrainer(
            pair, bound, model, parameters, options, data, parts, order, identity
        )
        if standardize:
            model.learn_units(*(column[parts[0]] for column in data[:3]))
        model.objective = objective
        model.train()
        return trainer.run()


@contextmanager
def _precision_of(parameters: Mapping[str, Tensor]) -> Iterator[None]:
    """torch's default dtype as the model's: Pyro's enumeration makes weights of the default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(next(iter(parameters.values())).dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _bound(
    model: Fittable, pair: TrainingPair, elbo: str | ELBO | None, num_particles: int
) -> ELBO:
    """The bound that was asked for, if this pair can be trained with it."""
    particles = positive_int("num_particles", num_particles)
    if pair.loss is not None:
        if elbo is not None:
            raise ValueError("elbo must be left out: objective='paper' is a loss of its own")
        pair.loss.num_particles = particles
        return pair.loss
    name = elbo or ("enum" if pair.enumerated else model.response.default_elbo)
    if isinstance(name, ELBO):
        bound = name
    else:
        one_of("elbo", name, list(ELBOS))
        if name == "renyi" and particles < 2:
            raise ValueError("num_particles must be at least 2 for elbo='renyi'")
        # One plate of rows: told so, Pyro need not run the program once more to find out.
        bound = ELBOS[name](
            num_particles=particles if pair.sampled else 1,
            max_plate_nesting=1,
            vectorize_particles=True,
        )
    if pair.enumerated and not isinstance(bound, TraceEnum_ELBO):
        raise ValueError(
            f"elbo={elbo!r} cannot differentiate through draws of a categorical z: use 'enum', "
            "which sums over it exactly"
        )
    if name == "enum" and not pair.enumerated:
        raise ValueError(
            "elbo='enum' sums over a finite z, and this prior has none: use prior='categorical', "
            "or elbo='elbo'"
        )
    if getattr(bound, "gradient", "iwae") == "dreg" and pair.shared:
        raise ValueError(
            f"elbo='dreg' needs a guide of its own for {', '.join(pair.shared)}: where the guide "
            "is the program's own distribution it only adds noise to the gradient; use 'iwae', or "
            "a guide such as 'posterior'"
        )
    return bound


def _tempered(pair: TrainingPair, temperature: float) -> TrainingPair:
    if temperature == 1.0:
        return pair
    if pair.loss is not None or pair.enumerated:
        raise ValueError(f"temperature must be 1 for this objective and prior, got {temperature}")
    if "z" in pair.shared:
        raise ValueError(
            "temperature weighs nothing where the guide draws z from the prior itself, since their "
            "densities cancel: pass a guide such as 'amortised' or 'posterior'"
        )
    sites = ("z", "k", "w")
    return pair._replace(
        program=temper(pair.program, temperature, sites=sites),
        guide=temper(pair.guide, temperature, sites=sites),
    )
