"""Increasing maps side by side, each of some of the revenues and with directions of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class DirectedMaps(nn.Module):
    """The maps of several responses, one after the other in the last dimension.

    :param maps: modules from the revenues that a response reads to [..., K_j].
    :param directions: +1, -1 or 0 (not read) for every revenue, for every map.
    """

    def __init__(self, maps: Sequence[nn.Module], directions: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(maps)
        self.directions = [list(own) for own in directions]

    def _read(self, r: Tensor) -> list[Tensor]:
        """The revenues [..., m_j] that each map reads, in its directions."""
        parts = []
        for own in self.directions:
            columns = [place for place, sign in enumerate(own) if sign]
            signs = r.new_tensor([own[place] for place in columns])
            parts.append(r[..., columns] * signs)
        return parts

    def learn(self, r: Tensor) -> None:
        """Show rows [n, m] to the maps that learn from them."""
        for part, own in zip(self.maps, self._read(r), strict=True):
            learn = getattr(part, "learn", None)
            if callable(learn):
                learn(own)

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., (members,) (G,) K_1 + K_2 + ..]."""
        pairs = zip(self.maps, self._read(r), strict=True)
        return torch.cat([part(own) for part, own in pairs], -1)
