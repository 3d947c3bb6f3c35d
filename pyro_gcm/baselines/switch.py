"""SwitchMonotone: weights of both signs with two activations (Sartor et al. 2025)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from pyro_gcm._utils.validation import positive_int
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.networks import clip


class SwitchMonotone(Baseline):
    """Monotonic network with weights of both signs (the activation switch precedes the weights).

    A layer with weights W = W+ + W-, W+ = max(W, 0), W- = min(W, 0), computes

        W+ act(h) + W- act(-h) + b

    which is increasing in h for any W and any increasing act. The first layer uses the identity, so
    it is abs(W) h + b; the other three use SELU. Four layers are the minimum for which Sartor et
    al. (2025) prove universal approximation. x enters through an MLP with two SiLU layers, whose
    output is concatenated with r in the first monotone layer.

    :param hidden: width of all hidden layers.
    :param options: of `Baseline`: response.
    """

    strict: ClassVar[bool] = True

    def __init__(self, x_dim: int, r_dim: int, *, hidden: int = 16, **options: Any) -> None:
        super().__init__(x_dim, r_dim, **options)
        width = positive_int("hidden", hidden)
        self.free = nn.Sequential(
            nn.Linear(x_dim, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.first = nn.Linear(width + r_dim, width)
        self.switched = nn.ModuleList(nn.Linear(width, size) for size in (width, width, 1))

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contribution of x to the first monotone layer, [..., hidden]."""
        weight = self.first.weight[:, : -self.r_dim].abs()
        return (functional.linear(self.free(x), weight, self.first.bias),)

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Score [...]."""
        h = encoded[0] + functional.linear(r, self.first.weight[:, -self.r_dim :].abs())
        for layer in self.switched:
            h = _switched(layer, h)
        return h.squeeze(-1)


def _switched(layer: Any, h: Tensor) -> Tensor:
    # Any, since the type of the elements of a ModuleList is Module.
    rising = functional.linear(functional.selu(h), clip(layer.weight, low=0.0), layer.bias)
    falling = functional.linear(functional.selu(-h), clip(layer.weight, high=0.0))
    return rising + falling
