"""Simulation-based calibration of posterior draws (Talts et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import chisquare
from torch import Tensor
from tqdm.auto import tqdm

from pyro_gcm._utils.torch_state import evaluating, one_thread
from pyro_gcm._utils.validation import ArrayLike, matrix, positive_int, seed_of
from pyro_gcm.models.base import OrderEventModel
from pyro_gcm.models.posteriors import Posteriors
from pyro_gcm.prediction.predicted import Predicted

#: Relative distance within which two values are equal: predictions put revenues on a fine grid.
_ROUNDING = {torch.float32: 1e-4, torch.float64: 1e-10}
_MOST_BINS, _LEAST_EXPECTED = 20, 5


@dataclass(frozen=True)
class SBCResult:
    """Ranks of true values among posterior draws given the data that were simulated from them.

    If the draws are correct, all ranks are equally likely. Many low and high ranks indicate draws
    that are too narrow, many middle ranks draws that are too wide, and a slope a bias.

    :param ranks: number of posterior draws below the true value, one row per simulation and one
        column per quantity, such as "z[0]" or "log p(y|z, r)".
    :param num_draws: number of posterior draws behind every rank, which is the highest rank.
    :param tied: quantities with the same value in every draw of every simulation, such as
        log p(y|z, c, r) of a binary y. Their ranks are not informative.
    """

    ranks: pd.DataFrame
    num_draws: int
    tied: frozenset[str] = frozenset()

    def p_values(self) -> pd.Series:
        """Chi-square test of uniform ranks for every quantity; NaN if all its values are tied.

        Its bins are the largest divisor of num_draws + 1 that is at most 20 and leaves at least
        five simulations for each bin.
        """
        bins = _bins(len(self.ranks), self.num_draws)
        width = (self.num_draws + 1) // bins
        observed = [np.bincount(self.ranks[q] // width, minlength=bins) for q in self.ranks]
        p_value = chisquare(observed, axis=1).pvalue
        p_values = pd.Series(p_value, index=self.ranks.columns, name="p_value")
        return p_values.mask(p_values.index.isin(self.tied))

    def p_value(self) -> float:
        """The smallest of `p_values` times their number (Bonferroni): a test of all together."""
        p_values = self.p_values()
        return min(1.0, float(p_values.min()) * int(p_values.count()))

    def symmetry_p_values(self) -> pd.Series:
        """Test that high and low ranks are equally frequent, for every quantity; NaN if all tied.

        An approximation that is too narrow or too wide fails `p_values`; one that is biased fails
        here as well (Yao et al. 2018, section 3.2). The statistic is theirs, the largest distance
        between the distribution functions of the ranks and of their mirror image. Its distribution
        is that for a sample and its own mirror image (Butler 1969, A test for symmetry using the
        sample distribution function), the largest excursion of a random walk, which is wider than
        for two samples.
        """
        p_values = {name: _symmetry(self.ranks[name], self.num_draws) for name in self.ranks}
        tests = pd.Series(p_values, name="p_value")
        return tests.mask(tests.index.isin(self.tied))

    def __str__(self) -> str:
        p_values = self.p_values()
        return (
            f"{len(self.ranks)} simulations, {self.num_draws} posterior draws each: smallest "
            f"p-value of {p_values.count()} quantities {p_values.min():.3g}, {p_values.idxmin()}"
        )


@one_thread()
def simulation_based_calibration(
    model: Posteriors,
    x: ArrayLike | None = None,
    r: ArrayLike | None = None,
    *,
    size: int | None = None,
    num_draws: int = 99,
    sampler: Callable[..., Mapping[str, Tensor]] | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool = True,
) -> SBCResult:
    """Draw latent variables and data from the program, and rank the former among posterior draws.

    Each row is a simulation. The true z, c (and k) are ranked by coordinate among posterior draws
    given the row's x, r and y. So are quantities that the coordinates say nothing of, one by one
    (Modrák et al. 2023, Simulation-based calibration checking for Bayesian computation: the choice
    of test quantities): log p(y | z, r) with the costs integrated out (log p(y | z, k) for `IGCM`)
    and log p(y | z, c, r) depend on the data and detect draws from the prior;
    log p(c | z), or log p(c | z, x), detects a z and a c of different draws, each right by itself.

    :param model: a `GCM` or `IGCM`, trained or not.
    :param x: [n, x_dim] in the units of the data, for a model with a prior p(z|x).
    :param r: [n, r_dim], for a `GCM` with such a prior; an `IGCM` draws r.
    :param size: number of simulations for prior "standard", which draws x and r.
    :param num_draws: number of posterior draws; preferably one less than a highly composite number.
    :param sampler: function (x, r, y, *, num_samples, seed) -> draws by site, z [S, B, D] (and k
        [S, B, K]) and c [S, B, (G,) K] in the units of `simulate`;
        `model.cost_posterior` by default; `partial(guide_draws, model)` tests
        the guide.
    :param batch_size: maximum number of simulations in a call of the sampler.
    :param seed: seed of the simulations, of the sampler, and of the order of equal values.
    :param progress: whether to show a progress bar if it takes longer than two seconds.
    :raises ValueError: for inputs that the program draws itself, wrong options, too few
        simulations to test, or draws with a wrong shape.
    """
    informed = model.prediction_plan.informed
    latents = (*(name for name in model.latent_shapes() if name not in informed), "c")
    if r is not None and "k" in latents:
        raise ValueError("r must be left out: in IGCM it depends on k, and is drawn with it")
    num_draws = positive_int("num_draws", num_draws)
    batch_size = positive_int("batch_size", batch_size)
    if model.shared_sites():  # of which the rows of a call have the same draws
        batch_size = 1
    seeds = torch.Generator().manual_seed(seed_of(seed))
    if x is not None:
        x = matrix("x", x, model.x_dim, "x_dim")
    if x is not None or size is not None:
        _bins(positive_int("size", size if x is None else len(x)), num_draws)
    draw: Any = sampler or partial(model.cost_posterior, progress=False)
    with torch.no_grad(), evaluating(model):
        # Not `seed` itself, because a sampler with the same generator could repeat the true draws.
        truth = _simulated(model, size, x, r, seeds)
        ranks: list[dict[str, Tensor]] = []
        vary: set[str] = set()
        count = len(truth["y"])
        with tqdm(
            total=count, disable=not progress, delay=2, desc="calibration", unit="row"
        ) as bar:
            for index in torch.arange(count, device=truth["y"].device).split(batch_size):
                part = {site: value[index] for site, value in truth.items()}
                data = part["x"], part["r"], part["y"]
                draws = draw(*data, num_samples=num_draws, seed=_next_seed(seeds))
                both = {site: _stacked(site, part[site], draws, num_draws) for site in latents}
                ranked = dict(_coordinates(both)) | _log_densities(model, data, both)
                vary |= {name for name, values in ranked.items() if (values != values[0]).any()}
                ranks.append({name: _ranks(values, seeds) for name, values in ranked.items()})
                bar.update(len(index))
    columns = {name: torch.cat([part[name] for part in ranks]).numpy() for name in ranks[0]}
    return SBCResult(pd.DataFrame(columns), num_draws, frozenset(columns) - vary)


def _simulated(
    model: Any, size: int | None, x: Tensor | None, r: Any, seeds: torch.Generator
) -> dict[str, Tensor]:
    """Draws of all sites of rows, on the device of the model, given observed sites beside y."""
    drawn = model.simulate(size, x=x, r=r, seed=_next_seed(seeds))
    given = {"x": drawn.get("x", x), "r": drawn.get("r", r)}
    given = {n: torch.as_tensor(v).to(model.base_samples.samples) for n, v in given.items()}
    if model.shared_sites() or {*model.observed(model.prediction_plan)} - {"x", "r"}:
        draw = partial(model.posterior, num_samples=1, progress=False)  # of which y is not known
        rows = zip(given["x"].split(1), given["r"].split(1), strict=True)
        every = [draw(*row, seed=_next_seed(seeds)).sites for row in rows]
        drawn = {name: torch.cat([each[name][0] for each in every]) for name in every[0]}
    return {name: value.to(model.device) for name, value in (drawn | given).items()}


def _symmetry(ranks: Any, num_draws: int) -> float:
    """The p-value of a Kolmogorov-Smirnov test of ranks against `num_draws` less them."""
    places = 2 * np.asarray(ranks) - num_draws  # symmetric around 0
    signed: Any = np.bincount(np.abs(places), np.sign(places))
    # Ranks as far from the middle come at once: the walk is looked at between them.
    count = int(np.count_nonzero(places)) or 1
    walk = float(np.abs(signed[::-1].cumsum()).max()) / math.sqrt(count)
    odd = 2 * np.arange(50) + 1  # terms of the series for the largest excursion
    terms = (-1) ** np.arange(50) / odd * np.exp(-((math.pi * odd / max(walk, 0.05)) ** 2) / 8.0)
    return float(min(1.0, max(0.0, 1.0 - 4.0 / math.pi * terms.sum())))


def _bins(count: int, num_draws: int) -> int:
    for bins in range(min(_MOST_BINS, count // _LEAST_EXPECTED), 1, -1):
        if (num_draws + 1) % bins == 0:
            return bins
    raise ValueError(
        f"no number of bins up to {_MOST_BINS} divides num_draws + 1 = {num_draws + 1} and leaves "
        f"{_LEAST_EXPECTED} of {count} simulations for each: use more simulations, "
        "or another num_draws, such as 99"
    )


def _next_seed(seeds: torch.Generator) -> int:
    return int(torch.randint(2**31, (), generator=seeds))


def _stacked(site: str, true: Tensor, draws: Mapping[str, Tensor], num_draws: int) -> Tensor:
    """The true value, [B, ...], and the draws after it, [1 + S, B, ...]."""
    if site not in draws:
        raise ValueError(f"sampler must give draws of site '{site}', got {sorted(draws)}")
    value = torch.as_tensor(draws[site]).to(true)
    if value.shape != (num_draws, *true.shape) or value.isnan().any():
        raise ValueError(
            f"sampler must give '{site}' in shape {(num_draws, *true.shape)} and without NaN, got "
            f"shape {tuple(value.shape)}"
        )
    return torch.cat([true.unsqueeze(0), value])


def _coordinates(both: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Every coordinate of the sites, [1 + S, B], by name."""
    for site, values in both.items():
        for place in np.ndindex(*values.shape[2:]):
            yield f"{site}[{','.join(map(str, place))}]", values[(..., *place)]


def _log_densities(
    model: OrderEventModel, data: tuple[Tensor, Tensor, Tensor], latents: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """log p(y | z, r or k) with the costs integrated out and given, and log p(c|z), [1 + S, B]."""
    x, r, y = data
    known = {site: values for site, values in latents.items() if site != "c"}
    replayed = Predicted(model, model.prediction_plan, known=known).read(x, r)
    p_y, p_c, name = replayed.p_y, replayed.left["c"].fn, "k" if "k" in latents else "r"
    units, c = model.cost_units(r), latents["c"]
    c = c if units is None else units.to_standard(c)
    return {
        f"log p(y|z, {name})": p_y.log_prob(y),
        f"log p(y|z, c, {name})": p_y.given_cost(c).log_prob(y),
        "log p(c|z)": p_c.log_prob(c),
    }


def _ranks(values: Tensor, generator: torch.Generator) -> Tensor:
    """How many of values[1:] lie below values[0], [B]; ties are broken at random.

    Values that rounding alone can tell apart are equal: a cost that is met exactly at an observed
    time is the same in every draw.
    """
    values = values.cpu() if values.is_floating_point() else values.cpu().double()
    true, draws = values[0], values[1:]
    close = _ROUNDING[values.dtype] * (1.0 + true.abs())
    tied = (draws == true) | (true.isfinite() & ((draws - true).abs() <= close))
    ties = tied.sum(0)
    uniform = torch.rand(ties.shape, generator=generator, dtype=torch.float64)
    return ((draws < true) & ~tied).sum(0) + (uniform * (ties + 1)).long()
