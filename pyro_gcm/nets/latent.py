"""Networks from a context to a distribution of z with event shape [D].

`Conditional(dist.Normal, in_dim, (D,))` is the diagonal normal, and `ConditionalFlow` is the most
flexible network. Each can be the prior p(z|x) or the network of a guide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import positive_int
from pyro_gcm.nets.conditional import Conditional, mlp, positive
from pyro_gcm.nets.diag_normal_mixture import DiagNormalMixture

Make = TypeVar("Make", bound=Callable[..., nn.Module])


#: Networks (in_dim, dim, hidden=) of a prior p(z|x) by name, and of guides by their ending.
PRIOR_NETWORKS: dict[str, Callable[..., nn.Module]] = {}
GUIDE_NETWORKS: dict[str, Callable[..., nn.Module]] = {}


def latent(*, prior: str | None = None, guide: str | None = None) -> Callable[[Make], Make]:
    """Decorator that gives a network of a latent variable names in the arguments of a model.

    :param prior: name as `prior=`.
    :param guide: ending as `guide=`, after "amortised", q(z|x), and "posterior", q(z|x, r, y).
    """

    def enter(make: Make) -> Make:
        if prior is not None:
            PRIOR_NETWORKS[prior] = make
        if guide is not None:
            GUIDE_NETWORKS[guide] = make
        return make

    return enter


@latent(prior="conditional", guide="")
def _normal(in_dim: int, dim: int, hidden: int | Sequence[int] = 16) -> nn.Module:
    return Conditional(dist.Normal, in_dim, (dim,), hidden)


@latent(prior="laplace")
def _laplace(in_dim: int, dim: int, hidden: int | Sequence[int] = 16) -> nn.Module:
    return Conditional(dist.Laplace, in_dim, (dim,), hidden)


@recorded("nets.StandardNormal")
class StandardNormal(nn.Module):
    """N(0, I), independent of the context."""

    loc: Tensor
    scale: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        dim = positive_int("dim", dim)
        self.register_buffer("loc", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def forward(self, context: Tensor | None = None) -> Any:
        """The distribution, with batch shape () and event shape [D]."""
        return dist.Normal(self.loc, self.scale).to_event(1)


@latent(guide="_full")
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

    def __init__(self, in_dim: int, dim: int, hidden: int | Sequence[int] = 16) -> None:
        super().__init__()
        self.dim = dim = positive_int("dim", dim)
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


@latent(prior="mixture")
@recorded("nets.ConditionalMixture")
class ConditionalMixture(nn.Module):
    """A network from a context [..., in_dim] to a mixture of normals with shared components.

    The density is sum_k w_k(x) N(z; mu_k, diag(sigma_k^2)): z belongs to one of C groups, and x
    determines the probability of each.

    :param in_dim, hidden: as for `Conditional`; `dim`: dimension D of z.
    :param components: number of components C, which have different random initial locations.
    :raises ValueError: for fewer than 1 component.

    >>> ConditionalMixture(2, 3)(torch.zeros(5, 2)).component_logits.shape
    torch.Size([5, 4])
    """

    def __init__(
        self, in_dim: int, dim: int, components: int = 4, hidden: int | Sequence[int] = 16
    ) -> None:
        super().__init__()
        components, dim = positive_int("components", components), positive_int("dim", dim)
        self.net = mlp(in_dim, components, hidden)
        self.locs = nn.Parameter(1.5 * torch.randn(components, dim))
        self.raw_scales = nn.Parameter(torch.zeros(components, dim))

    @property
    def scales(self) -> Tensor:
        """Standard deviations of the components, [C, D]."""
        return positive(self.raw_scales)

    def forward(self, context: Tensor) -> DiagNormalMixture:
        """The distribution, with batch shape `context.shape[:-1]` and event shape [D]."""
        shape = (*context.shape[:-1], *self.locs.shape)
        return DiagNormalMixture(
            self.locs.expand(shape), self.scales.expand(shape), self.net(context)
        )


@latent(prior="categorical")
@recorded("nets.ConditionalCategorical")
class ConditionalCategorical(nn.Module):
    """A network from a context [..., in_dim] to a latent class z, one-hot [..., categories].

    A model sums over z exactly (Pyro's enumeration) instead of sampling it, as over every prior
    with a finite support.

    :param in_dim, hidden: as for `Conditional`.
    :param categories: number of classes, the dimension D of z.
    :raises ValueError: for fewer than 2 categories.

    >>> ConditionalCategorical(2, 3)(torch.zeros(5, 2)).enumerate_support(expand=False).shape
    torch.Size([3, 1, 3])
    """

    def __init__(self, in_dim: int, categories: int, hidden: int | Sequence[int] = 16) -> None:
        super().__init__()
        categories = positive_int("categories", categories, minimum=2)
        self.net = mlp(in_dim, categories, hidden)

    def forward(self, context: Tensor) -> Any:
        """The distribution, with batch shape `context.shape[:-1]` and event shape [categories]."""
        return dist.OneHotCategorical(logits=self.net(context))
