"""A guide's draws, its importance weights in every row, and the bound by number of particles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from tqdm.auto import tqdm

from pyro_gcm._utils.torch_state import Randomness, evaluating, one_thread
from pyro_gcm._utils.validation import ArrayLike, broadcast_shapes, positive_int, seed_of
from pyro_gcm.inference.elbo import ImportanceWeightedELBO, importance_weighted
from pyro_gcm.inference.scored import Scored
from pyro_gcm.models.posteriors import Posteriors
from pyro_gcm.prediction.draws import Draws
from pyro_gcm.prediction.posterior import Target
from pyro_gcm.prediction.proposals import MIN_PARTICLES, effective_sample_size, pareto_k


class _Independent(Scored):
    """The reader of training with independent draws: standard errors and Pareto k speak of them."""

    def draw(self, name: str, q: Any, independent: bool = True) -> Tensor:
        """Draws [N, B, *event] of a site."""
        drawn: Tensor = q.expand(broadcast_shapes(q.batch_shape, self.shape)).sample()
        return drawn


@one_thread()
def importance_diagnostics(
    model: Posteriors,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    *,
    num_particles: int = 1000,
    objective: str | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool = True,
) -> pd.DataFrame:
    """Log-evidence, effective sample size and Pareto k of every row under a model's own guide.

    The weights are w = p(y, z | x, r) / q(z) of the program and the guide that `objective` trains.
    If ess is small or k is above 0.7, the guide does not cover the posterior of that row, and its
    log-evidence is too low on average. The weights of a guide that is the prior are the likelihood.
    A categorical z is summed out; if nothing else is drawn, the weights are equal, log_evidence is
    exact, ess is `num_particles` and pareto_k -inf.

    :param model: a trained `GCM` or `IGCM`, or one with a story of its own.
    :param x: [n, x_dim] in the units of the data; `r`: [n, r_dim]; `y`: [n].
    :param num_particles: N, draws for each row; at least 30.
    :param objective: "conditional" for log p(y | x, r), "joint" for log p(x, r, y); by default what
        the model was trained for last.
    :param batch_size: maximum number of rows at once; memory is proportional to N times this.
    :param progress: whether to show a progress bar if it takes longer than two seconds.
    :returns: one row per datum with the columns log_evidence in nats (a density in the units of the
        data), ess and pareto_k (see `pareto_k` for -inf and inf).
    :raises ValueError: for wrong data or options, and for an objective whose loss is no bound.
    """
    num_particles = positive_int("num_particles", num_particles, minimum=MIN_PARTICLES)
    columns: dict[str, list[Tensor]] = {"log_evidence": [], "ess": [], "pareto_k": []}
    options = objective, batch_size, seed, progress
    for log_w in _log_weights(num_particles, model, (x, r, y), *options):
        columns["log_evidence"].append(importance_weighted(log_w))
        columns["ess"].append(effective_sample_size(log_w))
        columns["pareto_k"].append(pareto_k(log_w))
    return pd.DataFrame({name: torch.cat(parts).cpu().numpy() for name, parts in columns.items()})


@one_thread()
def bound_by_particles(
    model: Posteriors,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    *,
    num_particles: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    objective: str | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool = True,
) -> pd.DataFrame:
    """The importance-weighted bound against the number of particles, mean over the rows.

    It increases with N towards the log-evidence (Burda et al. 2016), so the gap between the N of
    training and a large N is what a better guide could gain. All N share one matrix of log-weights;
    the estimate for n particles is the mean over its disjoint groups of n draws.

    :param num_particles: the numbers of particles; the largest is drawn.
    :param model, x, r, y, objective, batch_size, progress: as for `importance_diagnostics`.
    :returns: columns num_particles; bound, in nats per row; and standard_error, the Monte Carlo
        error of the bound for these rows: from the differences between groups, or by the delta
        method if there is only one group. It is NaN for a single draw, and if a row has no weight.
    :raises ValueError: for wrong data or options, and for an objective whose loss is no bound.
    """
    counts = sorted({positive_int("num_particles", count) for count in num_particles})
    options = objective, batch_size, seed, progress
    total = torch.zeros(2, len(counts), dtype=torch.float64)  # of the bound, and of its variance
    rows = 0
    for log_w in _log_weights(counts[-1], model, (x, r, y), *options):
        rows += log_w.shape[1]
        for column, count in enumerate(counts):
            bound, variance = _bound(log_w, count)
            total[:, column] += torch.stack([bound.sum(), variance.sum()]).cpu()
    bounds, errors = total[0].numpy() / rows, total[1].numpy() ** 0.5 / rows
    return pd.DataFrame({"num_particles": counts, "bound": bounds, "standard_error": errors})


def _log_weights(
    num_particles: int,
    model: Posteriors,
    rows: tuple[ArrayLike, ArrayLike, ArrayLike],
    objective: str | None,
    batch_size: int,
    seed: int,
    progress: bool,
) -> Iterator[Tensor]:
    """Log-weights [N, b] of one batch after the other, float64, of rows that are checked first."""
    objective = objective or model.objective
    pair = model.training_pair(objective)
    if pair.loss is not None:
        raise ValueError(
            f"objective={objective!r} has a loss that is no bound on a log-evidence, and no "
            "importance weights: name another with objective="
        )
    checked, bound = model.rows(*rows, required="xry"), ImportanceWeightedELBO(num_particles)
    batch_size = positive_int("batch_size", batch_size)
    seeds = torch.Generator().manual_seed(seed_of(seed))
    count = len(checked.x)
    with tqdm(total=count, disable=not progress, delay=2, desc="weights", unit="row") as bar:
        for index, part in checked.split(batch_size):
            batch: Any = part[:3]
            seed = int(torch.randint(2**62, (), generator=seeds))
            with torch.no_grad(), evaluating(model), Randomness(seed, model.device).in_use():
                log_w = _Independent(model, pair.plan, bound).read(*batch).log_weights().double()
            yield log_w
            bar.update(len(index))


def _bound(log_w: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The bound with `count` particles of every row [b], and its Monte Carlo variance."""
    groups = len(log_w) // count
    parts = log_w[: groups * count].unflatten(0, (groups, count))
    estimates = importance_weighted(parts.transpose(0, 1))  # [G, b]
    if groups > 1:
        return estimates.mean(0), estimates.var(0) / groups
    if count == 1:  # the variance cannot be estimated from one draw
        return estimates[0], torch.full_like(estimates[0], math.nan)
    # Var(log mean w) is about Var(w) / (n E[w]^2).
    squares = log_w[:count].softmax(0).square().sum(0)
    return estimates[0], (squares - 1.0 / count).clamp(min=0.0) * count / (count - 1)


@one_thread()
@torch.no_grad()
def guide_draws(
    model: Posteriors,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    *,
    num_samples: int = 1000,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Draws of the guide that the last training used, and of the costs, exactly, given them.

    They are not weighted, and so as wrong as the guide is. As the sampler of
    `simulation_based_calibration` they make it variational simulation-based calibration (VSBC; Yao
    et al. 2018, Yes, but did it work?: evaluating variational inference)::

        simulation_based_calibration(model, x, r, sampler=partial(guide_draws, model))

    There each simulated data set has an approximation of its own. A guide of this library is
    amortised: one is trained, and a simulated row is a data set, of which it is asked for its
    latent variables.

    :param x: [B, x_dim] in data units; `r`: [B, r_dim]; `y`: [B].
    :param num_samples: draws S of each row.
    :returns: draws by site, [S, B, ...]: those of the guide, and c in the units of the program.
    :raises ValueError: for wrong shapes or values, and for a model that sums z out, without a
        guide.

    >>> from pyro_gcm import GCM
    >>> draws = guide_draws(GCM(2, 1), torch.zeros(3, 2), torch.zeros(3, 1), torch.ones(3))
    >>> {site: tuple(values.shape) for site, values in draws.items()}
    {'z': (1000, 3, 4), 'c': (1000, 3, 1)}
    """
    count, seed = positive_int("num_samples", num_samples), seed_of(seed)
    rows: Any = model.rows(x, r, y, required="xry")
    pair = model.training_pair(model.objective)
    if pair.enumerated:
        raise ValueError(
            f"guide_draws needs a model with a guide: this one sums {pair.enumerated[0]} out, and "
            "`posterior` draws it exactly"
        )
    bound = ImportanceWeightedELBO(count)
    with evaluating(model), Randomness(seed, model.device).in_use():
        read = _Independent(model, pair.plan, bound).read(rows.x, rows.r, rows.y)
        known = {name: read.values[name] for name in read.q}
        sites = Target(model).complete(Draws(count, known, {}, None), rows)
    return {name: values for name, values in sites.items() if name in ("k", "c", *read.q)}
