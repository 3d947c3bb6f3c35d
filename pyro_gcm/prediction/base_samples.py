"""The noise behind predictions, the same at every call.

Averaging over fresh draws of z would break monotonicity: every prediction uses these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from pyro.distributions import MaskedDistribution, MixtureOfDiagNormals
from torch import Tensor, nn

from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm._utils.warn import warn_user
from pyro_gcm.inference.reading import of

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


class Latent(NamedTuple):
    """A latent site of a story.

    :param size: number of its coordinates, and `event_shape` their shape.
    :param values: number of its values where they are finitely many, else 0.
    :param parts: number of components of a mixture, else 0.
    """

    size: int
    event_shape: torch.Size
    values: int = 0
    parts: int = 0


class Noise:
    """Independent draws from torch's generator.

    :param count: number of draws of every row.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def draw(self, name: str, q: Any) -> tuple[Tensor, Tensor | None]:
        """Draws [N, b, *event] of a site, and log-weights [N, b] or None.

        :param q: its distribution, or a function that returns it and is called only if needed.
        """
        return self.proposed(name, of(q)), None

    def proposed(self, name: str, q: Any) -> Tensor:
        """Draws of a site from a proposal."""
        drawn = q.batch_shape[:1] == (self.count,) and len(q.batch_shape) > 1
        draws: Tensor = q.sample() if drawn else q.sample((self.count,))
        return draws if q.batch_shape else draws.unsqueeze(1)  # all rows share it


class FixedNoise(Noise):
    """Draws driven by the model's base samples, the same at every call.

    Finite sites take all of their values in turn, and components of a mixture equal shares.

    :param num_samples: requested number of draws; there are as many as all values, and all
        components, make a multiple of.
    :param latents: the latent sites of the story.
    """

    def __init__(self, model: Any, latents: Mapping[str, Latent], num_samples: int) -> None:
        # Not the model, which keeps this.
        self._places, self._samples = model.places, model.base_samples
        self._members = model.members if model.draws_equally else 0
        self._further: dict[str, int] = {}  # first coordinates of sites that have no place
        strata, self._stride, further = 1, {}, 0
        for name, site in latents.items():
            self._stride[name] = strata
            strata *= max(1, site.values) * max(1, site.parts)
            if name not in self._places and not site.values:
                self._further[name] = further
                further += site.size
        driven = any(not site.values for site in latents.values())
        self.strata = strata
        repeats = max(1, num_samples // strata) if driven else 1
        super().__init__(num_samples if strata == 1 else strata * repeats)

    def _number(self, name: str, count: int, like: Tensor) -> Tensor:
        """Which of so many values, or components, each draw has, [N]."""
        place = torch.arange(self.count, device=like.device)
        return place.div(self._stride[name], rounding_mode="floor") % count

    def draw(self, name: str, q: Any) -> tuple[Tensor, Tensor | None]:
        """Draw a site from its share of the noise."""
        if name == "z" and self._members:  # every member in turn, whatever x is
            samples = self._samples.samples
            every = torch.eye(self._members, dtype=samples.dtype, device=samples.device)
            if self.count > self._members:
                every = every[self._number(name, self._members, every)]
            return every.unsqueeze(1), None
        q = of(q)
        if q.has_enumerate_support:
            return self._every_value(name, q)
        base = self._base(name, q)
        if not isinstance(q, MixtureOfDiagNormals):
            return driven_draws(q, base, self._samples.seed), None
        which = self._number(name, q.locs.shape[-2], q.locs)
        base = base[torch.arange(self.count, device=which.device) // self.strata]
        loc, scale, logits = (
            part.index_select(dim, which).movedim(dim, 0)
            for part, dim in ((q.locs, -2), (q.coord_scale, -2), (q.probs, -1))
        )
        return loc + scale * base, logits.double().log()

    def _every_value(self, name: str, q: Any) -> tuple[Tensor, Tensor]:
        support: Tensor = q.enumerate_support(expand=False)
        values = support[self._number(name, len(support), support)]
        if len(q.batch_shape) > 1:  # it depends on other draws
            values = values[:, 0]
        shape = torch.broadcast_shapes(
            (self.count, *values.shape[1:]), (*q.batch_shape, *q.event_shape)
        )
        return values.expand(shape), q.log_prob(values).double()

    def proposed(self, name: str, q: Any) -> Tensor:
        """Propose draws of a site from its share of the noise."""
        return driven_draws(q, self._base(name, q), self._samples.seed)

    def _base(self, name: str, q: Any) -> Tensor:
        """Base samples [N, 1, d] of the coordinates of a site."""
        size, samples = q.event_shape.numel(), self._samples
        if name in self._further:
            return samples.further(self._further[name], size, self.count)
        first = self._places[name]
        return samples(self.count)[..., first : first + size]
