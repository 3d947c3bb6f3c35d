"""Networks from a context to a distribution of z with event shape [D].

`Conditional(dist.Normal, in_dim, (D,))` is the diagonal normal, and `ConditionalFlow` is the most
flexible network. Each can be the prior p(z|x) or the network of a guide.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import pyro.distributions as dist
import torch
from pyro.contrib.zuko import ZukoToPyro
from pyro.distributions.transforms import AffineTransform, LowerCholeskyAffine
from torch import Tensor, nn
from torch.distributions import constraints

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions import coordinates
from pyro_gcm.distributions.numerics import ndtr
from pyro_gcm.nets.networks import Hidden, mlp, positive, widths_of, with_even_rows


@recorded("nets.StandardNormal")
class StandardNormal(nn.Module):
    """N(0, I), independent of the context."""

    loc: Tensor
    scale: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("loc", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def forward(self, context: Tensor | None = None) -> Any:
        """The distribution, with batch shape () and event shape [D]."""
        return dist.Normal(self.loc, self.scale).to_event(1)


@recorded("nets.ConditionalMultivariateNormal")
class ConditionalMultivariateNormal(nn.Module):
    """A network from a context [..., in_dim] to a normal with full covariance.

    The distribution is N(mu(x), L(x) L(x)'). One MLP computes the location and the lower triangle
    L, whose diagonal goes through `positive`. The other entries are initially small, so that
    training starts near a diagonal normal.

    :param in_dim, hidden: as for `Conditional`; `dim`: dimension D of z.

    >>> ConditionalMultivariateNormal(2, 3)(torch.zeros(5, 2)).covariance_matrix.shape
    torch.Size([5, 3, 3])
    """

    def __init__(self, in_dim: int, dim: int, hidden: Hidden = 16) -> None:
        super().__init__()
        self.dim = dim
        below = dim * (dim - 1) // 2
        self.net = mlp(in_dim, 2 * dim + below, hidden)
        with torch.no_grad():
            for parameter in self.net[-1].parameters():
                parameter[2 * dim :] *= 0.1

    def forward(self, context: Tensor) -> Any:
        """The distribution, with batch shape `context.shape[:-1]` and event shape [D]."""
        raw = self.net(context)
        loc, diagonal, below = raw.tensor_split([self.dim, 2 * self.dim], dim=-1)
        scale_tril = torch.diag_embed(positive(diagonal))  # [..., D, D]
        row, column = torch.tril_indices(self.dim, self.dim, -1, device=raw.device)
        scale_tril[..., row, column] = below
        return dist.MultivariateNormal(loc, scale_tril=scale_tril)


@recorded("nets.ConditionalMixture")
class ConditionalMixture(nn.Module):
    """A network from a context [..., in_dim] to a mixture of normals with shared components.

    The density is sum_k w_k(x) N(z; mu_k, diag(sigma_k^2)): z belongs to one of C groups, and x
    determines the probability of each.

    :param in_dim, hidden: as for `Conditional`; `dim`: dimension D of z.
    :param components: number of components C, which have different random initial locations.

    >>> ConditionalMixture(2, 3)(torch.zeros(5, 2)).component_logits.shape
    torch.Size([5, 4])
    """

    def __init__(self, in_dim: int, dim: int, components: int = 4, hidden: Hidden = 16) -> None:
        super().__init__()
        self.net = mlp(in_dim, components, hidden)
        self.locs = nn.Parameter(1.5 * torch.randn(components, dim))
        self.raw_scales = nn.Parameter(torch.zeros(components, dim))

    def forward(self, context: Tensor) -> DiagNormalMixture:
        """The distribution, with batch shape `context.shape[:-1]` and event shape [D]."""
        shape = (*context.shape[:-1], *self.locs.shape)
        locs, scales = self.locs.expand(shape), positive(self.raw_scales).expand(shape)
        return DiagNormalMixture(locs, scales, self.net(context))


@recorded("nets.ConditionalCategorical")
class ConditionalCategorical(nn.Module):
    """A network from a context [..., in_dim] to a latent class z, one-hot [..., categories].

    A model sums over z exactly (Pyro's enumeration) instead of sampling it, as over every prior
    with a finite support.

    :param in_dim, hidden: as for `Conditional`.
    :param categories: number of classes, the dimension D of z.

    >>> ConditionalCategorical(2, 3)(torch.zeros(5, 2)).enumerate_support(expand=False).shape
    torch.Size([3, 1, 3])
    """

    def __init__(self, in_dim: int, categories: int, hidden: Hidden = 16) -> None:
        super().__init__()
        self.net = mlp(in_dim, categories, hidden)

    def forward(self, context: Tensor) -> Any:
        """The distribution, with batch shape `context.shape[:-1]` and event shape [categories]."""
        return dist.OneHotCategorical(logits=self.net(context))


@recorded("nets.ConditionalFlow")
class ConditionalFlow(nn.Module):
    """A network from a context [..., in_dim] to zuko's neural spline flow (Durkan et al. 2019).

    Monotonic splines map z to a standard normal. They are the identity outside of [-5, 5], so that
    z has about the scale of a standard normal. For dim = 1 the spline depends on the context only.

    :param in_dim, hidden: as for `Conditional`, in each transform; `dim`: dimension D of z.
    :param transforms: number of transforms, in alternating order of the columns. Each is a
        coupling, so that a draw takes two passes through its network for any D.

    >>> ConditionalFlow(2, 3)(torch.zeros(5, 2)).rsample_from(torch.zeros(7, 1, 3)).shape
    torch.Size([7, 5, 3])
    """

    def __init__(self, in_dim: int, dim: int, hidden: Hidden = 16, transforms: int = 2) -> None:
        super().__init__()
        flow = _zuko().flows.NSF(
            features=dim,
            context=in_dim,
            passes=min(2, dim),
            transforms=transforms,
            hidden_features=tuple(widths_of(hidden)),
            activation=nn.Tanh,
        )
        self.flow: Any = with_even_rows(flow)

    def forward(self, context: Tensor) -> FlowDistribution:
        """The distribution, with batch shape `context.shape[:-1]` and event shape [D]."""
        return FlowDistribution(self.flow(context))


def _zuko() -> Any:
    """Import zuko and undo a side effect: it disables the checks of all torch distributions."""
    checks = torch.distributions.Distribution._validate_args
    zuko = importlib.import_module("zuko")
    torch.distributions.Distribution.set_default_validate_args(checks)
    return zuko


class FlowDistribution(ZukoToPyro):
    """A zuko flow as a Pyro distribution, whose draws can be driven by given noise.

    Unlike `ZukoToPyro` it has `sample` and `rsample`, which `mask` needs, and no cache.

    :param dist: a `zuko.distributions.NormalizingFlow` with a normal base.
    """

    dist: Any
    arg_constraints: dict[str, Any] = {}
    support = constraints.real_vector

    def __call__(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Same as `rsample`."""
        return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Differentiable draws, [*sample_shape, *batch_shape, D]."""
        return self.dist.rsample(torch.Size(sample_shape))

    def rsample_from(self, noise: Tensor) -> Tensor:
        """Map standard normal noise to draws through the inverse of the flow.

        :param noise: [..., D], broadcast against the batch shape (so [N, 1, D] for batch [B]).
        :returns: differentiable draws, [..., *batch_shape, D].
        """
        shape = broadcast_shapes(noise.shape[:-1], self.batch_shape)
        return self.dist.transform.inv(noise.expand(*shape, noise.shape[-1]))

    def expand(self, batch_shape: Any, _instance: Any = None) -> FlowDistribution:
        """The same flow over a larger batch shape."""
        return FlowDistribution(self.dist.expand(torch.Size(batch_shape)))


def corrected(prior: Any, correction: Any) -> Any:
    """The prior with T(e) in the place of the e that it makes of its draws: the prior, if T(e) = e.

    For a normal prior m + s e and for a flow e is standard normal. Any other prior is taken as
    m + s e with its location and scale, or with 0 and 1 if it has none.

    :param correction: distribution of T(e) for standard normal e, [B], of event shape [D]: a
        normal with diagonal or full covariance, or a flow.
    """
    own, change = coordinates(prior), coordinates(correction)
    if isinstance(own, FlowDistribution):
        return dist.TransformedDistribution(correction, [own.dist.transform.inv])
    m, s = getattr(own, "loc", 0.0), getattr(own, "scale", 1.0)
    units = AffineTransform(m, s, event_dim=1)
    if isinstance(own, dist.Normal):
        if isinstance(change, dist.Normal):
            return dist.Normal(m + s * change.loc, s * change.scale).to_event(1)
        if isinstance(change, dist.MultivariateNormal):
            scale_tril = own.scale.unsqueeze(-1) * change.scale_tril
            return dist.MultivariateNormal(m + s * change.loc, scale_tril=scale_tril)
        return dist.TransformedDistribution(change, [units])
    step: Any
    if isinstance(change, dist.Normal):
        step = AffineTransform(change.loc, change.scale, event_dim=1)
    elif isinstance(change, dist.MultivariateNormal):
        step = _Triangular(change.loc, change.scale_tril)
    else:
        step = change.dist.transform.inv
    prior = prior.expand(correction.batch_shape)
    return dist.TransformedDistribution(prior, [units.inv, step, units])


class _Triangular(LowerCholeskyAffine):
    """Pyro's map e -> loc + L e with a matrix L for each row."""

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log det L, [...]."""
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1).expand(x.shape[:-1])


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
            parts = (v.expand(*shape[:-1], *v.shape[-2:]) for v in (self.locs, self.coord_scale))
            loc, scale = (part.gather(-2, index).squeeze(-2) for part in parts)
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
