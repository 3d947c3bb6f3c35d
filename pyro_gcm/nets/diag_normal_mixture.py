"""A mixture of diagonal normals with reparameterised gradients of all of its parameters."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor

from pyro_gcm.distributions.numerics import ndtr


class DiagNormalMixture(dist.MixtureOfDiagNormals):
    """Pyro's `MixtureOfDiagNormals` with unbiased gradients, any sample shape, and D = 1 allowed.

    In Pyro 1.9.2 the gradients of the original's draws with respect to the logits are biased, its
    `rsample(sample_shape)` mixes up the rows of a batch, and its `log_prob` does not check its
    argument. Here the gradients are those of the multivariate distribution function: with
    u_i = F(z_i | z_<i) fixed, dz_i = -dF(z_i | z_<i) / p(z_i | z_<i), one coordinate after another
    (Figurnov, Mohamed and Mnih 2018, Implicit reparameterization gradients). Between components
    that are far apart p is small, and these gradients have heavy tails.

    :param locs: locations of the components, [..., C, D].
    :param coord_scale: standard deviations, [..., C, D].
    :param component_logits: logarithms of the weights, up to an additive constant, [..., C].
    """

    @staticmethod
    def infer_shapes(  # type: ignore[override]
        locs: Any, coord_scale: Any, component_logits: Any
    ) -> tuple[torch.Size, torch.Size]:
        """Batch shape and event shape from the shapes of the arguments."""
        return torch.Size(locs[:-2]), torch.Size(locs[-1:])

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, of shape `sample_shape + batch_shape`."""
        if self._validate_args:
            self._validate_sample(value)
        return super().log_prob(value)

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Differentiable draws, [*sample_shape, *batch_shape, D]."""
        sample_shape = torch.Size(sample_shape)
        which = self.categorical.sample(sample_shape)  # [..., B]
        shape = self._extended_shape(sample_shape)
        index = which[..., None, None].expand(*shape[:-1], 1, shape[-1])
        with torch.no_grad():
            loc, scale = (
                part.expand(*shape[:-1], *part.shape[-2:]).gather(-2, index).squeeze(-2)
                for part in (self.locs, self.coord_scale)
            )
            z = loc + scale * torch.randn_like(loc)
        return self._differentiable(z)

    def _differentiable(self, z: Tensor) -> Tensor:
        """The draws z, with the gradients at which every F(z_i | z_<i) is constant."""
        if not torch.is_grad_enabled():
            return z
        log_weights = self.categorical.logits  # of the components given z_<i, [..., B, C]
        columns: list[Tensor] = []
        for i in range(self.dim):
            loc, scale = self.locs[..., i], self.coord_scale[..., i]
            fixed = z[..., i]
            cdf = _tail(fixed, loc, scale, log_weights.softmax(-1))
            joint = log_weights.log_softmax(-1) + _log_normal(fixed, loc, scale)
            density = joint.logsumexp(-1).exp().detach()
            columns.append(fixed - (cdf - cdf.detach()) / density)
            log_weights = log_weights + _log_normal(columns[-1], loc, scale)
        return torch.stack(columns, dim=-1)


def _log_normal(z: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """log N(z_i; loc_k, scale_k) for each component k, [..., C]."""
    epsilon = (z.unsqueeze(-1) - loc) / scale
    return -0.5 * epsilon.square() - scale.log() - 0.5 * math.log(2.0 * math.pi)


def _tail(z: Tensor, loc: Tensor, scale: Tensor, weights: Tensor) -> Tensor:
    """F(z), or F(z) - 1 if that is smaller: they have the same derivative, and keep all digits."""
    epsilon = (z.unsqueeze(-1) - loc) / scale
    below = (weights * ndtr(epsilon)).sum(-1)
    above = (weights * ndtr(-epsilon)).sum(-1)
    return torch.where(below < above, below, -above)
