"""Training: mini-batches of one data set, any Pyro bound, any torch optimiser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import torch
from pyro.infer import ELBO
from torch.optim import Optimizer

from pyro_gcm._utils.torch_state import check_trainable, one_thread
from pyro_gcm._utils.validation import ArrayLike, kind, warn_user
from pyro_gcm.inference.elbo import ElboName, ImportanceWeightedELBO, ObjectiveName
from pyro_gcm.inference.scored import PyroLoss, StoryLoss
from pyro_gcm.inference.training_data import DataInMemory, StreamedData, columns_of
from pyro_gcm.streams import BatchRows, Source
from pyro_gcm.training.loop import Training
from pyro_gcm.training.options import Schedule, TrainingOptions
from pyro_gcm.training.result import FitResult, constant_loss, warn_if_worse

#: Objectives whose loss is that of y given x and r.
_OF_Y = ("conditional", "members")


@one_thread()
@torch.inference_mode(False)  # with gradients, whatever the caller has switched off
def fit(
    model: Any,
    x: Any,
    r: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    exposure: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    objective: ObjectiveName | None = None,
    elbo: ElboName | ELBO | None = None,
    num_particles: int = 32,
    standardize: bool = True,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    validation: float | Sequence[ArrayLike] = 0.0,
    patience: int | None = None,
    optimizer: Callable[..., Optimizer] | None = None,
    schedule: Schedule = "default",
    clip_norm: float | Literal["default"] | None = "default",
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: bool = True,
    checkpoint: str | Path | None = None,
    callback: Callable[[int], None] | None = None,
) -> FitResult:
    """Train a model on rows (x, r, y) in the units of the data.

    The rows are put on the device once and visited in a new random order every epoch; or they are
    read anew in every epoch, so that they need not fit into memory. All randomness comes from
    `seed`; torch's global generators are left as they were. Models may be trained in several
    threads at a time, each to the numbers that it has alone. Processes that a script started by
    `torchrun` has joined to torch's default group share every batch.

    :param model: a `GCM` or `IGCM`; put in training mode, trained in place, moved to the device.
        Training starts from the weights that it has, so that a second `fit` continues the first.
    :param x: [n, x_dim]; `r`: [n, r_dim]; `y`: [n], all finite. Or, in the place of all three, rows
        that are read in every epoch: `streams.ParquetRows`, `streams.BatchRows`, or batches (x, r,
        y), of a `torch.utils.data.DataLoader` or another iterable, in the same order at each pass.
        All are read once before training, to be checked, and for means and spreads; quantiles
        come from a random sample of at most 200,000.
    :param exposure: of counts, [n], above 0, one unit of it by default; of rows that are read y has
        both columns.
    :param sample_weight: how much each row counts, [n], at least 0; rows of weight 0 are left out
        before anything else, and of the others only ratios matter: each row is there once, and the
        loss is the weighted mean. Units of the data are learned from rows counted once, a share
        kept for validation has the weights of its rows, and rows given for validation count
        equally. Any bound that `elbo` names will do. Under objective "members"
        also [n, K], a weight of each member's loss; rows with a weight of 0 are validated on by the
        members that leave them out.
    :param objective: "conditional", log p(y | x, r), the default; "members", the mean over the
        members of log p(y | z, x, r), the default where z is a member; "joint", log p(x, r, y),
        needs prior "standard"; for `IGCM` also "paper", its loss.
    :param elbo: "iwae", "dreg", "elbo", "mean_field", "renyi", "enum" or an ELBO object of Pyro,
        whose own loss is then minimised; by default the one that suits: "enum" for a categorical
        prior, "elbo" for quantiles, else "iwae".
    :param num_particles: draws of z for each row and step, unless `elbo` is an object; quasi-random
        ones of sites without a guide, wherever fixed noise can drive them.
    :param standardize: learn the units of x, r and y from the training rows.
    :param epochs: passes over the rows; 100, or what the model asks for (`training_defaults`), as
        also where the next five are left out.
    :param batch_size: rows of a step, 256.
    :param learning_rate: of the optimiser at the start, 0.01.
    :param validation: share of the rows, drawn with `seed`, that are held out, or rows (x, r, y)
        beside the others; the weights of the epoch with the lowest loss on them are kept.
    :param patience: epochs without improvement after which training stops; needs `validation`. The
        weights that are validated and kept are then averages over the steps of the last epoch,
        since those of a single step predict too much or too little on the whole while the learning
        rate is high; so they are with schedule="constant".
    :param optimizer: function (parameters, lr=...) -> optimiser; torch's Adam.
    :param schedule: "cosine" (down to 0), the default, "flat" (constant, then down to 0 over the
        last 40 % of the steps) and "constant", both after a warm-up of at most 50 steps, None, or a
        function (optimiser, total steps) -> a scheduler that is stepped after every batch.
    :param clip_norm: bound on the norm of the gradient, 10, or None.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param progress: show a progress bar with the loss.
    :param checkpoint: file that holds the state after every epoch; if it exists, training goes on
        from there, with the same options, and functions of yours that do the same. Removed at the
        end.
    :param callback: called with the number of steps done, before the first and after every step.
    :raises TypeError: if `model` is not such a model, and for options of a wrong type.
    :raises ValueError: for wrong shapes, values or options, before any work is done.
    :raises RuntimeError: if a parameter that the objective trains gets no gradient in the first
        step.
    :raises Diverged: if loss, gradient or weights are not finite: the message names the batch, and
        the model has the weights of the last whole epoch.
    :raises OSError: if the checkpoint cannot be written.
    """
    if isinstance(model, type) or not hasattr(model, "training_pair"):
        raise TypeError(
            f"model must be a GCM or an IGCM, got {kind(model)}; "
            "pyro_gcm.baselines.fit trains baselines"
        )
    model.check_story("model", "guide")
    model.response.check_whole()
    objective = model.default_objective if objective is None else objective
    is_read = not isinstance(elbo, ELBO) or type(elbo) is ImportanceWeightedELBO
    share: Any = validation
    beside = None
    if not isinstance(validation, Real):
        try:
            share, beside = 0.0, columns_of(model, *validation)  # type: ignore[misc]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"validation must be a share of the rows, or rows (x, r, y): {error}"
            ) from error
    asked: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size}
    asked |= {"learning_rate": learning_rate, "optimizer": optimizer}
    asked = {name: value for name, value in asked.items() if value is not None}
    or_none = {"schedule": schedule, "clip_norm": clip_norm}
    asked |= {name: value for name, value in or_none.items() if value != "default"}
    asked |= {"validation": share, "patience": patience, "seed": seed, "device": device}
    asked |= {"progress": progress, "checkpoint": checkpoint, "callback": callback}

    def options_for(count: int) -> TrainingOptions:
        return TrainingOptions(**{**vars(model.training_defaults(count)), **asked})

    options = options_for(1)
    if exposure is not None:
        if y is None:
            raise ValueError("exposure needs x, r and y in memory")
        y = model.response.exposed(y, exposure)
    rows: DataInMemory | StreamedData
    if r is None and y is None:
        if sample_weight is not None:
            raise ValueError("sample_weight needs x, r and y in memory")
        source = x if isinstance(x, Source) else BatchRows(x)
        rows = StreamedData(model, source, beside, options)
    else:
        rows = DataInMemory(model, (x, r, y), sample_weight, beside, options)
    model.show(rows.units["x"], rows.units["r"])
    pair = model.training_pair(objective)
    bound = pair.bound(elbo, num_particles, model.response.default_elbo)
    weighted = rows.weights is not None
    of_members = rows.weights is not None and rows.weights.dim() == 2
    if weighted and not is_read:
        raise ValueError(f"sample_weight needs one of the names of elbo, got {elbo!r}")
    if of_members and not pair.plan.averages:
        raise ValueError("sample_weight must be [n] but for members with objective='members'")
    if found := model.response.nothing_to_learn(*rows.ends):
        warn_user(found)
    options = options_for(rows.rows)
    parameters = model.trained_parameters(objective)
    if not model.reads_x and objective == "conditional":
        warn_user(
            f"prior='standard' under objective={objective!r} is the paper's literal loss: its "
            "optimum ignores x in z, and so in the costs. Use prior='conditional' to learn "
            "p(y | x, r)."
        )
    learn, held_out = rows.batches(options, next(iter(parameters.values())).dtype)
    loss: StoryLoss | PyroLoss
    if is_read:
        loss = StoryLoss(model, pair.plan, bound, learn.rows, weighted)
    else:
        loss = PyroLoss(model, pair, bound, learn.rows)
    check_trainable(model)
    model.to(options.target)
    model.adapt(rows.rows, epochs=epochs)
    given = {
        "objective": objective,
        "elbo": elbo if isinstance(elbo, str | None) else type(elbo).__name__,
        "num_particles": bound.num_particles,
        "standardize": standardize,
        "columns": rows.names,
        "sample_weight": weighted,
    }
    training = Training(model, parameters, loss, loss.score, learn, held_out, options, given)
    with training.randomness.in_use():
        if standardize:
            model.learn_units(**rows.units)
        model.read_rows(rows.units["x"], rows.units["r"])
        model.objective = objective
        model.train()
    result = training.run()
    # Elsewhere the bound may be a loose one, and say little of the prediction.
    if objective in _OF_Y and model.z_guide is None and elbo not in ("elbo", "mean_field"):
        constant = constant_loss(model.response.constant_loss, *rows.outcomes)
        warn_if_worse(result, constant, validated=not pair.plan.averages)
    model.training_summary = {
        "rows": learn.rows,
        "validation_rows": 0 if of_members else held_out.rows,
        "objective": objective,
        "loss": result.rows[-1]["loss"],
        "epochs": len(result.rows),
        "best_epoch": result.best_epoch,
        "seed": options.seed,
        "columns": rows.names,
    }
    return result
