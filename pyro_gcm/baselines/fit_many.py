"""Training of several copies of a baseline side by side, as one program of tensors."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.fx import Graph
from torch.nn.utils import vector_to_parameters

from pyro_gcm._utils.torch_state import Randomness, check_trainable, one_thread
from pyro_gcm._utils.validation import ArrayLike, seed_of, shown
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.fit import checked_rows, scalars
from pyro_gcm.training import Diverged, FitResult, TrainingOptions
from pyro_gcm.training.batches import GATHERED

#: Options of `fit` that belong to one run alone.
_OF_ONE = ("seed", "validation", "patience", "checkpoint")
#: Steps of which the numbers are read together.
_TOGETHER = 50


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

    :param models: of one class, with the same sizes and options; trained in place, from their
        current weights.
    :param x: [n, x_dim] for each model; `r`: [n, r_dim]; `y`: [n]. All have the same n.
    :param seeds: of the order of the rows, one for each model.
    :param standardize: whether every model learns the units of its rows.
    :param options: epochs, batch_size, learning_rate, optimizer, schedule, clip_norm, device,
        progress and callback, as in `fit`. The optimiser gets one parameter, [models,
        weights of a model], and has to treat every element by itself, as Adam, AdamW and SGD do.
    :returns: for each model its result, whose seconds are those of all models, or the `Diverged`
        of `fit`, in which case it has the weights of the last epoch that it finished; the others
        go on.
    :raises TypeError: if a model is not a baseline, or an option has a wrong type or is one that
        `fit` alone has.
    :raises ValueError: for wrong shapes, values or options, or for models or rows that differ in
        more than their numbers, before training starts.
    """
    alone = [name for name in _OF_ONE if name in options]
    if alone:
        raise TypeError(f"{alone[0]} is an option of fit alone, not of fit_many")
    given = TrainingOptions(**options)
    lists = {"models": models, "x": x, "r": r, "y": y, "seeds": seeds}
    entries = {name: _entries(name, values) for name, values in lists.items()}
    counts = {name: len(each) for name, each in entries.items()}
    if not counts["models"] or len(set(counts.values())) > 1:
        raise ValueError(f"models, x, r, y and seeds must be equally many, got {counts}")
    models, *columns, seeds = entries.values()
    rows = [_rows_of(*one) for one in zip(range(len(models)), models, *columns, strict=True)]
    kinds = [_kind(*one) for one in zip(models, rows, strict=True)]
    for at, kind in enumerate(kinds):
        unlike = [name for name in kinds[0] | kind if kind.get(name) != kinds[0].get(name)]
        if unlike:
            told = f"{kinds[0].get(unlike[0])} and, for number {at}, {kind.get(unlike[0])}"
            raise ValueError(f"models and rows must be alike in {unlike[0]}, got {told}")
    frozen = [n for m in models for n, p in m.named_parameters() if not p.requires_grad]
    if frozen:
        raise ValueError(f"fit_many trains every parameter, got requires_grad=False for {frozen}")
    if len(set(models)) < len(models):
        raise ValueError("models must be different objects, got one of them twice")
    orders = [torch.Generator().manual_seed(seed_of(seed)) for seed in seeds]
    for model in models:
        check_trainable(model)
    return _Copies(models, orders, len(rows[0][0]), given).run(rows, standardize)


def _entries(name: str, values: Any) -> list[Any]:
    try:
        return list(values)
    except TypeError as error:
        raise TypeError(
            f"{name} must be a list, one for each model, got {shown(values)}"
        ) from error


def _rows_of(at: int, model: Baseline, x: ArrayLike, r: ArrayLike, y: ArrayLike) -> list[Tensor]:
    """The columns of a model, whose number an error tells."""
    try:
        return checked_rows(model, x, r, y)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} (model number {at})") from error


def _kind(model: Baseline, rows: list[Tensor]) -> dict[str, Any]:
    """Return the properties that copies must have in common."""
    tensors = {**dict(model.named_parameters()), **dict(zip("xry", rows, strict=True))}
    shapes = {name: (*value.shape, value.dtype) for name, value in tensors.items()}
    return {"class and options": f"{type(model).__name__}{scalars(model)}", **shapes}


class _Loss(nn.Module):
    """The loss of a model as a call of a module, which `functional_call` needs."""

    def __init__(self, model: Baseline) -> None:
        super().__init__()
        self.model = model

    def forward(self, *batch: Tensor) -> Tensor:
        """Return `Baseline.standard_loss` of a batch."""
        return self.model.standard_loss(*batch)


class _Copies:
    """A run of S copies, whose tensors have S as the first dimension.

    While it lasts, the parameters of the models are views of `weights`, [S, P].
    """

    def __init__(
        self,
        models: list[Baseline],
        orders: list[torch.Generator],
        rows: int,
        options: TrainingOptions,
    ) -> None:
        self.models, self.orders, self.rows, self.options = models, orders, rows, options
        self.index = [options.parts(rows, order)[0] for order in orders]
        self.randomness = Randomness(orders[0].initial_seed(), options.target)
        for model in models:
            model.to(options.target)
        vectors = [
            torch.cat([p.detach().flatten() for p in model.parameters()]) for model in models
        ]
        self.weights = nn.Parameter(torch.stack(vectors))
        self.optimizer = options.make_optimizer([self.weights])
        self.steps = math.ceil(rows / options.batch_size)  # of an epoch
        self.scheduler = options.make_scheduler(self.optimizer, options.epochs * self.steps)
        self.loss = _Loss(models[0])
        self.programs: dict[int, Callable[..., Any]] = {}  # by the rows of a batch
        self.step = 0
        self.histories: list[list[dict[str, float]]] = [[] for _ in models]
        #: Of copies that diverged: the error, and the weights that they are left with.
        self.ended: dict[int, tuple[Diverged, Tensor]] = {}

    def run(self, rows: list[list[Tensor]], standardize: bool) -> list[FitResult | Diverged]:
        """Train on the rows of every copy."""
        from tqdm.auto import tqdm

        standard = []
        for model, columns in zip(self.models, rows, strict=True):
            if standardize:
                model.learn_units(*columns)
            model.train()
            own = [column.to(self.options.target) for column in columns]
            standard.append(model.standardized(*own))
        self.columns = [torch.stack(column) for column in zip(*standard, strict=True)]
        buffers = zip(*(model.buffers() for model in self.models), strict=True)
        self.buffers = [torch.stack(buffer) for buffer in buffers]
        for model, weights in zip(self.models, self.weights.detach(), strict=True):
            vector_to_parameters(weights, model.parameters())
        try:
            self._call_back()
            epochs = range(1, self.options.epochs + 1)
            bar = tqdm(epochs, desc="fit", unit="epoch", disable=not self.options.progress)
            for epoch in bar:
                if len(self.ended) < len(self.models):
                    bar.set_postfix(loss=f"{self._run_epoch(epoch):.4f}")
        finally:
            for copy, (_, weights) in self.ended.items():
                self.weights.data[copy] = weights
            for parameter in chain.from_iterable(model.parameters() for model in self.models):
                parameter.data = parameter.data.clone()
        return [
            self.ended[copy][0] if copy in self.ended else FitResult(history, len(history), False)
            for copy, history in enumerate(self.histories)
        ]

    def _run_epoch(self, epoch: int) -> float:
        """Make the steps of an epoch; return the mean loss of the copies."""
        start, rate = time.perf_counter(), self.optimizer.param_groups[0]["lr"]
        before = self.weights.detach().clone()
        total = torch.zeros(len(self.models), dtype=torch.float64)
        taken: list[tuple[int, Tensor, Tensor]] = []  # rows, loss and norm of steps
        for number, batch in enumerate(self._batches(), start=1):
            taken.append((batch[0].shape[1], *self._step(batch)))
            self._call_back()
            if len(taken) == _TOGETHER or number == self.steps:
                rows, losses, norms = zip(*taken, strict=True)
                found = torch.stack([torch.stack(losses), torch.stack(norms)]).double().cpu()
                total += torch.tensor(rows).double() @ found[0]
                bad = ~found.isfinite().all(0)  # [steps, S]
                for copy in bad.any(0).nonzero().flatten().tolist():
                    first = int(bad[:, copy].int().argmax())
                    loss, norm = found[:, first, copy].tolist()
                    of_loss = f"the loss is {loss}"
                    what = f"the norm of the gradient is {norm}" if math.isfinite(loss) else of_loss
                    place = f"batch {number - len(taken) + first + 1} of {self.steps}"
                    self._end(copy, before, f"{what} in {place} in epoch {epoch}")
                taken.clear()
        for copy in (~self.weights.isfinite().all(1)).nonzero().flatten().tolist():
            self._end(copy, before, f"a weight is not finite after epoch {epoch}")
        seconds = time.perf_counter() - start
        for history, loss in zip(self.histories, (total / self.rows).tolist(), strict=True):
            row = {"epoch": epoch, "step": self.step, "loss": loss, "learning_rate": rate}
            history.append({**row, "seconds": seconds})
        return float(total.nanmean() / self.rows)

    def _end(self, copy: int, before: Tensor, why: str) -> None:
        """Note that a copy has diverged in the epoch before which the weights were `before`."""
        done = len(self.histories[copy])
        kept = f"of epoch {done}" if done else "that it had before"
        error = f"{why}. The model has the weights {kept}: lower learning_rate or clip_norm"
        self.ended.setdefault(copy, (Diverged(error), before[copy]))

    def _call_back(self) -> None:
        if self.options.callback is not None:
            self.options.callback(self.step)

    def _step(self, batch: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Make one update; return the losses and the norms of the gradients, [S] each."""
        rows, tensors = batch[0].shape[1], [*batch, *self.buffers]
        with self.randomness.in_use(), torch.no_grad():
            if rows not in self.programs:
                mapped = vmap(partial(self._of_copy, len(batch)), randomness="different")
                self.programs[rows] = recorded(mapped, self.weights.detach(), *tensors)
            loss, norm, self.weights.grad = self.programs[rows](self.weights, *tensors)
            self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
        self.step += 1
        return loss, norm

    def _of_copy(self, columns: int, weights: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Loss, norm of the gradient and clipped gradient of one copy with weights [P]."""
        model, bound = self.models[0], self.options.clip_norm
        buffers = dict(zip(dict(self.loss.named_buffers()), tensors[columns:], strict=True))

        def loss_of(weights: Tensor) -> Tensor:
            parts = weights.split([p.numel() for p in model.parameters()])
            named = zip(self.loss.named_parameters(), parts, strict=True)
            own = {name: part.view_as(parameter) for (name, parameter), part in named}
            return functional_call(self.loss, {**own, **buffers}, tensors[:columns])

        gradient, loss = grad_and_value(loss_of)(weights)
        norm = torch.linalg.vector_norm(gradient)
        if bound is not None:
            gradient = gradient * (float(bound) / (norm + 1e-6)).clamp(max=1.0)
        return loss, norm, gradient

    def _batches(self) -> Iterator[list[Tensor]]:
        """The batches of an epoch: columns [S, rows of a batch, ...]."""
        copies, size = len(self.models), self.options.batch_size
        shuffled = [
            index[torch.randperm(self.rows, generator=order)]
            for index, order in zip(self.index, self.orders, strict=True)
        ]
        visited = torch.stack(shuffled).to(self.options.target)
        copy = torch.arange(copies, device=visited.device).unsqueeze(1)
        whole = self.rows // size
        parts = visited[:, : whole * size].reshape(copies, whole, size).transpose(0, 1)
        batch_bytes = size * sum(c[:, :1].nbytes for c in self.columns)
        for part in parts.split(max(1, GATHERED // batch_bytes)):
            yield from map(list, zip(*(c[copy, part] for c in self.columns), strict=True))
        if whole < self.steps:
            rest = visited[:, whole * size :]
            yield [column[copy, rest] for column in self.columns]


def recorded(function: Callable[..., Any], *examples: Tensor) -> Callable[..., Any]:
    """The function without the overhead of Python's calls, of autograd and of `torch.func`.

    It takes tensors of the shapes, strides, types and device of the examples, draws its random
    numbers anew at every call, and has no gradient.

    :param function: of tensors; it must not decide by their values.
    """
    # Importing it takes as long as a short fit, and its first use a second: torch's compiler.
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.no_grad():
        made = make_fx(function)(*examples)
    _simplify(made.graph)
    made.recompile()
    forward: Callable[..., Any] = made.forward
    return forward


def _simplify(graph: Graph) -> None:
    """Leave out operations that return what they are given, a third of all those of `vmap`."""
    aten = torch.ops.aten
    for node in graph.nodes:
        first: Any = node.args[0] if node.args else None
        if node.target in (aten.view.default, aten._unsafe_view.default, aten.expand.default):
            if "val" in first.meta and first.meta["val"].shape == node.meta["val"].shape:
                node.replace_all_uses_with(first)
        elif node.target == aten.transpose.int == first.target and node.args[1:] == first.args[1:]:
            node.replace_all_uses_with(first.args[0])
    graph.eliminate_dead_code()
