"""The map of revenues with diminishing returns: linear from 0 on, each in one cost."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from pyro_gcm.distributions.products import on_grid


class ConcaveMap(nn.Module):
    """h_gk(r) = sum_j W_gkj (r_j - zero_j) + softplus(h'_gk(other revenues)), with W >= 0.

    A revenue j of `concave` enters one cost of every alternative: all of them the same cost of the
    first alternative, where one makes up for another, a cost each of the next one as far as there
    are costs, where they need each other, and so on in turn.

    :param concave: indices of those revenues.
    :param r_dim: number of all revenues.
    :param map_shape: of what is returned for a row, [(members,) (G,) K].
    :param others: an increasing map of the other revenues to this shape; None where there are none.
    :param dims: dimensions of the costs, 1 or 2.
    """

    zero: Tensor
    places: Tensor

    def __init__(
        self,
        concave: Sequence[int],
        r_dim: int,
        map_shape: tuple[int, ...],
        others: nn.Module | None,
        dims: int,
    ) -> None:
        super().__init__()
        self.concave, self.others = list(concave), others
        self.rest = [j for j in range(r_dim) if j not in self.concave]
        count, costs = len(self.concave), map_shape[-1]
        alternatives = map_shape[-2] if dims == 2 else 1
        place = torch.zeros(alternatives, costs, count)
        for g in range(alternatives):
            for j in range(count):
                place[g, (g % 2) * j % costs, j] = 1.0
        self.register_buffer("places", place if dims == 2 else place[0])
        self.register_buffer("zero", torch.zeros(count))
        self.raw_weight = nn.Parameter(torch.empty(*map_shape, count))
        with torch.no_grad():
            start = torch.rand(self.raw_weight.shape) + 0.5
            self.raw_weight.copy_(torch.log(torch.expm1(start)))

    def learn_zero(self, zero: Tensor) -> None:
        """Learn where the revenues [m] are 0, in the units of `forward`."""
        self.zero.copy_(zero[self.concave])

    def learn(self, r: Tensor) -> None:
        """Show rows [n, m] to a map of the others that learns from them."""
        if callable(learn := getattr(self.others, "learn", None)):
            learn(r[..., self.rest])

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., (members,) (G,) K]."""
        weights = softplus(self.raw_weight) * self.places
        above = (r[..., self.concave] - self.zero).clamp(min=0.0)
        mapped = r.new_zeros(())
        for j in range(len(self.concave)):  # elementwise, as a row alone and among others rounds
            own = above[..., j].reshape(*above.shape[:-1], *(1,) * (weights.dim() - 1))
            mapped = mapped + own * weights[..., j]
        if self.others is None:
            return mapped
        # On a grid of inputs, between which rounding cannot make it fall.
        return mapped + softplus(on_grid(self.others(r[..., self.rest]))).to(r.dtype)
