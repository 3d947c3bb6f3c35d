"""Predictions that rise with the revenue exactly: fixed noise, fixed blocks, fixed order of sums.

Averaging over fresh draws of z would break monotonicity, and so would rounding: a matrix product of
another shape, or a sum in another order, gives other bits. Here every prediction uses the same base
noise, and every row goes through blocks of one fixed size.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from pyro.distributions import MixtureOfDiagNormals
from torch import Tensor, nn

#: Rows of x, or of revenues, that are evaluated together; shorter blocks are padded.
BLOCK_ROWS = 64


class CommonNoise(nn.Module):
    """Standard normal base noise from a scrambled Sobol sequence, the same at every call.

    :param num_samples: draws kept in the buffer `noise`, [num_samples, dim]; best a power of 2.
    :param dim: dimension of z.
    :param seed: seed of the scrambling.
    """

    noise: Tensor

    def __init__(self, num_samples: int, dim: int, seed: int = 0) -> None:
        super().__init__()
        self.dim, self.seed = dim, seed
        self.register_buffer("noise", self._sobol(num_samples))

    def _sobol(self, num_samples: int) -> Tensor:
        engine = torch.quasirandom.SobolEngine(self.dim, scramble=True, seed=self.seed)
        uniform = engine.draw(num_samples, dtype=torch.float64)
        smallest = 0.5 / (1 << 30)  # Sobol points are multiples of 2^-30, 0 among them
        return torch.special.ndtri(uniform + smallest).to(torch.get_default_dtype())

    def forward(self, num_samples: int | None = None) -> Tensor:
        """The kept noise, or a longer or shorter piece of the same sequence."""
        if num_samples is None or num_samples <= len(self.noise):
            return self.noise[:num_samples]
        return self._sobol(num_samples).to(self.noise)


class LatentDraws(NamedTuple):
    """Draws [N, B, D] of z and their weights [N, B], which add up to 1; None for equal weights."""

    z: Tensor
    weights: Tensor | None = None


def latent_draws(distribution: Any, noise: Tensor, seed: int | None) -> LatentDraws:
    """Draws of z from a distribution of batch shape [B], driven by base noise [N, 1 or B, D].

    A finite support is enumerated in place of drawing, with the probabilities as weights, and a
    mixture gives every component its share of the noise. Others are `driven_draws`. Without a seed
    all are independent draws from torch's generator, unweighted.
    """
    if seed is None:
        return LatentDraws(distribution.sample((len(noise),)))
    if isinstance(distribution, MixtureOfDiagNormals):
        return _mixture_draws(distribution, noise)
    if isinstance(distribution, torch.distributions.OneHotCategorical):
        support = distribution.enumerate_support()  # [D, B, D]
        return LatentDraws(support, distribution.log_prob(support).exp())
    return LatentDraws(driven_draws(distribution, noise, seed))


def driven_draws(distribution: Any, noise: Tensor, seed: int | None) -> Tensor:
    """Draws [N, ..., D] driven by standard normal noise [N, ..., D] that broadcasts to the batch.

    Uses the distribution's own `rsample_from(noise)` if it has one, location and scale of a
    Gaussian, and the quantile function of other independent distributions. What has none of these
    is sampled with a fixed seed, which is deterministic for one block of rows and no more: then
    neither monotonicity nor equality across batches is promised, and a warning says so. Without a
    seed the draws are independent ones from torch's generator.
    """
    if seed is None:
        fresh: Tensor = distribution.sample((len(noise),))
        return fresh
    if hasattr(distribution, "rsample_from"):
        from_noise: Tensor = distribution.rsample_from(noise)
        return from_noise
    base = distribution
    while isinstance(base, torch.distributions.Independent):
        base = base.base_dist
    if isinstance(base, torch.distributions.Normal):
        return base.loc + base.scale * noise
    if isinstance(base, torch.distributions.MultivariateNormal):
        return base.loc + (base.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)
    if not base.event_shape:
        try:
            by_quantile: Tensor = base.icdf(torch.special.ndtr(noise))
            return by_quantile
        except NotImplementedError:
            pass
    warnings.warn(
        f"{type(base).__name__} offers neither rsample_from(noise) nor icdf: predictions are "
        "seeded Monte Carlo, not exactly monotone",
        stacklevel=2,
    )
    devices = [noise.device] if noise.is_cuda else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        sampled: Tensor = distribution.sample((len(noise),))
    return sampled


def _mixture_draws(mixture: MixtureOfDiagNormals, noise: Tensor) -> LatentDraws:
    """The same piece of the noise for each of the C components, weighted by its probability."""
    components = mixture.locs.shape[-2]
    share = max(1, len(noise) // components)
    z = mixture.locs + mixture.coord_scale * noise[:share].unsqueeze(-2)  # [N/C, B, C, D]
    weights = (mixture.probs / share).expand(share, *mixture.probs.shape)
    return LatentDraws(z.movedim(-2, 1).flatten(0, 1), weights.movedim(-1, 1).flatten(0, 1))


def blocks(rows: Tensor) -> Iterator[Tensor]:
    """Consecutive blocks of exactly BLOCK_ROWS rows; the last is padded with its last row."""
    for block in rows.split(BLOCK_ROWS):
        missing = BLOCK_ROWS - len(block)
        yield torch.cat([block, block[-1:].expand(missing, -1)]) if missing else block


def in_blocks(function: Callable[..., Tensor], *arguments: Tensor) -> Tensor:
    """`function` of row-aligned arguments, evaluated block by block, without the padding."""
    parts = [function(*block) for block in zip(*map(blocks, arguments), strict=True)]
    return torch.cat(parts)[: len(arguments[0])]


def coarse(values: Tensor) -> Tensor:
    """`values` in float64 cut to 42 significant bits, towards 0; other types pass unchanged.

    Between neighbouring floats a special function can fall where the exact one rises: its rounding
    error exceeds the step. After the cut two values are equal or a relative 2^-42 apart, far more
    than such an error.
    """
    if values.dtype != torch.float64:
        return values
    dropped = (1 << 11) - 1
    return torch.bitwise_and(values.contiguous().view(torch.int64), ~dropped).view(torch.float64)


def on_grid(values: Tensor) -> Tensor:
    """`values` in float64 rounded to multiples of 2^-40, next to which later rounding is small."""
    return coarse(torch.round(values * 2.0**40) / 2.0**40)


def pairwise_mean(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean over dimension 0 by halving: the order of the additions is the same for every layout.

    Rises with every value, also under weights (which add up to 1): rounding keeps the order of
    products with one factor and of sums with one term, and the result is held within the values.
    """
    size, bounds = values.shape[0], None
    count = size
    if weights is not None:
        bounds = values.amin(0), values.amax(0)
        values, count = values * weights.to(values.dtype), 1
    while size > 1:
        half = size // 2
        sums = values[:half] + values[half : 2 * half]
        values = sums if size == 2 * half else torch.cat([sums, values[2 * half :]])
        size -= half
    mean = values[0] / count
    return mean if bounds is None else torch.clamp(mean, *bounds)
