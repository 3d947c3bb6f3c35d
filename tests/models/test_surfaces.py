"""Surfaces: in blocks of any size, with repeated revenues, reduced, in a bounded memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from posterior_toys import CASES, informative, model_of, rows
from torch import Tensor

from pyro_gcm.distributions import OrderEvent, register_cost_family
from pyro_gcm.responses import Binary


class Doubled(Binary):
    """A response from outside, whose predictions are twice the probability."""

    def predict(self, event: OrderEvent) -> Tensor:
        return 2.0 * super().predict(event)


class Heavy(dist.Cauchy):
    """Costs with heavy tails: a family from outside."""


def log_lower_tail(u: Tensor) -> Tensor:
    return torch.log(torch.atan2(torch.ones_like(u), -u) / math.pi)


register_cost_family(
    Heavy,
    lambda d, value: log_lower_tail((value - d.loc) / d.scale),
    lambda d, value: log_lower_tail((d.loc - value) / d.scale),
)


MODELS: dict[str, Callable[[], Any]] = {
    **{
        case: functools.partial(model_of, case)
        for case in CASES
        if not any(word in case for word in ("importance", "guide", "quantile"))
    },
    "response from outside": functools.partial(informative, response=Doubled()),
    "registered family": functools.partial(informative, cost_family=Heavy),
}


@functools.cache
def built(name: str) -> Any:
    return MODELS[name]()


def some(count: int, revenues: int) -> tuple[Tensor, Tensor]:
    return rows(count, seed=4)[0], rows(revenues, seed=5)[1]


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("name", MODELS)
def test_surface_is_that_of_predict_whatever_the_memory(name: str) -> None:
    model, (x, revenues) = built(name), some(70, 7)
    levels = torch.linspace(-1.0, 1.0, 4, dtype=revenues.dtype)
    grid = torch.cartesian_prod(*[levels] * revenues.shape[1]).reshape(-1, revenues.shape[1])
    # Some come twice, and of a grid each value does.
    revenues = torch.cat([revenues, revenues[::3].flip(0), grid])
    surface = functools.partial(model.surface, x, revenues, num_samples=16)
    whole = surface()
    pairs = x.repeat_interleave(len(revenues), 0), revenues.repeat(len(x), 1)
    assert torch.equal(whole, model.predict(*pairs, num_samples=16).reshape(whole.shape))
    assert torch.equal(surface(memory=1e-6), whole)
    best = surface(reduce=lambda p: p.argmax(1), memory=0.01)
    assert torch.equal(best, whole.argmax(1))


@pytest.mark.parametrize("name", ["rejection", "implicit, k drawn"])
def test_reduction_sees_all_rows_in_order_and_few_at_a_time(name: str) -> None:
    model, (x, revenues) = built(name), some(70, 40)
    seen: list[Tensor] = []

    def keep(block: Tensor) -> Tensor:
        seen.append(block)
        return torch.stack([block.amin(1), block.amax(1)], 1)

    kept = model.surface(x, revenues, num_samples=16, reduce=keep, memory=1e-2)
    assert len(seen) > 5
    whole = torch.cat(seen)
    assert torch.equal(whole, model.surface(x, revenues, num_samples=16))
    assert torch.equal(kept, torch.stack([whole.amin(1), whole.amax(1)], 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reduce": lambda p: p.amax(0)}, r"reduce must return 70 rows, got shape \(4,\)"),
        ({"reduce": lambda p: p.sum()}, r"reduce must return .* got shape \(\)"),
    ],
)
def test_reductions_that_lose_rows_are_refused(options: dict[str, Any], message: str) -> None:
    x, revenues = some(70, 4)
    with pytest.raises(ValueError, match=message.replace("70", r"\d+")):
        built("rejection").surface(x, revenues, num_samples=4, **options)
