"""Which wrong samplers simulation-based calibration finds, and that it accepts the right one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM
from pyro_gcm.diagnostics import SBCResult, simulation_based_calibration

COUNT, FOUND = 1000, 1e-3
OPTIONS: dict[str, dict[str, Any]] = {
    "GCM": {},
    "GCM, continuous": {"response": "continuous"},
    "IGCM": {},
}
BINARY = {"GCM": GCM, "IGCM": IGCM}
#: A few rows of a thousand have a Pareto k above 0.7 by chance.
pytestmark = pytest.mark.filterwarnings("ignore:.* rows have an effective sample size")


Draws = dict[str, Tensor]
Sampler = Callable[..., Draws]


def exact(model: Any, x: Tensor, r: Tensor, y: Tensor, **options: Any) -> Draws:
    return dict(model.cost_posterior(x, r, y, progress=False, **options))


def ignoring_x(model: Any, x: Tensor, *data: Tensor, **options: Any) -> Draws:
    return exact(model, x.mean(0).expand_as(x), *data, **options)


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


def with_last_permuted(draws: Tensor) -> Tensor:
    """The last coordinate from another draw."""
    return torch.cat([draws[..., :-1], permuted(draws[..., -1:])], -1)


#: Wrong draws, in the shapes and types of the right ones; `test_sbc.py` has others.
BROKEN: dict[str, Sampler] = {
    "z permuted against c": spoiled("z", permuted),
    "draws of the next row": spoiled("every", lambda draws: draws.roll(1, 1)),
    "x ignored": ignoring_x,
    "shifted": spoiled("z", lambda draws: draws + 0.25 * draws.std(0)),
    "one draw, repeated": spoiled("every", lambda draws: draws[:1].expand_as(draws).clone()),
    "costs of different draws": spoiled("c", with_last_permuted),
}
BROKEN_KERNEL: dict[str, Sampler] = {
    "k permuted against c": spoiled("k", permuted),
    "columns of k swapped": spoiled("k", lambda draws: draws.flip(-1)),
}


@torch.no_grad()
def let_y_tell(model: Any) -> None:
    """Let z all but decide the costs of an untrained model, and x say little of z."""
    for part in (model.cost_net, model.z_prior):
        for parameter in part.parameters():
            parameter.mul_(2.0)
    last = model.cost_net.net[-1]
    last.weight.chunk(2)[0].mul_(1.5)
    last.bias.chunk(2)[1].sub_(2.0)


def broken(kind: type) -> dict[str, Sampler]:
    """Those that a kind of model can have."""
    return {**BROKEN, **BROKEN_KERNEL} if kind is IGCM else BROKEN


@functools.cache
def model_of(kind: str) -> Any:
    """z all but decides the costs, and x says little of z, so that y says much of it."""
    of = IGCM if kind == "IGCM" else GCM
    model = of(3, 2, z_dim=2, hidden=8, seed=6, **OPTIONS[kind]).double()
    let_y_tell(model)
    return model


def calibration(kind: str, sampler: Any, count: int = COUNT, seed: int = 1) -> SBCResult:
    generator, model = torch.Generator().manual_seed(9), model_of(kind)
    x, r = (torch.randn(count, n, generator=generator, dtype=torch.float64) for n in (3, 2))
    revenue = None if isinstance(model, IGCM) else r
    sampler = functools.partial(sampler, model)
    return simulation_based_calibration(
        model, x, revenue, sampler=sampler, seed=seed, progress=False
    )


@pytest.mark.parametrize("kind", BINARY)
def test_z_and_c_of_different_draws_are_found_by_their_density_alone(kind: str) -> None:
    p_values = calibration(kind, BROKEN["z permuted against c"], 200).p_values()
    assert p_values["log p(c|z)"] < FOUND / p_values.count()
    assert p_values.filter(regex=r"^[zkc]\[").min() > FOUND


@pytest.mark.long(keep=("GCM-shifted", "IGCM-columns of k swapped"))
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, name) for kind in BINARY for name in broken(BINARY[kind])),
        ("GCM, continuous", "z permuted against c"),
    ],
)
def test_wrong_samplers_are_found(kind: str, name: str) -> None:
    result = calibration(kind, broken(IGCM if kind == "IGCM" else GCM)[name])
    assert result.p_value() < FOUND, result


@pytest.mark.long(keep=("0-IGCM",))
@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("seed", range(10))
def test_the_right_sampler_is_accepted(kind: str, seed: int) -> None:
    result = calibration(kind, exact, seed=seed)
    assert result.p_value() > FOUND, result
