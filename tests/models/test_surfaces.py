"""Surfaces: in blocks of any size, with repeated revenues, reduced, in a bounded memory."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import zoo
from torch import Tensor

KINDS = (
    *("plain", "continuous", "alternatives", "conditional p0", "literal loss", "mixture prior"),
    *("categorical prior", "joint", "implicit", "implicit, one kernel", "implicit, joint"),
)


@functools.cache
def built(kind: str) -> Any:
    return zoo.informative(zoo.with_units(kind))


def some(count: int, revenues: int) -> tuple[Tensor, Tensor]:
    return zoo.rows(count=count, seed=4).x, zoo.rows(count=revenues, seed=5).r


def test_surface_is_that_of_predict_whatever_the_memory_and_the_mean_of_its_draws() -> None:
    x, revenues = some(70, 7)
    # Some come twice, and of a grid each value does.
    grid = torch.cartesian_prod(*[torch.linspace(-1.0, 1.0, 4).double()] * 2)
    revenues = torch.cat([revenues, revenues[::3].flip(0), grid])
    pairs = x.repeat_interleave(len(revenues), 0), revenues.repeat(len(x), 1)
    for kind in KINDS:
        model = built(kind)
        surface = functools.partial(model.surface, x, revenues, num_samples=16)
        whole = surface()
        predicted = model.predict(*pairs, num_samples=16).reshape(whole.shape)
        assert torch.equal(whole, predicted), kind
        assert torch.equal(surface(memory=1e-6), whole), kind
        best = surface(reduce=lambda p: p.argmax(1), memory=0.01)
        assert torch.equal(best, whole.argmax(1)), kind
        values, weights = model.surface_draws(x, revenues, num_samples=16)
        assert values.shape[1:] == whole.shape
        joint_or_finite = model.objective == "joint" or kind in (
            "mixture prior",
            "categorical prior",
        )
        assert (weights is not None) == joint_or_finite, kind
        if weights is not None:
            torch.testing.assert_close(weights.sum(0), torch.ones_like(whole))
        mean = values.mean(0) if weights is None else (weights * values).sum(0)
        torch.testing.assert_close(mean, whole, rtol=1e-9, atol=1e-9)
        if not kind.startswith("implicit"):  # each of them rises, as the mean does
            assert (values[..., [-6, -1]].diff(dim=-1) >= 0.0).all(), kind
        assert values.std(0).max() > 1e-3
    one = built("plain").surface_draws(x[63:64], revenues[1:2], num_samples=8).values
    whole = built("plain").surface_draws(x, revenues, num_samples=8).values
    assert torch.equal(one, whole[:, 63:64, 1:2])


@pytest.mark.parametrize("kind", ["plain", "implicit"])
def test_reduction_sees_all_rows_in_order_and_few_at_a_time(kind: str) -> None:
    model, (x, revenues) = built(kind), some(70, 40)
    seen: list[Tensor] = []

    def keep(block: Tensor) -> Tensor:
        seen.append(block)
        return torch.stack([block.amin(1), block.amax(1)], 1)

    kept = model.surface(x, revenues, num_samples=16, reduce=keep, memory=1e-2)
    assert len(seen) > 5
    whole = torch.cat(seen)
    assert torch.equal(whole, model.surface(x, revenues, num_samples=16))
    assert torch.equal(kept, torch.stack([whole.amin(1), whole.amax(1)], 1))
    for reduce, message in (
        (lambda p: p.amax(0), r"reduce must return \d+ rows, got shape \(40,\)"),
        (lambda p: p.sum(), r"reduce must return .* got shape \(\)"),
    ):
        with pytest.raises(ValueError, match=message):
            model.surface(x, revenues, num_samples=4, reduce=reduce)
