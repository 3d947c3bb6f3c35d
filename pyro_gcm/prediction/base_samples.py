"""The noise behind predictions, the same at every call.

Averaging over fresh draws of z would break monotonicity: every prediction uses these.
"""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import MaskedDistribution
from torch import Tensor, nn

from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm._utils.warn import warn_user

_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class BaseSamples(nn.Module):
    """Standard normal base samples from a scrambled Sobol sequence, the same at every call.

    Its state has the seed, so that a longer piece is the same after `load_state_dict`, too.

    :param num_samples: samples kept in the buffer `samples`, [num_samples, dim]; best a power of 2.
    :param dim: number of variables that a prediction draws.
    :param seed: seed of the scrambling.
    """

    samples: Tensor

    def __init__(self, num_samples: int, dim: int, seed: int = 0) -> None:
        super().__init__()
        self.dim, self.seed = dim, seed
        #: The type that the sequence is rounded to, whatever the type of the model is later.
        self.rounded = torch.get_default_dtype()
        self.register_buffer("samples", self._sobol(num_samples))

    def _sobol(self, num_samples: int) -> Tensor:
        engine = torch.quasirandom.SobolEngine(self.dim, scramble=True, seed=self.seed)
        uniform = engine.draw(num_samples, dtype=torch.float64)
        # The engine holds its first point in torch's default type, which may be another by now.
        uniform[:1] = (engine.shift.to(self.rounded) / (1 << 30)).double()
        smallest = 0.5 / (1 << 30)  # Sobol points are multiples of 2^-30, 0 among them
        return torch.special.ndtri(uniform + smallest).to(self.rounded)

    def get_extra_state(self) -> Tensor:
        """Seed and number of the type in `_TYPES`, which as a buffer would have to be read back."""
        seed = self.seed - (1 << 64) if self.seed >> 63 else self.seed
        return torch.tensor([seed, _TYPES.index(self.rounded)], device=self.samples.device)

    def set_extra_state(self, state: Tensor) -> None:
        """Take what `get_extra_state` gave."""
        seed, number = state.tolist()
        self.seed, self.rounded = seed % (1 << 64), _TYPES[number]

    def forward(self, num_samples: int | None = None) -> Tensor:
        """The stored samples, or a longer or shorter piece of the same sequence, [N, 1, dim]."""
        if num_samples is None or num_samples <= len(self.samples):
            return self.samples[:num_samples].unsqueeze(1)
        return self._sobol(num_samples).to(self.samples).unsqueeze(1)

    def further(self, first: int, dim: int, num_samples: int) -> Tensor:
        """Coordinates of the same points beyond those that are kept, [N, 1, dim].

        :param first: how many of them come before these.
        """
        sequence = BaseSamples(num_samples, self.dim + first + dim, self.seed)
        return sequence.samples[:, None, self.dim + first :].to(self.samples)


def driven_draws(distribution: Any, base: Tensor, seed: int) -> Tensor:
    """Draws [N, ..., D] driven by base samples [N, ..., D] that broadcast to the batch shape.

    Uses the distribution's own `rsample_from(base)` if it has one, the location and scale of a
    normal distribution, and the quantile function of other distributions with independent
    coordinates. A distribution with none of these is sampled with a fixed seed, which is
    deterministic for one block of rows only: neither monotonicity nor equality across batches is
    then promised, and a warning says so.
    """
    if hasattr(distribution, "rsample_from"):
        return distribution.rsample_from(base)
    coordinate = distribution
    while isinstance(coordinate, torch.distributions.Independent | MaskedDistribution):
        coordinate = coordinate.base_dist
    if isinstance(coordinate, torch.distributions.MultivariateNormal):
        return coordinate.loc + (coordinate.scale_tril @ base.unsqueeze(-1)).squeeze(-1)
    if not coordinate.event_shape:
        shape = distribution.event_shape
        try:
            return column_draws(coordinate, base.unflatten(-1, shape) if shape else base[..., 0])
        except NotImplementedError:
            pass
    warn_user(
        f"{type(coordinate).__name__} has neither rsample_from(base) nor icdf: predictions use "
        "seeded Monte Carlo draws and are not exactly monotone"
    )
    with Randomness(seed, base.device).in_use():
        return distribution.sample((len(base),))


def column_draws(columns: Any, base: Tensor) -> Tensor:
    """Draws of a univariate distribution of batch shape [..., D], driven by base samples."""
    if isinstance(columns, torch.distributions.Normal):
        return columns.loc + columns.scale * base
    if isinstance(columns, torch.distributions.TransformedDistribution):
        value = column_draws(columns.base_dist, base)
        for transform in columns.transforms:
            value = transform(value)
        return value
    return columns.icdf(torch.special.ndtr(base))
