"""A row of a linear layer has the same bits wherever it stands."""

from __future__ import annotations

import pytest
import torch

from pyro_gcm._utils.tensors import elementwise
from pyro_gcm.prediction.base_samples import BLOCK_ROWS, BatchInvariantProducts


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("columns", [1, 3, 5, 6, 9, 14, 33])
@pytest.mark.parametrize("width", [4, 16])
def test_a_row_has_the_same_bits_anywhere(columns: int, width: int, dtype: torch.dtype) -> None:
    layer = torch.nn.Linear(columns, width).to(dtype)
    rows = torch.randn(64, columns, dtype=dtype)
    with BatchInvariantProducts():
        wanted = layer(rows)
        for shift in range(1, 64):
            assert torch.equal(layer(rows.roll(shift, 0)), wanted.roll(shift, 0))


def test_layers_inside_compute_what_they_are() -> None:
    layer = torch.nn.Linear(5, 3, bias=False).double()
    rows = torch.randn(2, 7, 5, dtype=torch.float64)
    with BatchInvariantProducts():
        inside = layer(rows)
    torch.testing.assert_close(inside, rows @ layer.weight.T)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("columns", [1, 5, 16, 33])
@pytest.mark.parametrize("draws", [(), (1,), (7,)], ids=str)
def test_several_blocks_have_the_bits_of_each_alone(
    draws: tuple[int, ...], columns: int, dtype: torch.dtype
) -> None:
    layer = torch.nn.Linear(columns, 6).to(dtype)
    plain = torch.nn.Linear(columns, 6, bias=False).to(dtype)
    rows = torch.randn(*draws, 5 * BLOCK_ROWS, columns, dtype=dtype)
    products = (layer, plain, lambda v: v @ layer.weight.T, lambda v: v.matmul(layer.weight[0]))
    with torch.no_grad(), BatchInvariantProducts():
        for product in products:
            whole, parts = product(rows), map(product, rows.split(BLOCK_ROWS, len(draws)))
            assert torch.equal(whole, torch.cat(list(parts), len(draws)))
            assert whole.shape[: len(draws) + 1] == rows.shape[:-1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("columns", [1, 5, 64])
@pytest.mark.parametrize("width", [1, 6, 18, 64])
@pytest.mark.parametrize("shared", [False, True])
def test_a_row_of_members_has_the_same_bits_in_every_place(
    shared: bool, width: int, columns: int, dtype: torch.dtype
) -> None:
    rows = torch.randn(1 if shared else 3, 3 * BLOCK_ROWS, columns, dtype=dtype).expand(3, -1, -1)
    matrices, bias = torch.randn(3, columns, width), torch.randn(3, 1, width)

    def product(rows: torch.Tensor) -> torch.Tensor:
        with torch.no_grad(), BatchInvariantProducts():
            return torch.baddbmm(bias.to(dtype), rows, matrices.to(dtype))

    wanted = product(rows)
    torch.testing.assert_close(wanted, torch.baddbmm(bias.to(dtype), rows, matrices.to(dtype)))
    assert torch.equal(torch.cat([product(p) for p in rows.split(BLOCK_ROWS, 1)], 1), wanted)
    for shift in range(1, BLOCK_ROWS):
        assert torch.equal(product(rows.roll(shift, 1)), wanted.roll(shift, 1))


def test_blocks_are_multiplied_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = torch.addmm

    def counting(bias: torch.Tensor, rows: torch.Tensor, *rest: object, **named: object) -> object:
        sizes.append(len(rows))
        return original(bias, rows, *rest, **named)

    monkeypatch.setattr(torch, "addmm", counting)
    layer, rows = torch.nn.Linear(16, 3), torch.randn(7, 3 * BLOCK_ROWS, 16)
    with torch.no_grad(), BatchInvariantProducts():
        layer(rows)
    assert sizes == [7 * BLOCK_ROWS] * 3


def test_elementwise_functions_need_no_detour() -> None:
    seen: list[object] = []

    class Watching(BatchInvariantProducts):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    values = torch.ones(3)
    with Watching():
        with elementwise():
            values.exp()
        assert not seen
        values.exp()
        assert seen
