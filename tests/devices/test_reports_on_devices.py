"""ArviZ export, audit, diagnostics, figures and files of models on a device that is not the CPU."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from placed_models import Put, few_rows, on
from zoo import Rows

import pyro_gcm
from pyro_gcm import GCM, IGCM, MemberGCM, audit_monotonicity, diagnostics, plots, to_arviz

pytestmark = pytest.mark.filterwarnings("ignore:.*effective sample size", "ignore:prior='standard'")

FEW_DRAWS: dict[str, Any] = {"num_samples": 4, "num_proposals": 32, "progress": False}


@pytest.mark.long(keep=3)
@pytest.mark.parametrize("kind", ["joint"])
def test_the_arviz_export_is_that_of_the_cpu(kind: str, put: Put, device: torch.device) -> None:
    ours = to_arviz(on(kind, device), *few_rows(kind).map(put), **FEW_DRAWS)
    theirs = _exported(kind)
    for group in ("posterior", "prior", "log_likelihood", "observed_data", "constant_data"):
        for name, values in theirs[group].items():
            assert ours[group][name].shape == values.shape, (group, name)
            if device.type != "cuda" or group.endswith("data"):
                np.testing.assert_allclose(ours[group][name], values, rtol=1e-3, atol=1e-5)


def test_the_audit_is_that_of_the_cpu(put: Put, device: torch.device) -> None:
    x, r = few_rows("plain", 12)[:2]
    options: dict[str, Any] = {"pairs": 8, "searches": ["random"], "progress": False}
    ours = audit_monotonicity(on("plain", device), put(x), put(r), **options)
    theirs = audit_monotonicity(on("plain"), x, r, **options)
    assert (ours.pairs, ours.violations) == (theirs.pairs, theirs.violations)


def test_the_gradient_search_of_the_audit_runs_on_the_device(device: torch.device) -> None:
    class Falling(torch.nn.Linear):
        def forward(self, x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
            score = super().forward(torch.cat([x, r], 1).float())
            return -score[:, 0].square() - r.double().sum(1).to(x)

    rows = few_rows("plain", 12)
    audit = audit_monotonicity(Falling(5, 1).to(device), *rows[:2], pairs=130, progress=False)
    assert audit.violations > 0
    assert set(audit.frame["search"]) == {"random", "grid", "gradient"}


@pytest.mark.long(keep=5)
@pytest.mark.parametrize(
    "kind", ["continuous", "categorical prior", "joint", "implicit, one kernel"]
)
def test_importance_is_that_of_the_cpu(kind: str, put: Put, device: torch.device) -> None:
    model, rows = on(kind, device), few_rows(kind).map(put)
    for ours, theirs in zip(_diagnosed(model, rows), _diagnosed_on_cpu(kind), strict=True):
        if device.type == "cuda":
            assert ours.shape == theirs.shape
        else:
            pd.testing.assert_frame_equal(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.long(keep=3)
@pytest.mark.parametrize("kind", ["alternatives", "implicit"])
def test_calibration_is_that_of_the_cpu(kind: str, put: Put, device: torch.device) -> None:
    rows = few_rows(kind, 12)
    r = None if kind == "implicit" else rows.r
    ours, theirs = (
        diagnostics.simulation_based_calibration(model, x, given, num_draws=3, progress=False)
        for model, x, given in (
            (on(kind, device), put(rows.x), None if r is None else put(r)),
            (on(kind), rows.x, r),
        )
    )
    assert list(ours.ranks) == list(theirs.ranks)
    if device.type != "cuda":
        pd.testing.assert_frame_equal(ours.ranks, theirs.ranks)


def test_checks_of_predictions_take_them_from_anywhere(put: Put, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.rand(12, generator=generator).round()
    p = torch.rand(12, generator=generator)
    replicated = torch.rand(5, 12, generator=generator)
    groups = torch.arange(12) % 2
    for function, inputs in (
        (diagnostics.reliability_curve, (p, y)),
        (diagnostics.predictive_check, (replicated, y, "median", groups)),
    ):
        given = [put(v) if isinstance(v, torch.Tensor) else v for v in inputs]
        for each in (given, [given[0], *inputs[1:]], [inputs[0], *given[1:]]):  # or only some
            pd.testing.assert_frame_equal(function(*each), function(*inputs))


def test_the_quality_of_weights_is_where_the_weights_are(device: torch.device) -> None:
    log_weights = torch.linspace(0.001, 0.999, 64).log().unsqueeze(1) * torch.tensor([-0.2, -1.5])
    for function in (diagnostics.effective_sample_size, diagnostics.pareto_k):
        quality = function(log_weights.to(device))
        assert quality.device == device
        torch.testing.assert_close(quality.cpu(), function(log_weights))


def _curves(model: Any, x: Any, r: Any, grid: Any, draws: Any) -> Any:
    return plots.plot_response_curves(model, x, r=r, grid=grid, num_samples=2, ax=_axes())


def _density(model: Any, x: Any, r: Any, grid: Any, draws: Any) -> Any:
    return plots.plot_cost_density(model, x, r, draws=draws, num_samples=2, ax=_axes())


@pytest.mark.long(keep=2)
@pytest.mark.parametrize(
    ("plot", "kind"),
    [(_curves, "continuous"), (_density, "constant p0")],
    ids=["curves", "density"],
)
def test_figures_are_those_of_the_cpu(plot: Any, kind: str, put: Put, device: torch.device) -> None:
    (x, r), on_cpu = few_rows(kind, 12)[:2], on(kind)
    given = x[0], r[0], torch.linspace(0.2, 0.8, 3), on_cpu.cost(x[:1]).sample((9,))
    ours, theirs = plot(on(kind, device), *map(put, given)), plot(on_cpu, *given)
    assert len(ours.lines) == len(theirs.lines) > 0
    for here, there in zip(ours.lines, theirs.lines, strict=True):
        np.testing.assert_allclose(here.get_xydata(), there.get_xydata(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["alternatives", "implicit"])
def test_the_figure_of_two_costs_takes_rows_from_the_cpu(kind: str, device: torch.device) -> None:
    x, r = few_rows(kind, 12)[:2]
    given = (x[0],) if kind == "implicit" else (x[0], r[0])
    ours = plots.plot_cost_pairs(on(kind, device), *given, num_samples=2, ax=_axes())
    assert ours.collections


def test_figures_of_numbers_take_them_from_anywhere(put: Put, device: torch.device) -> None:
    z, y, ranks = torch.rand(4, 6, 2), torch.arange(6) % 2, torch.arange(40) % 4
    ours, theirs = _axes(), _axes()
    plots.plot_latent(put(z), put(y), ax=ours)
    plots.plot_latent(z, y, ax=theirs)
    plots.plot_ranks(put(ranks), num_draws=3, ax=_axes())
    for here, there in zip(ours.collections, theirs.collections, strict=True):
        np.testing.assert_allclose(here.get_offsets(), there.get_offsets())


@functools.cache
def _exported(kind: str) -> Any:
    return to_arviz(on(kind), *few_rows(kind), **FEW_DRAWS)


def _diagnosed(model: Any, rows: Rows) -> tuple[pd.DataFrame, ...]:
    return (
        diagnostics.importance_diagnostics(model, *rows, num_particles=30, progress=False),
        diagnostics.bound_by_particles(model, *rows, num_particles=(1, 4), progress=False),
    )


@functools.cache
def _diagnosed_on_cpu(kind: str) -> tuple[pd.DataFrame, ...]:
    return _diagnosed(on(kind), few_rows(kind))


def _axes() -> Any:
    return Figure().subplots()


# A model is saved as on the CPU, and loaded onto a device


@pytest.mark.parametrize(
    ("kind", "options"),
    [(MemberGCM, {}), (GCM, {"prior": "flow"}), (IGCM, {"prior": "mixture"})],
)
def test_a_model_is_saved_from_a_device_and_loaded_onto_it(
    kind: type, options: dict[str, Any], device: torch.device, tmp_path: Path
) -> None:
    model, x, r = kind(3, 2, **options), torch.randn(5, 3), torch.randn(5, 2)
    pyro_gcm.save(model, tmp_path / "from the CPU")
    wanted = model.predict(x, r)
    pyro_gcm.save(model.to(device), tmp_path / "from the device")
    names = [{path.name for path in folder.iterdir()} for folder in tmp_path.iterdir()]
    assert names[0] == names[1]  # with the digest of the weights
    loaded = pyro_gcm.load(tmp_path / "from the device", device=device)
    assert {value.device for value in loaded.state_dict().values()} == {device}
    torch.testing.assert_close(loaded.predict(x, r), wanted, rtol=0, atol=5e-7)
