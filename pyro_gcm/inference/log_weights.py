"""log p / q of the draws of one batch, without Pyro's handlers."""

from __future__ import annotations

from typing import Any

import torch
from pyro.infer import TraceMeanField_ELBO
from torch import Tensor
from torch.distributions import kl_divergence

from pyro_gcm.inference.noise import Noise


class LogWeights:
    """log p / q of the sites of one batch, [N, B], as the sites are drawn.

    :param bound: with its number of particles, N.
    :param temperature: factor on the log-densities of the latent sites.
    """

    def __init__(self, bound: Any, noise: Noise, rows: int, temperature: float) -> None:
        self.noise, self.shape = noise, (bound.num_particles, rows)
        self.temperature = temperature
        self.analytic = isinstance(bound, TraceMeanField_ELBO)
        self.is_dreg = getattr(bound, "gradient", "") == "dreg" and torch.is_grad_enabled()
        self.total: Tensor | float = 0.0
        self.finite: Tensor | None = None  # log p of the values of a site that is summed out
        self.averages = False  # whether the guide is summed over with the same probabilities
        self.values: list[Tensor] = []

    def latent(self, q: Any, p: Any | None) -> Tensor:
        """Draws [N, B, ...] of a site of the guide; p is None where q is the program's own."""
        if not q.has_rsample:
            raise NotImplementedError(f"{type(q).__name__} has no reparametrised sampler")
        value = self.noise.draw(q, self.shape)
        if p is None:
            return value
        if self.is_dreg:
            value = value.view_as(value)
            self.values.append(value)
        try:
            if not self.analytic:
                raise NotImplementedError
            log_ratio = -kl_divergence(q, p)
        except NotImplementedError:
            log_q = q.log_prob(value)
            if self.is_dreg:  # the score out of the gradient
                score = q.log_prob(value.detach())
                log_q = log_q + (score.detach() - score)
            log_ratio = p.log_prob(value) - log_q
        self.total = self.total + self.temperature * log_ratio
        return value

    def summed_out(self, p: Any) -> Tensor:
        """The values [D, 1, 1, D] of a site with a finite support."""
        support: Tensor = p.enumerate_support(expand=False)
        self.finite = p.log_prob(support).unsqueeze(1)
        return support.unsqueeze(1)

    def observed(self, p: Any, value: Tensor) -> None:
        """A site of the data."""
        self.total = self.total + p.log_prob(value)
