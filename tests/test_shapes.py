"""Broadcast shapes are those of torch."""

from __future__ import annotations

import pytest
import torch

from pyro_gcm._utils.tensors import broadcast_shapes


@pytest.mark.parametrize(
    "shapes",
    [(), ((),), ((), ()), ((2,), (3, 1), (1, 1, 1)), ((), (4,)), ((0,), (1,)), ((5, 0), ()),
     (torch.Size([2, 1]), (1, 3)), ((1,), (1,))],
    ids=str,
)  # fmt: skip
def test_shapes_broadcast_as_in_torch(shapes: tuple[tuple[int, ...], ...]) -> None:
    got = broadcast_shapes(*shapes)
    assert got == torch.broadcast_shapes(*shapes)
    assert isinstance(got, torch.Size)


@pytest.mark.parametrize("shapes", [((2,), (3,)), ((0,), (2,)), ((2, 1), (3, 2))], ids=str)
def test_other_shapes_are_refused(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match="shape"):
        broadcast_shapes(*shapes)
