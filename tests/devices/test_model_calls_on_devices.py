"""Every public call of GCM and IGCM on a device that is not the CPU, whatever the form of inputs.

Inputs move to the device of the model, and tensors come back to the device of the input; an array
counts as on the CPU. Distributions stay on the device of the model.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
import torch
from placed_models import KINDS, Put, few_rows, on
from torch import Tensor
from zoo import Rows

from pyro_gcm import PosteriorDraws

pytestmark = pytest.mark.filterwarnings("ignore:.*effective sample size", "ignore:prior='standard'")

#: Kinds whose likelihoods and proposals differ in code.
LIKELIHOODS = [
    *("plain", "continuous", "quantile", "alternatives", "joint"),
    *("implicit", "implicit, continuous", "implicit, joint"),
]
DRAWS: Mapping[str, Any] = {"num_samples": 4, "num_proposals": 32, "progress": False}


#: Calls of a model with rows, and kinds of model for it; those that draw begin with "draw".
CALLS: dict[str, tuple[Callable[[Any, Rows], Any], Collection[str]]] = {
    "predict": (lambda m, d: m.predict(d.x, d.r), KINDS),
    # Of more draws than the model keeps.
    "predict 16": (lambda m, d: m.predict(d.x, d.r, num_samples=16), ["plain", "implicit"]),
    "surface": (
        lambda m, d: m.surface(d.x[:1], d.r[:1]),
        ["plain", "quantile", "alternatives", "joint", "implicit", "implicit, joint"],
    ),
    "surface_draws": (
        lambda m, d: m.surface_draws(d.x[:1], d.r[:1]),
        ["plain", "categorical prior", "joint", "implicit"],
    ),
    "cdf": (lambda m, d: m.predictive(d.x, d.r).cdf(d.y), ["continuous", "implicit, continuous"]),
    "log_prob": (lambda m, d: m.log_prob(d.x, d.r, d.y), LIKELIHOODS),
    "effective_sample_size": (
        lambda m, d: m.effective_sample_size(d.x, d.r),
        ["plain", "joint", "implicit, joint"],
    ),
    "required_revenue": (lambda m, d: m.required_revenue(d.x[:1], 0.6), ["joint"]),
    "required_revenue beside others": (
        lambda m, d: m.required_revenue(d.x[:1], 0.6, r=d.r[:1, 1:]),
        ["alternatives"],
    ),
    "draw the posterior": (lambda m, d: m.posterior(d.x, d.r, d.y, **DRAWS), KINDS),
    "draw without an outcome": (
        lambda m, d: m.posterior(d.x, d.r, **DRAWS),
        ["quantile", "joint", "implicit, continuous"],
    ),
    "draw by rejection": (
        lambda m, d: m.cost_posterior(d.x, d.r, d.y, **DRAWS, method="rejection"),
        ["plain", "alternatives", "constant p0", "implicit"],
    ),
    "draw by importance": (
        lambda m, d: m.cost_posterior(d.x, d.r, d.y, **DRAWS, method="importance"),
        LIKELIHOODS,
    ),
    "log_likelihood": (
        lambda m, d: m.log_likelihood(d.x, d.r, d.y, sites=_sites(m, d.x)),
        [kind for kind in KINDS if "members" not in kind],
    ),
    "draw by simulate": (
        lambda m, d: m.simulate(x=d.x, r=d.r),
        ["plain", "continuous", "quantile", "constant p0", "categorical prior"],
    ),
    "draw the revenues": (lambda m, d: m.simulate(x=d.x), ["implicit", "implicit, continuous"]),
    "predict_given_kernel": (
        lambda m, d: m.predict_given_kernel(d.x, _like(d.x, _grid(len(d.x), m.k_dim))),
        ["implicit", "implicit, continuous", "implicit, joint", "implicit, paper"],
    ),
}
CASES = [(kind, call) for call, (_, kinds) in CALLS.items() for kind in kinds]


@pytest.mark.long(keep=60)
@pytest.mark.parametrize(("kind", "call"), CASES)
def test_results_are_where_the_input_is_and_as_on_the_cpu(
    kind: str, call: str, put: Put, home: torch.device, device: torch.device
) -> None:
    results = _leaves(CALLS[call][0](on(kind, device), few_rows(kind).map(put)))
    assert {name: value.device for name, value in results.items()} == dict.fromkeys(results, home)
    wanted = _on_cpu(kind, call)
    assert results.keys() == wanted.keys()
    for name, value in results.items():
        same_draws = device.type != "cuda" or not call.startswith("draw")
        _assert_close(value.cpu(), wanted[name], same_draws, name)


@pytest.mark.parametrize("kind", ["plain", "alternatives", "constant p0", "joint", "implicit"])
def test_a_distribution_of_costs_stays_there(kind: str, put: Put, device: torch.device) -> None:
    x = few_rows(kind).x
    model, on_cpu = on(kind, device), on(kind)
    costs, wanted = model.cost(put(x)), on_cpu.cost(x)
    values = torch.full((3, *model.cost_shape), 0.6)
    for name, here, there in (
        ("mean", costs.mean, wanted.mean),
        ("variance", costs.variance, wanted.variance),
        ("log_prob", costs.log_prob(values.to(device)), wanted.log_prob(values)),
        ("cdf", costs.cdf(values.to(device)), wanted.cdf(values)),
    ):
        assert here.device == device, name
        _assert_close(here.cpu(), there, True, name)
    sample = costs.sample((2,))
    assert (sample.device, sample.shape) == (device, (2, *values.shape))


@pytest.mark.parametrize("kind", ["implicit", "implicit, paper"])
def test_a_distribution_of_kernels_stays_there(kind: str, put: Put, device: torch.device) -> None:
    rows = few_rows(kind)
    kernel = on(kind, device).kernel(put(rows.x), put(rows.r))
    wanted = on(kind).kernel(rows.x, rows.r)
    assert kernel.mean.device == kernel.variance.device == kernel.sample().device == device
    _assert_close(kernel.mean.cpu(), wanted.mean, True, "mean")
    _assert_close(kernel.variance.cpu(), wanted.variance, True, "variance")


@pytest.mark.parametrize("kind", ["joint", "implicit, joint"])
def test_simulation_without_inputs_is_where_the_model_is(kind: str, device: torch.device) -> None:
    drawn = on(kind, device).simulate(3)
    wanted = on(kind).simulate(3)
    assert {value.device for value in drawn.values()} == {device}
    for name, value in drawn.items():
        _assert_close(value.cpu(), wanted[name], device.type != "cuda", name)


@pytest.mark.parametrize("kind", ["plain", "implicit"])
def test_the_first_tensor_among_the_inputs_decides(kind: str, device: torch.device) -> None:
    model, rows = on(kind, device), few_rows(kind)
    assert model.predict(rows.x, rows.r.to(device)).device == torch.device("cpu")
    assert model.predict(rows.x.to(device), rows.r).device == device
    assert model.predict(rows.x.to(device), rows.r.numpy()).device == device
    on_cpu = on(kind)
    assert on_cpu.predict(rows.x.to(device), rows.r).device == device


@functools.cache
def _on_cpu(kind: str, call: str) -> dict[str, Tensor]:
    """The result of a call of the same model on the CPU."""
    return _leaves(CALLS[call][0](on(kind), few_rows(kind)))


@pytest.mark.parametrize("kind", ["plain", "alternatives", "members"])
def test_a_row_has_the_same_bits_in_every_batch_and_never_falls(
    kind: str, device: torch.device
) -> None:
    count = 3_000 if device.type == "cuda" else 100  # several blocks
    model, few = on(kind, device), few_rows(kind, 10)
    draw = torch.Generator().manual_seed(0)
    x, r = (
        (v.repeat(count // 10, 1) + torch.randn(count, v.shape[1], generator=draw)).to(device)
        for v in (few.x, few.r)
    )
    whole = model.predict(x, r)
    for size in (1, count // 6, count // 2 + 1):
        for start in (0, 1, count - size):
            part = slice(start, start + size)
            assert torch.equal(model.predict(x[part], r[part]), whole[part])
    some, revenues = x[:3], r[: count // 2]
    pairs = model.predict(some.repeat_interleave(len(revenues), 0), revenues.repeat(3, 1))
    assert torch.equal(model.surface(some, revenues), pairs.reshape(3, -1))
    for step in (1.0, 1e-3, 1e-6):
        assert (model.predict(x, r + step * torch.rand_like(r)) >= whole).all()


def _leaves(result: Any) -> dict[str, Tensor]:
    """The tensors of a result, by name."""
    if isinstance(result, Tensor):
        return {"result": result}
    if isinstance(result, PosteriorDraws):
        return {**result.sites, **result.quality()}
    named = result if isinstance(result, Mapping) else result._asdict()
    return {name: value for name, value in named.items() if value is not None}


def _assert_close(value: Tensor, wanted: Tensor, same_draws: bool, name: str) -> None:
    assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype), name
    if same_draws:
        torch.testing.assert_close(
            value, wanted, rtol=1e-3, atol=1e-5, equal_nan=True, msg=lambda text: f"{name}: {text}"
        )


def _like(x: Any, values: Tensor) -> Any:
    """In the form of x."""
    return values.to(x.device) if isinstance(x, Tensor) else values.numpy()


def _sites(model: Any, x: Any) -> dict[str, Any]:
    """Two draws of all sites that `log_likelihood` may read, for three rows, in the form of x."""
    shapes = model.latent_shapes()
    return {name: _like(x, _grid(2, 3, *shape)) for name, shape in shapes.items()}


def _grid(*shape: int) -> Tensor:
    """Values in this shape that are valid quantile levels, too."""
    return torch.linspace(0.1, 0.9, math.prod(shape), dtype=torch.float64).reshape(shape)
