"""A conditional normalising flow for z."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from pyro.contrib.zuko import ZukoToPyro
from torch import Tensor, nn
from torch.distributions import constraints

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.tensors import broadcast_shapes
from pyro_gcm._utils.validation import positive_int
from pyro_gcm.nets.conditional import widths_of
from pyro_gcm.nets.latent import latent


@latent(prior="flow", guide="_flow")
@recorded("nets.ConditionalFlow")
class ConditionalFlow(nn.Module):
    """A network from a context [..., in_dim] to zuko's neural spline flow (Durkan et al. 2019).

    Monotonic splines map z to a standard normal. They are the identity outside of [-5, 5], so that
    z has about the scale of a standard normal. For dim = 1 the spline depends on the context only.

    :param in_dim, hidden: as for `Conditional`, in each transform; `dim`: dimension D of z.
    :param transforms: number of transforms, in alternating order of the columns. Each is a
        coupling, so that a draw takes two passes through its network for any D.
    :raises ValueError: for fewer than 1 transform.

    >>> ConditionalFlow(2, 3)(torch.zeros(5, 2)).rsample_from(torch.zeros(7, 1, 3)).shape
    torch.Size([7, 5, 3])
    """

    def __init__(
        self, in_dim: int, dim: int, hidden: int | Sequence[int] = 16, transforms: int = 2
    ) -> None:
        super().__init__()
        dim = positive_int("dim", dim)
        self.flow = _zuko().flows.NSF(
            features=dim,
            context=positive_int("in_dim", in_dim, minimum=0),
            passes=min(2, dim),
            transforms=positive_int("transforms", transforms),
            hidden_features=tuple(widths_of(hidden)),
            activation=nn.Tanh,
        )

    def forward(self, context: Tensor) -> FlowDistribution:
        """The distribution, with batch shape `context.shape[:-1]` and event shape [D]."""
        return FlowDistribution(self.flow(context))


def _zuko() -> Any:
    """Import zuko and undo a side effect: it disables the checks of all torch distributions."""
    checks = torch.distributions.Distribution._validate_args
    module = importlib.import_module("zuko")
    torch.distributions.Distribution.set_default_validate_args(checks)
    return module


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
