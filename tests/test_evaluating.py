"""Evaluation mode for the time of a prediction."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pyro_gcm._utils.evaluating import evaluating


class Counting(nn.Module):
    """Does something of its own when its mode changes."""

    def __init__(self) -> None:
        super().__init__()
        self.modes: list[bool] = []

    def train(self, mode: bool = True) -> Counting:
        self.modes.append(mode)
        return super().train(mode)


def modes(module: nn.Module) -> list[bool]:
    return [part.training for part in module.modules()]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", ["plain", "its own train", "scripted"])
def test_every_part_is_in_evaluation_mode_and_gets_its_own_mode_back(kind: str) -> None:
    part: nn.Module = nn.Dropout(0.9)
    if kind == "its own train":
        part = Counting()
    elif kind == "scripted":
        part = torch.jit.script(part)
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5)), part, nn.BatchNorm1d(2))
    net[1].eval()
    before = modes(net)
    with pytest.raises(KeyError), evaluating(net):  # noqa: PT012
        assert not any(modes(net))
        if kind == "scripted":
            assert torch.equal(part(torch.ones(50)), torch.ones(50))
        raise KeyError
    assert modes(net) == before
    if isinstance(part, Counting):
        assert part.modes == [False]
    net.eval()
    with evaluating(net):
        assert not any(modes(net))
    assert not any(modes(net))
