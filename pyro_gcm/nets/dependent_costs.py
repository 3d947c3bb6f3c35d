"""Networks from z to costs that go together, as a `cost_family` of a model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyro_gcm._utils.options import shape_of
from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import positive_int
from pyro_gcm.distributions import CommonFactor, CostMixture
from pyro_gcm.distributions.families import resolve_cost_family
from pyro_gcm.nets.conditional import Conditional, mlp


@recorded("nets.FactorCosts")
class FactorCosts(nn.Module):
    """Costs with a common factor (`CommonFactor`), whose loadings are learned, the same for all z.

    With several alternatives they all share the factor. The bound of a few random draws is lowest
    where costs depend most, and so hides a factor: train with `FitSettings(particles="qmc")`. In a
    simulation with a correlation of .81 the mean estimate of 50 was .64, in place of .16.

    :param z_dim: number of columns of z.
    :param event_shape: of the costs, (K,) or (G, K); for K = r_dim and one alternative, (r_dim,).
    :param family: of each cost, as `cost_family` of a model.
    :param hidden: as for `Conditional`.

    >>> from pyro_gcm import GCM
    >>> from pyro_gcm.nets import FactorCosts
    >>> model = GCM(3, 2, z_dim=4, cost_family=FactorCosts(4, (2,)))
    >>> sorted(model.posterior(torch.zeros(1, 3), torch.zeros(1, 2), progress=False))
    ['c', 'c_factor', 'y', 'z']
    """

    def __init__(
        self,
        z_dim: int,
        event_shape: Sequence[int],
        family: str | type = "normal",
        hidden: int | Sequence[int] = 16,
    ) -> None:
        super().__init__()
        shape = shape_of("event_shape", event_shape)
        self.net = Conditional(resolve_cost_family(family), z_dim, shape, hidden)
        self.raw = nn.Parameter(torch.full(shape, 0.5))

    @property
    def loading(self) -> Tensor:
        """How strongly each cost depends on the factor, between -1 and 1; [(G,) K]."""
        return 0.999 * torch.tanh(self.raw)

    def forward(self, z: Tensor) -> CommonFactor:
        """The costs of z [..., z_dim]."""
        return CommonFactor(self.net(z), self.loading)


@recorded("nets.MixedCosts")
class MixedCosts(nn.Module):
    """Costs with several modes (`CostMixture`), whose probabilities depend on z as they do.

    :param modes: number J of modes, which start apart.
    :param z_dim, event_shape, family, hidden: as for `FactorCosts`.

    >>> from pyro_gcm import GCM
    >>> from pyro_gcm.nets import MixedCosts
    >>> model = GCM(3, 2, z_dim=4, cost_family=MixedCosts(4, (2,), modes=3))
    >>> model.posterior(torch.zeros(1, 3), torch.zeros(1, 2), progress=False)["c_mode"].shape
    torch.Size([1000, 1])
    """

    def __init__(
        self,
        z_dim: int,
        event_shape: Sequence[int],
        modes: int = 2,
        family: str | type = "normal",
        hidden: int | Sequence[int] = 16,
    ) -> None:
        super().__init__()
        shape = (positive_int("modes", modes), *shape_of("event_shape", event_shape))
        self.net = Conditional(resolve_cost_family(family), z_dim, shape, hidden)
        self.logits = mlp(z_dim, modes, hidden)
        start = torch.linspace(-1.0, 1.0, modes) if modes > 1 else torch.zeros(1)
        with torch.no_grad():
            self.net.loc_bias.unflatten(1, shape).add_(start.reshape(-1, *(1,) * (len(shape) - 1)))

    def forward(self, z: Tensor) -> CostMixture:
        """The costs of z [..., z_dim]."""
        return CostMixture(self.logits(z), self.net(z))
