"""Every public call on a device that is not the CPU, whatever the form of its inputs.

Inputs move to the device of the model, and tensors come back to the device of the input; an array
counts as on the CPU. Distributions stay on the device of the model. What the kit for parts tests of
every kind of model, `predict`, `log_prob` and `posterior` of tensors there, is not repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from placed import assert_same, few_rows, forms, leaves, on
from torch import Tensor
from zoo import Rows

import pyro_gcm
from pyro_gcm import audit_monotonicity, diagnostics, plots, to_arviz

pytestmark = pytest.mark.filterwarnings("ignore:.*effective sample size", "ignore:prior='standard'")
DRAWS: dict[str, Any] = {"num_samples": 4, "num_proposals": 32, "progress": False}


#: Calls with rows, and kinds of model that differ there; those that draw begin with "draw".
CALLS: dict[str, tuple[Callable[[Any, Rows], Any], Collection[str]]] = {
    "predict": (lambda m, d: m.predict(d.x, d.r), ["plain", "members", "implicit"]),
    # Of more draws than the model keeps.
    "predict 16": (lambda m, d: m.predict(d.x, d.r, num_samples=16), ["plain", "implicit"]),
    "surface": (
        lambda m, d: m.surface(d.x[:1], d.r[:1]),
        ["quantile", "alternatives", "joint", "implicit", "implicit, joint"],
    ),
    "surface_draws": (
        lambda m, d: m.surface_draws(d.x[:1], d.r[:1]),
        ["plain", "categorical prior", "joint", "implicit"],
    ),
    "cdf": (lambda m, d: m.predictive(d.x, d.r).cdf(d.y), ["continuous", "implicit, continuous"]),
    "log_prob": (lambda m, d: m.log_prob(d.x, d.r, d.y), ["plain"]),
    "effective_sample_size": (
        lambda m, d: m.effective_sample_size(d.x, d.r),
        ["plain", "joint", "implicit, joint"],
    ),
    "required_revenue": (lambda m, d: m.required_revenue(d.x[:1], 0.6), ["joint"]),
    "required_revenue beside others": (
        lambda m, d: m.required_revenue(d.x[:1], 0.6, r=d.r[:1, 1:]),
        ["alternatives"],
    ),
    "draw the posterior": (lambda m, d: m.posterior(d.x, d.r, d.y, **DRAWS), ["plain", "implicit"]),
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
        ["continuous", "quantile", "joint", "implicit, joint"],
    ),
    "log_likelihood": (
        lambda m, d: m.log_likelihood(d.x, d.r, d.y, sites=_sites(m, d.x)),
        ["plain", "quantile", "alternatives", "implicit, continuous"],
    ),
    "draw by simulate": (
        lambda m, d: m.simulate(x=d.x, r=d.r),
        ["plain", "continuous", "quantile", "constant p0", "categorical prior"],
    ),
    "draw the revenues": (lambda m, d: m.simulate(x=d.x), ["implicit", "implicit, continuous"]),
}
#: Calls whose results are tables.
TABLES: dict[str, tuple[Callable[[Any, Rows], Any], Collection[str]]] = {
    "draw the importance": (
        lambda m, d: diagnostics.importance_diagnostics(m, *d, num_particles=30, progress=False),
        ["continuous", "joint", "implicit, one kernel"],
    ),
    "draw the bound": (
        lambda m, d: diagnostics.bound_by_particles(m, *d, num_particles=(1, 4), progress=False),
        ["categorical prior"],
    ),
    "draw the calibration": (
        lambda m, d: (
            diagnostics.simulation_based_calibration(m, d.x, d.r, num_draws=3, progress=False).ranks
        ),
        ["alternatives"],
    ),
    "audit": (
        lambda m, d: audit_monotonicity(m, d.x, d.r, pairs=20, progress=False).frame[
            ["search", "pairs", "violations"]
        ],
        ["plain"],
    ),
}


@pytest.mark.parametrize("call", CALLS | TABLES)
def test_results_are_where_the_input_is_and_as_on_the_cpu(call: str, device: torch.device) -> None:
    run, kinds = (CALLS | TABLES)[call]
    same_draws = device.type != "cuda" or not call.startswith("draw")
    for kind in kinds:
        rows = few_rows(kind, 12 if call in TABLES else 3)
        wanted = leaves(run(on(kind), rows))
        for form, (put, home) in forms(device).items():
            results = leaves(run(on(kind, device), rows.map(put)))
            assert results.keys() == wanted.keys()
            for name, value in results.items():
                what = f"{name} of {kind} for {form}"
                assert call in TABLES or value.device == home, what
                assert_same(value, wanted[name], what, same_draws)


def test_distributions_stay_where_the_model_is(device: torch.device) -> None:
    for kind in ("plain", "alternatives", "constant p0", "joint", "implicit"):
        x, model = few_rows(kind).x, on(kind, device)
        costs, wanted = model.cost(x), on(kind).cost(x)
        values = torch.full((3, *model.cost_shape), 0.6)
        for name, here, there in (
            ("mean", costs.mean, wanted.mean),
            ("variance", costs.variance, wanted.variance),
            ("log_prob", costs.log_prob(values.to(device)), wanted.log_prob(values)),
            ("cdf", costs.cdf(values.to(device)), wanted.cdf(values)),
        ):
            assert here.device == device, (kind, name)
            assert_same(here, there, f"{name} of {kind}")
        sample = costs.sample((2,))
        assert (sample.device, sample.shape) == (device, (2, *values.shape))
    for kind in ("implicit", "implicit, paper"):
        rows = few_rows(kind)
        kernel, wanted = (on(kind, place).kernel(rows.x, rows.r) for place in (device, "cpu"))
        assert kernel.mean.device == kernel.variance.device == kernel.sample().device == device
        assert_same(kernel.mean, wanted.mean, "mean")
        assert_same(kernel.variance, wanted.variance, "variance")
    for kind in ("joint", "implicit, joint"):
        drawn, wanted = on(kind, device).simulate(3), on(kind).simulate(3)
        for name, value in drawn.items():
            assert value.device == device, (kind, name)
            assert_same(value, wanted[name], name, device.type != "cuda")


def test_the_first_tensor_among_the_inputs_decides(device: torch.device) -> None:
    for kind in ("plain", "implicit"):
        model, rows = on(kind, device), few_rows(kind)
        assert model.predict(rows.x, rows.r.to(device)).device == torch.device("cpu")
        assert model.predict(rows.x.to(device), rows.r).device == device
        assert model.predict(rows.x.to(device), rows.r.numpy()).device == device
        assert on(kind).predict(rows.x.to(device), rows.r).device == device


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


# What looks at a model from outside


def test_the_arviz_export_is_that_of_the_cpu(device: torch.device) -> None:
    theirs = to_arviz(on("joint"), *few_rows("joint"), **DRAWS)
    for put, _ in forms(device).values():
        ours = to_arviz(on("joint", device), *few_rows("joint").map(put), **DRAWS)
        for group in ("posterior", "prior", "log_likelihood", "observed_data", "constant_data"):
            for name, values in theirs[group].items():
                assert ours[group][name].shape == values.shape, (group, name)
                if device.type != "cuda" or group.endswith("data"):
                    np.testing.assert_allclose(ours[group][name], values, rtol=1e-3, atol=1e-5)


def test_the_audit_searches_by_gradients_there(device: torch.device) -> None:
    class Falling(torch.nn.Linear):
        def forward(self, x: Tensor, r: Tensor) -> Tensor:
            score = super().forward(torch.cat([x, r], 1).float())
            return -score[:, 0].square() - r.double().sum(1).to(x)

    audit = audit_monotonicity(
        Falling(5, 1).to(device), *few_rows("plain", 12)[:2], pairs=130, progress=False
    )
    assert audit.violations > 0
    assert set(audit.frame["search"]) == {"random", "grid", "gradient"}


def test_checks_of_numbers_take_them_from_anywhere(device: torch.device) -> None:
    y, p, replicated = torch.rand(12).round(), torch.rand(12), torch.rand(5, 12)
    groups = torch.arange(12) % 2
    for put, _ in forms(device).values():
        for function, inputs in (
            (diagnostics.reliability_curve, (p, y)),
            (diagnostics.predictive_check, (replicated, y, "median", groups)),
        ):
            given = [put(v) if isinstance(v, Tensor) else v for v in inputs]
            for each in (given, [given[0], *inputs[1:]], [inputs[0], *given[1:]]):  # or only some
                pd.testing.assert_frame_equal(function(*each), function(*inputs))
    log_weights = torch.linspace(0.001, 0.999, 64).log().unsqueeze(1) * torch.tensor([-0.2, -1.5])
    for function in (diagnostics.effective_sample_size, diagnostics.pareto_k):
        quality = function(log_weights.to(device))
        assert quality.device == device
        assert_same(quality, function(log_weights), function.__name__)


def test_figures_are_those_of_the_cpu(device: torch.device) -> None:
    (x, r), grid = few_rows("continuous", 12)[:2], torch.linspace(0.2, 0.8, 3)

    def lines(place: Any, put: Any) -> list[Any]:
        ax, given = Figure().subplots(), {"r": put(r[0]), "grid": put(grid), "num_samples": 2}
        plots.plot_response_curves(on("continuous", place), put(x[0]), **given, ax=ax)
        plots.plot_cost_density(on("constant p0", place), put(x[0]), put(r[0]), ax=ax)
        plots.plot_latent(put(torch.eye(2)), put(torch.arange(2)), ax=ax)
        return [line.get_xydata() for line in ax.lines]

    wanted = lines("cpu", lambda values: values)
    for put, _ in forms(device).values():
        for here, there in zip(lines(device, put), wanted, strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-3, atol=1e-4)
    ax = Figure().subplots()
    assert plots.plot_cost_pairs(on("implicit", device), x[0], num_samples=2, ax=ax).collections


def test_a_model_is_saved_from_a_device_and_loaded_onto_it(
    device: torch.device, tmp_path: Path
) -> None:
    for kind in ("members", "flow prior", "implicit"):
        model, (x, r, _) = on(kind), few_rows(kind)
        pyro_gcm.save(model, tmp_path / kind)
        pyro_gcm.save(on(kind, device), tmp_path / f"{kind}, from the device")
        here, there = (
            {path.name for path in (tmp_path / name).iterdir()}
            for name in (kind, f"{kind}, from the device")
        )
        assert here == there  # with the digest of the weights
        loaded = pyro_gcm.load(tmp_path / f"{kind}, from the device", device=device)
        assert {value.device for value in loaded.state_dict().values()} == {device}
        assert_same(loaded.predict(x, r), model.predict(x, r), kind)


# The emulated device, where there is no other one

REFUSED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "sum": lambda here, there: here + there,
    "in place": lambda here, there: here.add_(there),
    "list": lambda here, there: torch.cat([here, there]),
    "linear layer": lambda here, there: torch.nn.Linear(3, 1)(there),
    "index on the device": lambda here, there: here[there.long()],
    "values to be put": lambda here, there: there.index_put_((here.long(),), here),
    "scalar on the device": lambda here, there: here + there[0],
    "numpy": lambda here, there: there.numpy(),
    "generator": lambda _, there: torch.rand(2, device=there.device, generator=torch.Generator()),
}
ALLOWED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "scalar on the CPU": lambda here, there: there + here[0],
    "index on the CPU": lambda here, there: there[here.long()],
    "copy": lambda here, there: there.clone().copy_(here),
    "made there": lambda here, there: torch.arange(3.0, device=there.device),
    "in place": lambda here, there: there.clone().mul_(2.0),
    "view changed in place": lambda here, there: there[None].squeeze_(0),
    "out": lambda here, there: torch.add(there, there, out=torch.empty_like(there)),
}


def test_the_emulated_device_refuses_what_cuda_refuses_and_no_more(device: torch.device) -> None:
    for name, operation in REFUSED.items():
        with pytest.raises((RuntimeError, TypeError)):
            pytest.fail(f"{name}: {operation(torch.arange(3.0), torch.arange(3.0).to(device))}")
    for name, operation in ALLOWED.items():
        here, there = torch.arange(3.0), torch.arange(3.0).to(device)
        result = operation(here, there)
        assert result.device == device, name
        assert torch.equal(result.cpu(), operation(here, here)), name
    layer = torch.nn.Linear(3, 1)
    before = list(layer.parameters())
    layer.to(device)
    assert all(one is two for one, two in zip(before, layer.parameters(), strict=True))
    layer(torch.ones(2, 3, device=device)).sum().backward()
    assert {p.grad.device for p in layer.parameters() if p.grad is not None} == {device}
