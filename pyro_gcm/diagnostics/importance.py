"""How well a guide serves a model: importance weights of every row, and the bound against N."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd
import pyro
import pyro.poutine as poutine
import torch
from torch import Tensor
from tqdm.auto import tqdm

from pyro_gcm._evaluating import evaluating
from pyro_gcm._validation import ArrayLike, checked_data, positive_int
from pyro_gcm.inference.elbo import ImportanceWeightedELBO
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.inference.views import unannounced
from pyro_gcm.models.base import OrderEventModel
from pyro_gcm.sampling.psis import MIN_PARTICLES, effective_sample_size, pareto_k


def importance_diagnostics(
    model: OrderEventModel,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    c: ArrayLike | None = None,
    *,
    num_particles: int = 1000,
    objective: str | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool = True,
) -> pd.DataFrame:
    """Log-evidence, effective sample size and Pareto k of every row under a model's own guide.

    The weights are w = p(y, z | x, r) / q(z) of the program and the guide that `objective` trains.
    Where ess is small or k above 0.7 the guide does not cover the posterior of that row: its
    log-evidence is too low on average, and draws resampled by these weights are few. A guide that
    draws from the prior is judged too: its weights are the likelihood.

    A categorical z is summed out. Where nothing else is drawn the weights are then equal:
    log_evidence is exact, ess is `num_particles` and pareto_k -inf.

    :param model: a trained `GCM` or `IGCM`, or a module with the same `training_pair`, `objective`,
        `x_dim`, `r_dim`, `response` and `device`.
    :param x: [n, x_dim] in data units; `r`: [n, r_dim]; `y`: [n]. NaN is a missing value where the
        objective can be trained with it.
    :param c: costs that were seen, as in `fit`; y may then be NaN.
    :param num_particles: N, draws for each row; at least 30.
    :param objective: what the weights are of, by default what the model was trained for last:
        "conditional" gives log p(y | x, r), "joint" log p(x, r, y).
    :param batch_size: rows at once; memory grows with N times this.
    :param progress: show a progress bar if it takes longer than two seconds.
    :returns: a row for each datum: log_evidence in nats (a density in the units of the data), ess,
        pareto_k (`pareto_k` says what -inf and inf stand for).
    :raises ValueError: for wrong data or options, and for an objective whose loss is no bound.
    """
    num_particles = positive_int("num_particles", num_particles)
    if num_particles < MIN_PARTICLES:
        raise ValueError(
            f"num_particles must be at least {MIN_PARTICLES} for a Pareto fit, got {num_particles}"
        )
    target = _Target.of(model, objective, (x, r, y, c), batch_size, seed)
    columns: dict[str, list[Tensor]] = {"log_evidence": [], "ess": [], "pareto_k": []}
    for log_w in _log_weights(target, num_particles, progress):
        columns["log_evidence"].append(_log_mean_exp(log_w))
        columns["ess"].append(effective_sample_size(log_w))
        columns["pareto_k"].append(pareto_k(log_w))
    return pd.DataFrame({name: torch.cat(parts).cpu().numpy() for name, parts in columns.items()})


def bound_by_particles(
    model: OrderEventModel,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    c: ArrayLike | None = None,
    *,
    num_particles: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    objective: str | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool = True,
) -> pd.DataFrame:
    """The importance-weighted bound against the number of particles, mean over the rows.

    It rises with N towards the log-evidence (Burda et al. 2016), so that the gap between the N of
    training and a large one is what a better guide could still gain. All N share one matrix of
    log-weights, cut into disjoint groups of n draws; the mean over groups is unbiased for the bound
    at n.

    :param num_particles: the numbers of particles; the largest is drawn.
    :param model, x, r, y, c, objective, batch_size, progress: as for `importance_diagnostics`.
    :returns: columns num_particles; bound, nats a row; standard_error, the Monte Carlo error of the
        bound for these rows (not their spread), by the differences between groups, and where the
        draws make one group only by the delta method, which is too small when few draws carry a
        row. It is NaN for a single draw, and where a row has no weight, whose bound is -inf.
    :raises ValueError: for wrong data or options, and for an objective whose loss is no bound.
    """
    if not isinstance(num_particles, Iterable) or len(num_particles) == 0:
        raise ValueError(f"num_particles must be a sequence of integers, got {num_particles!r}")
    counts = sorted({positive_int("num_particles", count) for count in num_particles})
    target = _Target.of(model, objective, (x, r, y, c), batch_size, seed)
    total = torch.zeros(2, len(counts), dtype=torch.float64)  # of the bound, and of its variance
    for log_w in _log_weights(target, counts[-1], progress):
        for column, count in enumerate(counts):
            bound, variance = _bound(log_w, count)
            total[:, column] += torch.stack([bound.sum(), variance.sum()]).cpu()
    bounds, variances = total.numpy()
    rows = len(target.data[0])
    return pd.DataFrame(
        {
            "num_particles": counts,
            "bound": bounds / rows,
            "standard_error": variances**0.5 / rows,
        }
    )


class _Target(NamedTuple):
    """The rows, checked, and the pair that weighs them."""

    model: OrderEventModel
    pair: TrainingPair
    data: list[Tensor]
    batch_size: int
    seed: int

    @classmethod
    def of(
        cls,
        model: OrderEventModel,
        objective: str | None,
        rows: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike | None],
        batch_size: int,
        seed: int,
    ) -> _Target:
        objective = objective or model.objective
        pair = model.training_pair(objective)
        if pair.loss is not None:
            raise ValueError(
                f"objective={objective!r} has a loss that is no bound on a log-evidence, and no "
                "importance weights: name another with objective="
            )
        data = checked_data(model, *rows, required="xry", missing=pair.missing, device=model.device)
        batch_size = positive_int("batch_size", batch_size)
        seed = positive_int("seed", seed, minimum=0)
        return cls(model, pair, list(data.values()), batch_size, seed)


def _log_weights(target: _Target, num_particles: int, progress: bool) -> Iterator[Tensor]:
    """Log-weights [N, b] of one batch after the other, float64."""
    model, pair = target.model, target.pair
    bound = ImportanceWeightedELBO(num_particles, max_plate_nesting=1)
    seeds = torch.Generator().manual_seed(target.seed)
    batches = zip(*(column.split(target.batch_size) for column in target.data), strict=True)
    with tqdm(
        total=len(target.data[0]), disable=not progress, delay=2, desc="weights", unit="row"
    ) as bar:
        for batch in batches:
            seed = int(torch.randint(2**62, (), generator=seeds))
            with (
                torch.no_grad(),
                evaluating(model),
                torch.random.fork_rng(
                    devices=[model.device] if model.device.type == "cuda" else []
                ),
                pyro.get_param_store().scope(),
                pyro.validation_enabled(False),
                unannounced(),
            ):
                log_w = _batch_log_weights(bound, pair, batch, seed).double()
            shape = (num_particles, len(batch[0]))
            if log_w.shape != shape:
                raise ValueError(
                    "model must have every site of its program in one plate of rows: its "
                    f"log-weights have shape {tuple(log_w.shape)}, not {shape}"
                )
            yield log_w
            bar.update(len(batch[0]))


def _batch_log_weights(
    bound: ImportanceWeightedELBO, pair: TrainingPair, batch: tuple[Tensor, ...], seed: int
) -> Tensor:
    """Log-weights of one batch; a z with a finite support is summed out."""

    def weights(program: object) -> Tensor:
        torch.manual_seed(seed)  # the same draws for every value of z
        return bound.log_weights(program, pair.guide, *batch)

    if not pair.enumerated:
        return weights(pair.program)
    torch.manual_seed(seed)
    z: Any = poutine.trace(pair.program).get_trace(*batch).nodes["z"]["fn"]
    conditioned = (poutine.condition(pair.program, {"z": one}) for one in z.enumerate_support())
    return torch.stack([weights(program) for program in conditioned]).logsumexp(0)


def _bound(log_w: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The bound with `count` particles of every row [b], and its Monte Carlo variance."""
    groups = len(log_w) // count
    estimates = _log_mean_exp(log_w[: groups * count].unflatten(0, (groups, count)), 1)  # [G, b]
    if groups > 1:
        return estimates.mean(0), estimates.var(0) / groups
    if count == 1:  # one draw says nothing of its spread
        return estimates[0], torch.full_like(estimates[0], math.nan)
    # Var(log mean w) is about Var(w) / (n E[w]^2).
    squares = log_w[:count].softmax(0).square().sum(0)
    return estimates[0], (squares - 1.0 / count).clamp(min=0.0) * count / (count - 1)


def _log_mean_exp(log_w: Tensor, dim: int = 0) -> Tensor:
    return log_w.logsumexp(dim) - math.log(log_w.shape[dim])
