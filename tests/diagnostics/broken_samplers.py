"""Posterior draws spoiled in ten ways, none of which leaves the site's shape or type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pyro_gcm import IGCM

Draws = dict[str, Tensor]
Sampler = Callable[..., Draws]


def exact(model: Any, x: Tensor, r: Tensor, y: Tensor, **options: Any) -> Draws:
    return dict(model.cost_posterior(x, r, y, units="standard", progress=False, **options))


def ignoring_y(model: Any, x: Tensor, r: Tensor, y: Tensor, **options: Any) -> Draws:
    draws = model.posterior(x, r, units="standard", progress=False, **options)
    return dict(draws.only("z", "k", "c"))


def ignoring_x(model: Any, x: Tensor, *data: Tensor, **options: Any) -> Draws:
    return exact(model, x.mean(0).expand_as(x), *data, **options)


def ignoring_the_event(model: Any, x: Tensor, *data: Tensor, **options: Any) -> Draws:
    """z (and k) given y, and c from p(c|z)."""
    draws = exact(model, x, *data, **options)
    with torch.random.fork_rng():
        torch.manual_seed(options["seed"] + 1)
        cost = model.c_dist(draws["z"], model.covariates(draws["z"], x)).sample()
    return {**draws, "c": cost}


def spoiled(site: str, change: Callable[[Tensor], Tensor]) -> Sampler:
    """Exact draws, of which one site is changed, or each of them."""

    def sampler(model: Any, *data: Tensor, **options: Any) -> Draws:
        draws = exact(model, *data, **options)
        with torch.random.fork_rng():
            torch.manual_seed(options["seed"] + 1)
            changed = {name: change(draws[name]) for name in draws if site in (name, "every")}
        return {**draws, **changed}

    return sampler


def permuted(draws: Tensor) -> Tensor:
    """The draws of every row in another order."""
    order = torch.rand(draws.shape[:2]).argsort(0)
    return draws[order, torch.arange(draws.shape[1])]


def stretched(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda draws: draws.mean(0) + factor * (draws - draws.mean(0))


def with_last_permuted(draws: Tensor) -> Tensor:
    """The last coordinate from another draw."""
    return torch.cat([draws[..., :-1], permuted(draws[..., -1:])], -1)


BROKEN: dict[str, Sampler] = {
    "z permuted against c": spoiled("z", permuted),
    "draws of the next row": spoiled("every", lambda draws: draws.roll(1, 1)),
    "y ignored": ignoring_y,
    "x ignored": ignoring_x,
    "event ignored": ignoring_the_event,
    "too narrow": spoiled("z", stretched(1.0 / 1.3)),
    "too wide": spoiled("c", stretched(1.3)),
    "shifted": spoiled("z", lambda draws: draws + 0.25 * draws.std(0)),
    "one draw, repeated": spoiled("every", lambda draws: draws[:1].expand_as(draws).clone()),
    "costs of different draws": spoiled("c", with_last_permuted),
}
BROKEN_KERNEL: dict[str, Sampler] = {
    "k permuted against c": spoiled("k", permuted),
    "columns of k swapped": spoiled("k", lambda draws: draws.flip(-1)),
}


def broken(kind: type) -> dict[str, Sampler]:
    """Those that a kind of model can have."""
    return {**BROKEN, **BROKEN_KERNEL} if kind is IGCM else BROKEN
