"""Training: mini-batches of one data set, any Pyro bound, any torch optimiser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from pyro.infer import ELBO

from pyro_gcm._utils.evaluating import check_trainable
from pyro_gcm._utils.options import flag
from pyro_gcm._utils.threads import one_thread, torch_threads
from pyro_gcm._utils.validation import ArrayLike, kind, one_of, positive_int, shown
from pyro_gcm._utils.warn import warn_user
from pyro_gcm.inference.bounds import PaperLoss, check_weighable
from pyro_gcm.inference.elbo import ImportanceWeightedELBO
from pyro_gcm.inference.epoch_search import MOST, SCHEDULE, Search, search_epochs
from pyro_gcm.inference.program_trainer import ProgramTrainer
from pyro_gcm.inference.reading import StoryModel
from pyro_gcm.inference.scored import QuasiRandomNoise
from pyro_gcm.inference.training_data import DataInMemory, StreamedData
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.training import (
    FitResult,
    FitSettings,
    TrainingDefaults,
    TrainingOptions,
    described,
    workers_of,
)
from pyro_gcm.training.cross_fit import Crossed, CrossFit, patience_of
from pyro_gcm.training.result import constant_loss, warn_if_worse

#: Objectives whose loss is that of y given x and r.
_OF_Y = ("conditional", "members")
#: ELBO classes of this package, which are functions of log-densities that the reader gives, too.
_READ = (ImportanceWeightedELBO, PaperLoss)
_OPTIONS = {field.name for field in fields(TrainingOptions)}


@one_thread()
@torch.inference_mode(False)  # with gradients, whatever the caller has switched off
def fit(
    model: Fittable,
    x: ArrayLike | None = None,
    r: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    data: Any = None,
    sample_weight: ArrayLike | None = None,
    objective: str | None = None,
    elbo: str | ELBO | None = None,
    num_particles: int = 32,
    standardize: bool = True,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    validation: float | Sequence[ArrayLike | None] = 0.0,
    searches: int | FitResult | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: bool = True,
    checkpoint: str | Path | None = None,
    callback: Callable[[int], None] | None = None,
    settings: FitSettings | None = None,
) -> FitResult:
    """Train a model on rows (x, r, y) in the units of the data.

    The rows are put on the device once and visited in a new random order every epoch; or, with
    `data`, read anew in every epoch and shuffled within a window, so that they need not fit into
    memory. All randomness comes from `seed`; torch's global generators are left as they were.
    Models may be trained in several threads at a time, each to the numbers that it has alone.

    :param model: a `GCM` or `IGCM`; put in training mode, trained in place, moved to the device.
        Training starts from the weights that it has, so that a second `fit` continues the first.
    :param x: [n, x_dim]; `r`: [n, r_dim]; `y`: [n]. None of them may have NaN.
    :param data: rows in the place of x, r and y: a `pyarrow.dataset.Dataset` of Parquet files, a
        table or a data frame, of which x and r then name the columns and y names one; or batches,
        a `torch.utils.data.DataLoader` or another iterable of (x, r, y), which gives the same ones
        in the same order at each pass. All rows are read once before training, to be checked, and
        for their means and spreads; quantiles come from a random sample of at most 200,000.
    :param sample_weight: how much each row counts, [n], at least 0; rows of weight 0 are left out
        before anything else. Whole numbers that add up to at most 1,000,000 are counts: the fit is
        that to as many equal rows, in every respect. Of all others only ratios matter: each row is
        there once, and the loss is the weighted mean. Units of the data are then learned from rows
        counted once, a share kept for validation has the weights of its rows, and rows given for
        validation count equally. Any bound that `elbo` names will do, and one with a method
        `row_losses(program, guide, *data)`, the losses of the rows [B]. To have whole numbers as
        ratios, divide them by their mean.
    :param objective: "conditional", log p(y | x, r), the default; "members", the mean over the
        members of log p(y | z, x, r), the default where z is a member; "joint", log p(x, r, y),
        needs prior "standard"; for `IGCM` also "paper", its
        loss in the paper.
    :param elbo: "iwae", "dreg", "elbo", "mean_field", "renyi", "enum" or an ELBO object of Pyro,
        whose own loss is then minimised; by default the one that suits: "enum" for a categorical
        prior, "elbo" for quantiles, else "iwae".
    :param num_particles: draws of z for each row and step, unless `elbo` is an object.
    :param standardize: learn the units of x, r and y from the training rows.
    :param epochs, batch_size: 100 and 256 by default, or what the model asks for
        (`training_defaults`), as it does with members.
    :param learning_rate: of the optimiser at the start; 0.01, or what the model asks for.
    :param validation: share of the rows, drawn with `seed`, kept for early stopping, or rows (x, r,
        y) for it beside the others; the weights of the epoch with the lowest loss on them are kept.
    :param searches: on how many parts of the rows, one after the other and each without 15 % of
        them, the number of epochs is looked for that is best for the others, at most `epochs`;
        training on all rows follows. By default all of them have a constant learning rate, and they
        keep averages of the weights as with `patience`. Or the result of another fit, whose number
        is taken. By default none, or for members in memory what the model asks for, where neither
        epochs, a schedule nor rows for validation are given.
    :param device: "auto" (CUDA where there is one), or a torch device.
    :param progress: show a progress bar with the loss.
    :param checkpoint: file that holds the state after every epoch; if it exists, training resumes
        from there to the same numbers as an uninterrupted run, or with a lower `learning_rate`.
        Every bit of it is checked. Removed at the end. Searches for the number of epochs come first
        and write nothing.
    :param callback: called with the number of steps done, before the first and after every step of
        the training, those of searches excepted.
    :param settings: what few runs change, such as the optimiser and the schedule, quasi-random
        draws, `patience` of early stopping, threads and processes: see `FitSettings`.
    :raises TypeError: if `model` is not such a model, and for options of a wrong type.
    :raises ValueError: for wrong shapes, values or options, before any work is done.
    :raises RuntimeError: if a parameter that the objective trains gets no gradient in the first
        step, or if loss, gradient or weights are not finite: the message names the batch, and the
        model has the weights of the last whole epoch.
    :raises WorkerLost: if another process has ended or does not answer.
    :raises OSError: if the checkpoint cannot be written.
    """
    given = dict(locals())
    if not isinstance(settings, FitSettings | None):
        raise TypeError(f"settings must be FitSettings, got {shown(settings)}")
    given["settings"] = also = settings or FitSettings()
    if isinstance(model, type) or not hasattr(model, "training_pair"):
        raise TypeError(
            f"model must be a GCM or an IGCM, got {kind(model)}; "
            "pyro_gcm.baselines.fit trains baselines"
        )
    model.check_story("model", "guide")
    model.response.check_whole()
    objective = model.default_objective if objective is None else objective
    pair = model.training_pair(objective)
    bound = pair.bound(elbo, num_particles, model.response.default_elbo)
    pair = pair.tempered(also.temperature)
    one_of("particles", also.particles, ["random", "qmc"])
    standardize = flag("standardize", standardize)
    if data is None and isinstance(y, str):
        raise TypeError(
            f"y must be a numeric array or tensor, got str {y!r}; "
            "to name a column, give the table that has it as data"
        )
    rows: DataInMemory | StreamedData
    if data is None:
        weights_and_groups = sample_weight, also.groups
        rows = DataInMemory(model, (x, r, y), *weights_and_groups, validation)
    else:
        for name, value in (("sample_weight", sample_weight), ("groups", also.groups)):
            if value is not None:
                raise ValueError(f"{name} must be left out with data, got {kind(value)}")
        rows = StreamedData(model, data, (x, r, y), validation, also.memory)
    is_read = not isinstance(elbo, ELBO) or type(bound) in _READ
    if rows.weighted and not is_read:
        check_weighable(bound)

    cross_fit = _cross_fit(given, rows, bool(pair.averaged))

    def chosen(search: Search) -> TrainingOptions:
        usual = model.training_defaults(rows.rows or 1)._asdict()
        asked = {**given, **vars(also), "validation": rows.share, "held_out": rows.held_out}
        asked["cross_fit"] = cross_fit
        if cross_fit is not None:
            asked["patience"] = also.patience or patience_of(rows.rows or 1)
            asked["epochs"] = epochs or MOST * usual["epochs"]
        if search.epochs is not None:
            asked |= {"epochs": search.epochs, "averages": True}
        if cross_fit is not None or search.epochs is not None:
            usual["schedule"] = SCHEDULE
        own = {name: asked[name] for name in _OPTIONS & asked.keys()}
        own |= {name: usual[name] for name in own if _is_left_out(name, own[name])}
        return TrainingOptions(**own)

    options, workers = chosen(Search()), workers_of(also.distributed)
    rows.split_rows(options)
    search = search_epochs(fit, given, rows.rows or 1, workers)
    options = chosen(search)  # now that the number of rows is known
    parameters = model.trained_parameters(objective)
    literal = not model.reads_x and objective == "conditional"
    if literal and also.temperature == 1.0:
        warn_user(
            f"prior='standard' under objective={objective!r} is the paper's literal loss: its "
            "optimum ignores x in z, and so in the costs. Use prior='conditional' to learn "
            "p(y | x, r)."
        )
    check_trainable(model)
    with torch_threads(options.threads), workers.used():
        model.to(options.target)
        model.adapt(rows.rows or 1, epochs=epochs)
        identity = {
            **{name: getattr(also, name) for name in ("temperature", "particles")},
            **{"objective": objective, "loss": described(bound), "standardize": standardize},
            **{"epochs": options.epochs, "searches": search.parts},
            **{"left_out": cross_fit.left_out if cross_fit else 0},
        }
        like, points = next(iter(parameters.values())), None
        if also.particles == "qmc":
            if not is_read:
                raise ValueError(
                    "particles must be 'random' where elbo is an ELBO of Pyro, which draws by "
                    "itself"
                )
            points = QuasiRandomNoise(bound.num_particles, model.latent_dim, options.seed, like)
        how = pair, bound, points, is_read, rows.weighted, cross_fit
        run = rows.of_run(options, like.dtype), identity, workers
        trainer = ProgramTrainer(*how, model, parameters, options, *run)
        trainer.numbers_rows = sample_weight is None
        with trainer.randomness.in_use():
            if standardize:
                rows.learn_units()
            model.objective = objective
            model.train()
        result = replace(trainer.run(), searches=search.results)
        if cross_fit is not None and rows.fold is not None:
            result = replace(result, crossed=Crossed(cross_fit, rows.fold, trainer.crossed))
    of_y = objective in _OF_Y and also.temperature == 1.0
    # Elsewhere the bound may be a loose one, and say little of the prediction.
    if of_y and model.z_guide is None and elbo not in ("elbo", "mean_field"):
        loss = constant_loss(model.response.constant_loss, *rows.outcomes)
        warn_if_worse(result, loss, validated=not pair.averaged)
    model.training_summary = {
        "rows": trainer.training.rows,
        "validation_rows": 0 if cross_fit else trainer.validation.rows,
        "left_out": cross_fit.left_out if cross_fit else 0,
        "objective": objective,
        "loss": result.rows[-1]["loss"],
        "epochs": len(result.rows),
        "best_epoch": result.best_epoch,
        "seed": options.seed,
        "columns": rows.names,
    }
    return result


def _cross_fit(
    given: dict[str, Any], rows: DataInMemory | StreamedData, averages: bool
) -> CrossFit | None:
    """Which members leave out which rows, as the settings or the model have it.

    :param averages: whether the objective trains every member on its own likelihood.
    :raises ValueError: for rows that are left out where they cannot be.
    """
    model, also = given["model"], given["settings"]
    free = given["data"] is None and rows.given is None and rows.share == 0.0
    count = also.left_out
    if count is None:
        by_default = free and averages and given["epochs"] is None and given["searches"] is None
        by_default &= also.schedule == "default"
        if not by_default or model.is_trained or isinstance(given["elbo"], ELBO):
            return None
        count = model.training_defaults(rows.rows or 1).left_out
    count = positive_int("left_out", count, minimum=0)
    if count and not (free and averages and not given["searches"]):
        raise ValueError(
            "left_out must be 0 but for members with objective='members' and rows in memory, "
            f"without validation and searches, got {count}"
        )
    if count and not model.can_leave_out:
        raise ValueError(
            "left_out must be 0 for members with scaling='output', which learn rows by heart for "
            f"those that leave them out, got {count}"
        )
    if count >= max(model.members, 1):
        raise ValueError(f"left_out must be below the {model.members} members, got {count}")
    return CrossFit(model.members, count) if count else None


def _is_left_out(name: str, value: Any) -> bool:
    """Whether an option is left to the model; None means no schedule, or no bound of gradients."""
    if name in ("schedule", "clip_norm"):
        return isinstance(value, str) and value == "default"
    return value is None and name in TrainingDefaults._fields


class Fittable(StoryModel, Protocol):
    """A `GCM`, an `IGCM`, or another torch module with the same parts."""

    training_summary: Any  # how it was trained last, in plain data
    objective: str  # and for what

    @property
    def latent_dim(self) -> int:
        """Coordinates that a guide draws for a row."""

    @property
    def default_objective(self) -> str:
        """The objective of `fit` by default."""

    def check_story(self, *views: str) -> None:
        """TypeError for a subclass that overrides one of these views of its story."""

    def training_defaults(self, rows: int) -> TrainingDefaults:
        """Options of `fit` where they are left out, for a number of rows."""

    def adapt(self, rows: int, *, epochs: int | None) -> None:
        """Choose what was left to the number of rows, before training."""

    def train(self, mode: bool = True) -> Any:
        """Switch between training and evaluation mode."""

    def training_pair(self, objective: str) -> TrainingPair:
        """Return the program and the guide of an objective; ValueError if it does not apply."""

    def trained_parameters(self, objective: str) -> dict[str, torch.nn.Parameter]:
        """The parameters that an objective trains."""

    def to(self, device: torch.device) -> Any:
        """Move the model to a device."""
