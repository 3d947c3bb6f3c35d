"""Training of several copies of a method side by side, as one program of tensors.

Every copy gets the weights that `fit` gives it with its seed, up to rounding: its batches come in
the same order, and its gradient is clipped by its own norm. Only what a loss draws, as that of
`Hint` and of GCM does, are other random numbers. Steps of small networks are several times as fast
as those of `fit`; before the first one, a second or two go into recording it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from pyro_gcm import GCM, IGCM, one_thread
from pyro_gcm.baselines import Baseline
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.event_products import SMALLEST_PRODUCT, all_and_any
from pyro_gcm.inference.scored import Scored
from pyro_gcm.training import Diverged, TrainingOptions
from pyro_gcm.training.batches import RowsInMemory


@one_thread()
def fit_together(
    models: Sequence[Baseline | GCM | IGCM],
    columns: Sequence[Sequence[Tensor]],
    seeds: Sequence[int],
    *,
    standardize: bool = True,
    num_particles: int = 32,
    objective: str = "conditional",
    elbo: str | None = None,
    judge: Callable[[Any], Any] | None = None,
    **options: Any,
) -> list[list[Any] | Diverged]:
    """Train copies of a baseline, or of GCM or IGCM with a normal z, each on rows of its own.

    :param models: different objects of one class, with the same sizes and options; trained in
        place. Their parameters are views of one tensor from then on. A loss must neither decide by
        the values of tensors nor change buffers, since it is mapped over the copies and recorded.
    :param columns: x [n, x_dim], r [n, r_dim] and y [n] for each model, all with the same n.
    :param seeds: of the order of the rows, one for each model; what losses draw has the first.
    :param standardize: whether every model learns the units of its rows.
    :param num_particles, objective, elbo: of GCM and IGCM, as in `pyro_gcm.fit`.
    :param judge: function of a model, called after every epoch.
    :param options: epochs, batch_size, learning_rate, optimizer, schedule (but "constant"),
        clip_norm, device and callback, as in `baselines.fit`. The optimiser gets one parameter,
        [models, weights of a model], and has to treat every element by itself, as Adam and SGD do.
    :returns: for each model what `judge` returned, or why it diverged; the others go on.
    """
    given, rows, losses = TrainingOptions(**options), [], list[Any]()
    model: Any
    for model, of_model, seed in zip(models, columns, seeds, strict=True):
        model.to(given.target).train()
        here = [column.to(given.target) for column in of_model]
        if standardize:
            model.learn_units(*here)
        order = torch.Generator().manual_seed(seed)
        index = given.parts(len(here[0]), order)[0]
        if isinstance(model, Baseline):
            losses.append(_Loss(model))
        else:
            losses.append(_Story(model, num_particles, objective, elbo))
        rows.append(RowsInMemory(here, index, given.batch_size, order, losses[-1].prepared))
    weights = nn.Parameter(torch.stack([parameters_to_vector(each.trained()) for each in losses]))
    for loss, vector in zip(losses, weights.detach(), strict=True):
        vector_to_parameters(vector, loss.trained())
    optimizer = given.make_optimizer([weights])
    scheduler = given.make_scheduler(optimizer, given.epochs * rows[0].steps)
    step_of, callback = _recorded_step(losses, given.clip_norm), given.callback or (lambda _: None)
    step, finite = 0, torch.ones(len(models), dtype=torch.bool, device=given.target)
    curves: list[list[Any]] = [[] for _ in models]
    callback(step)
    with torch.random.fork_rng([] if given.target.type == "cpu" else [given.target]):
        torch.manual_seed(seeds[0])
        for epoch in range(given.epochs):
            for batches in zip(*(each.epoch(epoch) for each in rows), strict=True):
                batch = [torch.stack(each) for each in zip(*batches, strict=True)]
                with torch.no_grad():
                    weights.grad, loss = step_of(weights, batch)
                    optimizer.step()
                    if scheduler is not None:
                        scheduler.step()
                    finite &= loss.isfinite()
                step += 1
                callback(step)
            for model, curve in zip(models, curves, strict=True):
                if judge is not None and is_finite(model):  # it cannot predict otherwise
                    curve.append(judge(model))
    finite &= weights.detach().isfinite().all(1)
    error = Diverged("loss or weights are not finite")
    return [curve if fine else error for curve, fine in zip(curves, finite.tolist(), strict=True)]


def is_finite(model: nn.Module) -> bool:
    """Whether all weights are, as those of a copy that diverged are not."""
    return all(parameter.isfinite().all() for parameter in model.parameters())


class _Loss(nn.Module):
    """The loss of a baseline as a call of a module, which `functional_call` needs."""

    def __init__(self, model: Baseline) -> None:
        super().__init__()
        self.model = model

    def trained(self) -> list[nn.Parameter]:
        """The parameters that it trains, in the order of `named_parameters`."""
        return [*self.model.parameters()]

    def prepared(self, columns: list[Tensor]) -> list[Tensor]:
        """The rows of a batch as `forward` takes them."""
        return [*self.model.standardized(*columns)]

    def forward(self, *batch: Tensor) -> Tensor:
        """Return `Baseline.standard_loss` of a batch."""
        return self.model.standard_loss(*batch)


class _Story(nn.Module):
    """The loss of GCM or IGCM as `_Loss` has that of a baseline."""

    prepared: Any = list

    def __init__(self, model: Any, particles: int, objective: str, elbo: str | None) -> None:
        super().__init__()
        self.model, pair = model, model.training_pair(objective)
        self.plan, self.bound = pair.plan, pair.bound(elbo, particles, model.response.default_elbo)
        model.objective = objective

    def trained(self) -> list[nn.Parameter]:
        """The parameters that it trains, in the order of `named_parameters`."""
        return [*self.model.trained_parameters(self.model.objective).values()]

    def forward(self, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
        """Return the mean of minus the bounds of the rows of a batch."""
        with pyro.validation_enabled(False):  # which decides by the values of tensors
            read = Scored(self.model, self.plan, self.bound).read(x, r, y)
            event, alpha = read.p_y, getattr(self.bound, "alpha", None)
            plain = isinstance(event, OrderEvent) and event.logits is None
            cancel = not read.terms and read.finite is None
            if plain and cancel and event.standard is not None and alpha == 0.0:
                return -_log_mean_prob(event, y).mean()
            return read.row_losses(len(x)).mean()


def _log_mean_prob(event: Any, y: Tensor) -> Tensor:
    """`OrderEvent.log_mean_prob` by products alone: logarithms take most of the time of a step.

    A row whose probabilities are all below 1e-260 has no gradient.
    """
    u = (event.point.double() - event.base_dist.loc.double()) / event.base_dist.scale.double()
    one, zero = all_and_any(*event.standard.tails(u))
    if event.cost_event_dim == 2:
        zero, one = all_and_any(zero, one)
    return torch.where(y > 0.5, one, zero).mean(0).clamp_min(SMALLEST_PRODUCT).log()


def _recorded_step(losses: Sequence[_Loss | _Story], bound: float | None) -> Callable[..., Any]:
    """Clipped gradients [S, P] and losses [S], from weights [S, P] and columns [S, rows, ...].

    They are programs without the overhead of Python's calls, of autograd and of `torch.func`; they
    draw random numbers anew at every call.

    :param bound: of the norm of a gradient.
    """
    # Importing it takes as long as a short fit, and its first use a second: torch's compiler.
    from torch.fx.experimental.proxy_tensor import make_fx

    loss = losses[0]
    trained = {id(parameter) for parameter in loss.trained()}
    shapes = {n: p.shape for n, p in loss.named_parameters() if id(p) in trained}
    names = [name for name, _ in loss.named_buffers()]
    buffers = [torch.stack(each) for each in zip(*(m.buffers() for m in losses), strict=True)]

    def of_copy(weights: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        known = dict(zip(names, tensors, strict=False))

        def loss_of(weights: Tensor) -> Tensor:
            parts = weights.split([shape.numel() for shape in shapes.values()])
            own = {n: part.view(shapes[n]) for n, part in zip(shapes, parts, strict=True)}
            return functional_call(loss, {**own, **known}, tensors[len(names) :])

        gradient, value = grad_and_value(loss_of)(weights)
        if bound is not None:
            norm = torch.linalg.vector_norm(gradient)
            gradient = gradient * (bound / (norm + 1e-6)).clamp(max=1.0)
        return gradient, value

    programs: dict[int, Callable[..., Any]] = {}  # by the rows of a batch

    def step(weights: Tensor, batch: list[Tensor]) -> Any:
        rows, tensors = batch[0].shape[1], [*buffers, *batch]
        if rows not in programs:
            with torch.enable_grad():  # points of a sequence are made, and kept, while none records
                loss(*(column[0] for column in batch))
            mapped = vmap(of_copy, randomness="different")
            recorded = make_fx(mapped)(weights.detach(), *tensors)
            programs[rows] = _without_idle_views(recorded).forward
        return programs[rows](weights, *tensors)

    return step


#: Operations whose result is what they were given, in another shape or order at most.
_VIEWS = {
    "detach.default",
    "expand.default",
    "transpose.int",
    "view.default",
    "_unsafe_view.default",
}


def _without_idle_views(program: Any) -> Any:
    """A recorded program whose views are none of their own source: half of its steps were such."""

    def is_view(node: Any) -> bool:
        return str(node.target).removeprefix("aten.") in _VIEWS

    def layout(node: Any) -> Any:
        meta = node.meta["tensor_meta"]
        return meta.shape, meta.stride, meta.dtype

    for node in filter(is_view, program.graph.nodes):
        source = node.args[0]
        while layout(source) != layout(node) and is_view(source):
            source = source.args[0]
        if layout(source) == layout(node):
            node.replace_all_uses_with(source)
        elif str(node.target) == str(node.args[0].target) == "aten.view.default":
            node.args = (node.args[0].args[0], *node.args[1:])
    program.graph.eliminate_dead_code()
    program.recompile()
    return program
