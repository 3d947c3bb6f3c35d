"""The noise behind predictions, the same at every call.

Averaging over fresh draws of z would break monotonicity: every prediction uses these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from pyro.distributions import MaskedDistribution, MixtureOfDiagNormals
from torch import Tensor, nn
from torch.distributions import (
    Beta,
    Gamma,
    Independent,
    MultivariateNormal,
    Normal,
    StudentT,
    TransformedDistribution,
)

from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm._utils.validation import broadcast_shapes, warn_user
from pyro_gcm.distributions import coordinates
from pyro_gcm.inference.reading import every_value, is_finite, of

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

    def forward(self, num_samples: int | None = None, first: int = 0, last: int = 0) -> Tensor:
        """The stored samples, or a longer or shorter piece of the same sequence, [N, 1, last].

        :param first: coordinate to begin with; `last`: to end before, all that are kept by default.
            Beyond those they are of a sequence of as many variables.
        """
        samples = self.samples
        if last > self.dim:
            samples = BaseSamples(num_samples or len(samples), last, self.seed).samples.to(samples)
        elif num_samples is not None and num_samples > len(samples):
            samples = self._sobol(num_samples).to(samples)
        return samples[:num_samples, None, first : last or None]


def driven_draws(distribution: Any, base: Tensor, rows: int) -> Tensor:
    """Draws [N, b, *event] of a site that are driven by base samples [N, 1, D].

    Uses the distribution's own `rsample_from(base)` if it has one, the location and scale of a
    normal distribution, and the quantile function of other distributions with independent
    coordinates, through transforms of any kind, those of zuko's flows among them.

    :param base: of `noise_shape(distribution)` coordinates.
    :param rows: b; 1 for a site that all rows share.
    :raises NotImplementedError: for a distribution with none of these.
    """
    if hasattr(distribution, "rsample_from"):
        draws: Tensor = distribution.rsample_from(base)
    else:
        size = noise_shape(distribution)
        draws = _driven(distribution, base.unflatten(-1, size) if size else base[..., 0])
    shape = broadcast_shapes(distribution.batch_shape, (len(base), rows))
    return draws.expand(*shape, *distribution.event_shape)


def is_driven(distribution: Any, like: Tensor) -> bool:
    """Whether base samples, on the device of a tensor, can drive draws of a distribution."""
    base = like.new_zeros(1, 1, noise_shape(distribution).numel())
    try:
        driven_draws(distribution, base, distribution.batch_shape[-1:].numel())
    except NotImplementedError:
        return False
    return True


def noise_shape(distribution: Any) -> torch.Size:
    """The event shape of what drives a draw, which a transform may change."""
    if isinstance(distribution, MaskedDistribution):
        return noise_shape(distribution.base_dist)
    if isinstance(distribution, Independent):
        base, count = distribution.base_dist, distribution.reinterpreted_batch_ndims
        return base.batch_shape[len(base.batch_shape) - count :] + noise_shape(base)
    if isinstance(distribution, TransformedDistribution):
        return noise_shape(distribution.base_dist)
    shape: torch.Size = distribution.event_shape
    return shape


def _driven(q: Any, base: Tensor) -> Tensor:
    """Draws from base samples of its noise shape; NotImplementedError where nothing does it."""
    if isinstance(q, Independent | MaskedDistribution):
        return _driven(q.base_dist, base)
    if isinstance(q, TransformedDistribution):
        value = _driven(q.base_dist, base)
        for transform in q.transforms:
            value = transform(value)
        return value
    if hasattr(q, "transform") and hasattr(q, "base"):  # a flow of zuko, from data to noise
        noise = _driven(q.base, base)
        shape = broadcast_shapes(noise.shape, (*q.batch_shape, 1))
        draws: Tensor = q.transform.inv(noise.expand(shape))
        return draws
    if isinstance(q, Normal):
        return q.loc + q.scale * base
    if isinstance(q, MultivariateNormal):
        return q.loc + (q.scale_tril @ base.unsqueeze(-1)).squeeze(-1)
    if q.event_shape:
        raise NotImplementedError
    return _quantile(q, torch.special.ndtr(base))


def _quantile(q: Any, u: Tensor) -> Tensor:
    """The quantile function of a univariate distribution, torch's or, without a gradient, SciPy's.

    :raises NotImplementedError: where neither has one.
    """
    if not isinstance(q, Gamma | Beta | StudentT):
        found: Tensor = q.icdf(u)
        return found
    from scipy import special

    def of_scipy(function: Callable[..., Any], *parameters: Tensor) -> Tensor:
        if torch.is_grad_enabled() and any(part.requires_grad for part in parameters):
            raise NotImplementedError
        numbers = (part.detach().double().cpu().numpy() for part in (*parameters, u))
        return torch.as_tensor(function(*numbers), device=u.device).to(u.dtype)

    if isinstance(q, Gamma):
        return of_scipy(special.gammaincinv, q.concentration) / q.rate
    if isinstance(q, Beta):
        return of_scipy(special.betaincinv, q.concentration1, q.concentration0)
    return q.loc + q.scale * of_scipy(special.stdtrit, q.df)


class Latent(NamedTuple):
    """A latent site of a story.

    :param size: number of its coordinates, and `event_shape` their shape.
    :param values: number of its values where they are finitely many, else 0.
    :param parts: number of components of a mixture, else 0.
    :param seeded: name of a distribution that base samples cannot drive, else "".
    """

    size: int
    event_shape: torch.Size
    values: int = 0
    parts: int = 0
    seeded: str = ""


class Noise:
    """Independent draws from torch's generator.

    :param count: number of draws of every row.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def draw(self, name: str, q: Any, rows: int) -> tuple[Tensor, Tensor | None]:
        """Draws [N, b, *event] of a site, and log-weights [N, b] or None.

        :param q: its distribution, or a function that returns it and is called only if needed.
        :param rows: b; 1 for a site that all rows share.
        """
        return self.proposed(name, of(q), rows), None

    def proposed(self, name: str, q: Any, rows: int) -> Tensor:
        """Draws of a site from a proposal."""
        if q.batch_shape == (rows,):
            return q.sample((self.count,))
        return q.expand(broadcast_shapes(q.batch_shape, (self.count, rows))).sample()


class FixedNoise(Noise):
    """Draws driven by the model's base samples, the same at every call.

    Finite sites take all of their values in turn, and components of a mixture equal shares, each
    with the same draws of the other sites: every second point of a Sobol sequence, say, may lie in
    one half of a coordinate. Where base samples cannot drive a site, its draws are seeded, and
    those of a row are the same in every call if the row has a block of its own.

    :param num_samples: requested number of draws; there are as many as all values, and all
        components, make a multiple of.
    :param latents: the latent sites of the story.
    """

    def __init__(self, model: Any, latents: Mapping[str, Latent], num_samples: int) -> None:
        # Not the model, which keeps this.
        self._samples, self._places = model.base_samples, dict(model.places)
        self._members = model.members if model.draws_equally else 0
        strata, self._stride, end = 1, {}, self._samples.dim
        for name, site in latents.items():
            self._stride[name] = strata
            strata *= max(1, site.values) * max(1, site.parts)
            if name not in self._places and not site.values:  # beyond the coordinates of the model
                self._places[name] = end
                end += site.size
        driven = any(not site.values for site in latents.values())
        self.strata = strata
        self.seeded = next((site.seeded for site in latents.values() if site.seeded), "")
        repeats = max(1, num_samples // strata) if driven else 1
        super().__init__(num_samples if strata == 1 else strata * repeats)
        #: Options of `prediction.draws.blocks`.
        self.in_blocks: dict[str, Any] = {"draws": self.count, "alone": bool(self.seeded)}

    def _number(self, name: str, count: int, like: Tensor) -> Tensor:
        """Which of so many values, or components, each draw has, [N]."""
        place = torch.arange(self.count, device=like.device)
        return place.div(self._stride[name], rounding_mode="floor") % count

    def draw(self, name: str, q: Any, rows: int) -> tuple[Tensor, Tensor | None]:
        """Draw a site from its share of the noise."""
        if name == "z" and self._members:  # members, whatever x is
            every = torch.eye(self._members).to(self._samples.samples)
            return every[self._number(name, self._members, every)].unsqueeze(1), None
        q = of(q)
        if is_finite(q):
            support = every_value(q)
            values = support[self._number(name, len(support), support)].unsqueeze(1)
            shape = broadcast_shapes(q.batch_shape, (self.count, rows))
            return values.expand(*shape, *q.event_shape), q.log_prob(values).double()
        if not isinstance(q, MixtureOfDiagNormals):
            return self.proposed(name, q, rows), None
        base, which = self._base(name, q), self._number(name, q.locs.shape[-2], q.locs)
        loc, scale, logits = (
            part.index_select(dim, which).movedim(dim, 0)
            for part, dim in ((q.locs, -2), (q.coord_scale, -2), (q.probs, -1))
        )
        return loc + scale * base, logits.double().log()

    def proposed(self, name: str, q: Any, rows: int) -> Tensor:
        """Propose draws of a site from its share of the noise."""
        try:
            return driven_draws(q, self._base(name, q), rows)
        except NotImplementedError:
            if not self.seeded:  # a proposal, or draws with a gradient that SciPy lacks
                self.seeded = type(coordinates(q)).__name__
                warn_user(
                    f"draws of {self.seeded} are seeded: what a row gets depends on the rows of "
                    "its call, and may fall"
                )
            wide = q.expand(broadcast_shapes(q.batch_shape, (self.count, rows)))
            seed = self._samples.seed + list(self._stride).index(name) + 1
            with Randomness(seed, self._samples.samples.device).in_use():
                draws: Tensor = wide.rsample() if wide.has_rsample else wide.sample()
            return draws

    def _base(self, name: str, q: Any) -> Tensor:
        """Base samples [N, 1, d] of the coordinates of a site."""
        first = self._places[name]
        base = self._samples(self.count // self.strata, first, first + noise_shape(q).numel())
        return base.repeat_interleave(self.strata, 0)
