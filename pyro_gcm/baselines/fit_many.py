"""Training of several copies of a baseline side by side, as one program of tensors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.utils import vector_to_parameters

from pyro_gcm._utils.torch_state import Randomness, check_trainable, one_thread
from pyro_gcm._utils.validation import ArrayLike, seed_of
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.fit import checked_rows, scalars
from pyro_gcm.training import Diverged, FitResult, RowsInMemory, TrainingOptions


@one_thread()
@torch.inference_mode(False)  # with gradients, whatever the caller has switched off
def fit_many(
    models: Sequence[Baseline],
    x: Sequence[ArrayLike],
    r: Sequence[ArrayLike],
    y: Sequence[ArrayLike],
    *,
    seeds: Sequence[int],
    standardize: bool = True,
    **options: Any,
) -> list[FitResult | Diverged]:
    """Train copies of a baseline side by side, each on rows of its own, faster than one by one.

    Every copy gets the weights that `fit` gives it with its seed, up to rounding: its batches come
    in the same order, and its gradient is clipped by its own norm. Only what a loss draws, as that
    of `Hint` does, are other random numbers. Steps of small networks are several times as fast as
    those of `fit`; before the first one, a second or two go into recording it.

    The loss is mapped over the copies by `torch.func.vmap` and recorded as a list of operations, so
    a baseline of one's own must neither decide by the values of tensors nor change buffers in it.

    :param models: different objects of one class, with the same sizes and options; trained in
        place, from their current weights.
    :param x: [n, x_dim] for each model; `r`: [n, r_dim]; `y`: [n]. All have the same n.
    :param seeds: of the order of the rows, one for each model.
    :param standardize: whether every model learns the units of its rows.
    :param options: epochs, batch_size, learning_rate, optimizer, schedule, clip_norm, device,
        progress and callback, as in `fit`. The optimiser gets one parameter, [models,
        weights of a model], and has to treat every element by itself, as Adam, AdamW and SGD do.
    :returns: for each model its result, whose seconds are those of all models, or `Diverged` where
        its loss or a weight became infinite or NaN; the others go on.
    :raises TypeError: if a model is not a baseline, or an option is one that `fit` alone has.
    :raises ValueError: for wrong shapes, values or options, for lists of different lengths, or for
        models that differ in more than their numbers, before training starts.
    """
    for name in ("seed", "validation", "patience", "checkpoint"):
        if name in options:
            raise TypeError(f"{name} is an option of fit alone, not of fit_many")
    given, copies = TrainingOptions(**options), []
    for model, *columns, seed in zip(models, x, r, y, seeds, strict=True):
        data = checked_rows(model, *columns)
        if _kind(model) != _kind(models[0]):
            raise ValueError(
                f"models must be alike in class, options, shapes, type and requires_grad, got "
                f"{_kind(models[0])} and {_kind(model)}"
            )
        check_trainable(model)
        copies.append((model, data, torch.Generator().manual_seed(seed_of(seed))))
    rows = []
    randomness = Randomness(copies[0][2].initial_seed(), given.target)
    for model, data, order in copies:
        model.to(given.target)
        columns = [column.to(given.target) for column in data]
        index, prepare = given.parts(len(columns[0]), order)[0], partial(_standardized, model)
        if standardize:
            model.learn_units(*columns)
        model.train()
        rows.append(RowsInMemory(columns, index, given.batch_size, order, prepare))
    return _run(list(models), rows, given, randomness)


def _kind(model: Baseline) -> tuple[Any, ...]:
    """What copies must have in common."""
    tensors = [(n, *p.shape, p.dtype, p.requires_grad) for n, p in model.named_parameters()]
    return type(model).__name__, scalars(model), tensors


def _standardized(model: Baseline, columns: list[Tensor]) -> list[Tensor]:
    return [*model.standardized(*columns)]


def _run(
    models: list[Baseline],
    rows: list[RowsInMemory],
    options: TrainingOptions,
    randomness: Randomness,
) -> list[FitResult | Diverged]:
    """Train copies, whose parameters are views of one tensor of weights while it lasts."""
    from tqdm.auto import tqdm

    vectors = [torch.cat([p.detach().flatten() for p in m.parameters()]) for m in models]
    weights = nn.Parameter(torch.stack(vectors))  # [S, P]
    for model, vector in zip(models, weights.detach(), strict=True):
        vector_to_parameters(vector, model.parameters())
    optimizer = options.make_optimizer([weights])
    scheduler = options.make_scheduler(optimizer, options.epochs * rows[0].steps)
    buffers = [torch.stack(each) for each in zip(*(m.buffers() for m in models), strict=True)]
    step_of, callback = _Step(models[0], options.clip_norm), options.callback or (lambda step: None)
    histories: list[list[dict[str, float]]] = [[] for _ in models]
    diverged: dict[int, Diverged] = {}
    step = 0
    try:
        callback(step)
        bar = tqdm(range(1, options.epochs + 1), "fit", unit="epoch", disable=not options.progress)
        for epoch in bar:
            if len(diverged) == len(models):
                break
            start, rate = time.perf_counter(), optimizer.param_groups[0]["lr"]
            taken: list[Tensor] = []
            for batches in zip(*(each.epoch(epoch) for each in rows), strict=True):
                batch = [torch.stack(columns) for columns in zip(*batches, strict=True)]
                with randomness.in_use(), torch.no_grad():
                    loss, weights.grad = step_of(weights, batch, buffers)
                    optimizer.step()
                    if scheduler is not None:
                        scheduler.step()
                taken.append(loss * batch[0].shape[1])
                step += 1
                callback(step)
            losses = torch.stack(taken).double().sum(0).cpu() / rows[0].rows
            finite = (losses + weights.detach().sum(1).double().cpu()).isfinite()
            for copy, history in enumerate(histories):
                if not finite[copy]:
                    why = f"loss or weights are not finite in epoch {epoch}"
                    diverged.setdefault(copy, Diverged(f"{why}: lower learning_rate or clip_norm"))
                row = {"epoch": epoch, "step": step, "loss": losses[copy].item()}
                seconds = time.perf_counter() - start
                history.append({**row, "learning_rate": rate, "seconds": seconds})
            bar.set_postfix(loss=f"{losses.mean():.4f}")
    finally:
        for parameter in (p for model in models for p in model.parameters()):
            parameter.data = parameter.data.clone()
    return [
        diverged.get(copy) or FitResult(history, len(history), False)
        for copy, history in enumerate(histories)
    ]


class _Loss(nn.Module):
    """The loss of a model as a call of a module, which `functional_call` needs."""

    def __init__(self, model: Baseline) -> None:
        super().__init__()
        self.model = model

    def forward(self, *batch: Tensor) -> Tensor:
        """Return `Baseline.standard_loss` of a batch."""
        return self.model.standard_loss(*batch)


class _Step:
    """Losses and clipped gradients of all copies: recorded programs.

    :param model: the copy whose loss is recorded.
    :param bound: of the norm of a gradient.
    """

    def __init__(self, model: Baseline, bound: float | None) -> None:
        self.loss, self.bound = _Loss(model), bound
        self.parameters = dict(self.loss.named_parameters())
        self.buffers = [name for name, _ in self.loss.named_buffers()]
        self.programs: dict[int, Callable[..., Any]] = {}  # by the rows of a batch

    def __call__(self, weights: Tensor, batch: list[Tensor], buffers: list[Tensor]) -> Any:
        """For weights [S, P], columns [S, rows, ...] and buffers [S, ...]."""
        size, tensors = batch[0].shape[1], [*batch, *buffers]
        if size not in self.programs:
            function = vmap(partial(self._of_copy, len(batch)), randomness="different")
            self.programs[size] = recorded(function, weights.detach(), *tensors)
        return self.programs[size](weights, *tensors)

    def _of_copy(self, columns: int, weights: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        buffers = dict(zip(self.buffers, tensors[columns:], strict=True))
        sizes = [parameter.numel() for parameter in self.parameters.values()]

        def loss_of(weights: Tensor) -> Tensor:
            parts = zip(self.parameters.items(), weights.split(sizes), strict=True)
            known = {name: part.view_as(parameter) for (name, parameter), part in parts}
            return functional_call(self.loss, {**known, **buffers}, tensors[:columns])

        gradient, loss = grad_and_value(loss_of)(weights)
        if self.bound is not None:
            norm = torch.linalg.vector_norm(gradient)
            gradient = gradient * (float(self.bound) / (norm + 1e-6)).clamp(max=1.0)
        return loss, gradient


def recorded(function: Callable[..., Any], *examples: Tensor) -> Callable[..., Any]:
    """The function without the overhead of Python's calls, of autograd and of `torch.func`.

    It takes tensors of the shapes, strides, types and device of the examples, draws its random
    numbers anew at every call, and has no gradient.

    :param function: of tensors; it must not decide by their values.
    """
    # Importing it takes as long as a short fit, and its first use a second: torch's compiler.
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.no_grad():
        program: Callable[..., Any] = make_fx(function)(*examples).forward
    return program
