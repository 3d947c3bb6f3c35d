"""What drives the draws of the guide in a training step: random numbers, or a Sobol sequence."""

from __future__ import annotations

from typing import Any

import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyro_gcm._utils.warn import warn_user
from pyro_gcm.prediction.base_samples import column_draws, driven_draws

PARTICLES = ("random", "qmc")


class Noise:
    """Independent draws from torch's generator."""

    def new_batch(self, rows: int) -> None:
        """A new step."""

    def draw(self, q: Any, shape: tuple[int, ...]) -> Tensor:
        """Reparametrised draws [N, B, ...] of a distribution of batch shape [B] or ()."""
        if isinstance(q, torch.distributions.Independent) and q.batch_shape == shape[1:]:
            return q.rsample(shape[:1])
        return q.expand(shape).rsample()


class QuasiRandomNoise(Noise):
    """Randomised quasi-Monte Carlo: N points of a Sobol sequence, shifted anew for a row and step.

    The shifts come from a fixed pool, so that no quantile function runs in a step. The draws of a
    row are standard normal and marginally uniform over the shifts, so that the mean of a gradient
    over them is unbiased (up to the size of the pool), and its variance is that of more random
    draws. A site whose distribution nothing can drive, such as a mixture, is drawn at random.

    Source: scrambling and shifts, Owen (1997) and Cranley & Patterson (1976).

    :param particles: N.
    :param dim: coordinates of all latent sites together.
    :param seed: of the sequence and of the shifts.
    :param like: a tensor of the device and dtype of the draws.
    """

    SHIFTS = 4096

    def __init__(self, particles: int, dim: int, seed: int, like: Tensor) -> None:
        #: Kinds of distributions that are drawn at random, because nothing drives them.
        self.at_random: set[str] = set()
        engine = torch.quasirandom.SobolEngine(dim, scramble=True, seed=seed)
        points = engine.draw(particles, dtype=torch.float64)
        shifts = torch.rand(
            self.SHIFTS, 1, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        uniform = ((points + shifts) % 1.0).clamp(2.0**-54, 1.0 - 2.0**-53)
        self.pool = torch.special.ndtri(uniform).to(like)  # [shifts, N, dim]

    def new_batch(self, rows: int) -> None:
        """Choose a shift for every row."""
        chosen = torch.randint(len(self.pool), (rows,), device=self.pool.device)
        self.base, self.used = self.pool[chosen].transpose(0, 1), 0  # [N, B, dim]

    def draw(self, q: Any, shape: tuple[int, ...]) -> Tensor:
        """As `Noise.draw`, from the next coordinates of the points."""
        first, end = self.used, self.used + q.event_shape.numel()
        draws = _driven(q, self.base[..., first:end])
        if draws is None:
            if type(q).__name__ not in self.at_random:
                self.at_random.add(type(q).__name__)
                warn_user(
                    f"particles='qmc': nothing drives draws of {type(q).__name__}, which are random"
                )
            return super().draw(q, shape)
        self.used = end
        return draws


def _driven(q: Any, base: Tensor) -> Tensor | None:
    """Differentiable draws of a distribution driven by base samples; None where nothing does it."""
    coordinate = q
    while isinstance(coordinate, torch.distributions.Independent):
        coordinate = coordinate.base_dist
    normal = torch.distributions.Normal, torch.distributions.MultivariateNormal
    if hasattr(q, "rsample_from") or isinstance(coordinate, normal):
        return driven_draws(q, base, seed=0)
    if coordinate.event_shape:
        return None
    try:  # in float64, in which no probability is rounded to 0 or 1
        base = base if q.event_shape else base[..., 0]
        return column_draws(coordinate, base.double()).to(base.dtype)
    except NotImplementedError:
        return None


class DrivenSites(Messenger):
    """Draws the sites of a guide from a noise, inside Pyro.

    :param bound: one whose particles are drawn together, in the outermost of its dimensions.
    """

    def __init__(self, noise: Noise, bound: Any) -> None:
        super().__init__()
        self.noise, self.particles = noise, bound.num_particles
        self.plates = bound.max_plate_nesting - (self.particles > 1)

    def _pyro_sample(self, msg: Any) -> None:
        q = msg["fn"]
        if msg["value"] is not None or not getattr(q, "has_rsample", False):
            return
        if self.particles > 1 and len(q.batch_shape) > self.plates:  # it depends on other draws
            msg["value"] = self.noise.draw(q, tuple(q.batch_shape))
        else:
            value = self.noise.draw(q, (self.particles, *q.batch_shape))
            unused = (1,) * (self.plates - len(q.batch_shape))
            msg["value"] = value.unflatten(0, (-1, *unused)) if self.particles > 1 else value[0]
