"""Every public call on a device that is not the CPU, whatever the form of its inputs.

Inputs move to the device of the model, and tensors come back to the device of the input; an array
counts as on the CPU. Distributions stay on the device of the model. What the kit for parts tests of
every kind of model, `predict`, `log_prob` and `posterior` of tensors there, is not repeated.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from placed import Put, assert_same, few_rows, forms, leaves, on
from public_calls import DATA, OF_ROWS, R, X, method, model
from torch import Tensor

import pyro_gcm
from pyro_gcm import audit_monotonicity, diagnostics

pytestmark = pytest.mark.filterwarnings("ignore:.*effective sample size", "ignore:prior='standard'")
DRAWS: dict[str, Any] = {"num_samples": 4, "num_proposals": 32, "progress": False}
#: What public calls are given so that they end soon.
QUICK: dict[str, Any] = {**DRAWS, "num_particles": 30, "epochs": 1}
#: Calls whose numbers are those of draws, which the generator of CUDA makes otherwise.
DRAWN = re.compile("posterior|diagnostics|simulate")
#: Calls that give distributions, models or containers, and more kinds of models.
OTHERS = ("cost", "kernel", "fit", "baselines.fit", "to_arviz")
CALLS = {name: make for name, make in OF_ROWS.items() if name.partition(" of ")[0] not in OTHERS}
CALLS |= {
    f"{name} of {kind}": method(functools.partial(model, kind), name, **given)
    for kind in ("joint", "implicit, joint", "categorical prior", "alternatives", "conditional p0")
    for name, given in {
        "surface": {"x": X, "revenues": R},
        "surface_draws": {"x": X, "revenues": R},
        "effective_sample_size": {"x": X, "r": R},
        "posterior": {"x": X, "r": R},
    }.items()
}
CALLS["simulate"] = method(model, "simulate", x=X, r=R)
CALLS["posterior by rejection"] = method(model, "posterior", **DATA, method="rejection")
FEW = 3


def moved(value: Any, put: Put) -> Any:
    """An argument in the form of `put`, on the rows of a test alone."""
    if isinstance(value, dict):
        return {name: put(each[:, :FEW]) for name, each in value.items()}
    return put(value[:FEW]) if isinstance(value, Tensor) else value


def test_results_are_where_the_input_is_and_as_on_the_cpu(device: torch.device) -> None:
    for name, make in CALLS.items():
        function, arguments = make()
        arguments |= {key: QUICK[key] for key in QUICK if isinstance(arguments.get(key), int)}
        on_cpu = arguments.get("model", getattr(function, "__self__", None))
        there = copy.deepcopy(on_cpu).to(device)
        call = getattr(there, function.__name__, function)
        given = {"model": there} if "model" in arguments else {}
        same_draws = device.type != "cuda" or not DRAWN.search(name)

        def results(run: Any, put: Put, given: Any, arguments: Any = arguments) -> dict[str, Any]:
            return leaves(run(**{k: moved(v, put) for k, v in arguments.items()} | given))

        wanted = results(function, lambda values: values, {})
        for form, (put, home) in forms(device).items():
            found = results(call, put, given)
            assert found.keys() == wanted.keys()
            for key, value in found.items():
                what = f"{key} of {name} for {form}"
                assert not isinstance(value, Tensor) or value.device == home, what
                assert_same(value, wanted[key], what, same_draws)


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


# What looks at a model from outside


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

REFUSED: list[Callable[[Tensor, Tensor], Any]] = [
    lambda here, there: here + there,
    lambda here, there: here.add_(there),
    lambda here, there: torch.cat([here, there]),
    lambda here, there: torch.nn.Linear(3, 1)(there),
    lambda here, there: here[there.long()],
    lambda here, there: there.index_put_((here.long(),), here),
    lambda here, there: here + there[0],
    lambda here, there: there.numpy(),
    lambda _, there: torch.rand(2, device=there.device, generator=torch.Generator()),
]
ALLOWED: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda here, there: there + here[0],
    lambda here, there: there[here.long()],
    lambda here, there: there.clone().copy_(here),
    lambda here, there: torch.arange(3.0, device=there.device),
    lambda here, there: there.clone().mul_(2.0),
    lambda here, there: there[None].squeeze_(0),
    lambda here, there: torch.add(there, there, out=torch.empty_like(there)),
]


def test_the_emulated_device_refuses_what_cuda_refuses_and_no_more(device: torch.device) -> None:
    for place, operation in enumerate(REFUSED):
        with pytest.raises((RuntimeError, TypeError)):
            pytest.fail(f"{place}: {operation(torch.arange(3.0), torch.arange(3.0).to(device))}")
    for place, operation in enumerate(ALLOWED):
        here, there = torch.arange(3.0), torch.arange(3.0).to(device)
        result = operation(here, there)
        assert result.device == device, place
        assert torch.equal(result.cpu(), operation(here, here)), place
    layer = torch.nn.Linear(3, 1)
    before = list(layer.parameters())
    layer.to(device)
    assert all(one is two for one, two in zip(before, layer.parameters(), strict=True))
    layer(torch.ones(2, 3, device=device)).sum().backward()
    assert {p.grad.device for p in layer.parameters() if p.grad is not None} == {device}
