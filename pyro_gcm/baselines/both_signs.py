"""LipschitzMonotone and SwitchMonotone: monotone networks whose weights have both signs."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from pyro_gcm._utils.validation import positive
from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.networks import clip

_LAYERS = 3


class LipschitzMonotone(Baseline):
    """Lipschitz monotonic network: s(x, r) = g(x, r) + bound * sum of r.

    g is Lipschitz in the standardised inputs, abs(g(a) - g(b)) <= bound * sum abs(a - b), so s is
    non-decreasing in r. Its slope is at most 2 * bound in r and at most `bound` in x. g is an MLP
    of three layers with GroupSort activations. The weights of each layer are divided by
    max(1, norm / bound^(1/3)), where the norm is the absolute value of a weight in the first layer
    and the sum of the absolute weights of a unit in the others (the kinds "one-inf" and "inf" of
    Nolte et al. 2023).

    :param hidden: width of both hidden layers; even, since GroupSort sorts pairs of units.
    :param bound: Lipschitz constant of g; lambda in Nolte et al. (2023).
    :param options: of `Baseline`: response.
    """

    strict: ClassVar[bool] = True

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        hidden: int = 16,
        bound: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(x_dim, r_dim, **options)
        self.bound = positive("bound", bound)
        self.first = nn.Linear(x_dim + r_dim, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, 1)

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """The contribution of x to the first layer, [..., hidden]."""
        weight = self._single(self.first.weight[:, : self.x_dim])
        return (functional.linear(x, weight, self.first.bias),)

    def decode(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """Score [...]."""
        return self.lipschitz_part(encoded, r) + self.bound * r.sum(-1)

    def lipschitz_part(self, encoded: tuple[Tensor, ...], r: Tensor) -> Tensor:
        """g [...] from `encode(x)` and standardised r."""
        weight = self._single(self.first.weight[:, self.x_dim :])
        h = _group_sort(encoded[0] + functional.linear(r, weight))
        h = _group_sort(functional.linear(h, self._summed(self.second.weight), self.second.bias))
        return functional.linear(h, self._summed(self.output.weight), self.output.bias).squeeze(-1)

    def _single(self, weight: Tensor) -> Tensor:
        return weight / self._divisor(weight.abs())

    def _summed(self, weight: Tensor) -> Tensor:
        return weight / self._divisor(weight.abs().sum(1, keepdim=True))

    def _divisor(self, norms: Tensor) -> Tensor:
        # Weights are scaled only where they exceed this layer's share of the bound.
        return clip(norms / self.bound ** (1.0 / _LAYERS), low=1.0)


def _group_sort(h: Tensor) -> Tensor:
    """Sort each pair of units [..., hidden], which keeps the absolute value of gradients."""
    return h.unflatten(-1, (-1, 2)).sort(-1).values.flatten(-2)


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
        self.free = nn.Sequential(
            nn.Linear(x_dim, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU()
        )
        self.first = nn.Linear(hidden + r_dim, hidden)
        self.switched = nn.ModuleList(nn.Linear(hidden, size) for size in (hidden, hidden, 1))

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
