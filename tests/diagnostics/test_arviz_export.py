"""Draws as ArviZ's own structure, in both lines of ArviZ."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit, to_arviz
from pyro_gcm.inference.program_arviz import imported_arviz

az = imported_arviz()
QUIET: dict[str, Any] = {"num_samples": 40, "progress": False}
GROUPS = {
    *("posterior", "posterior_predictive", "prior", "prior_predictive", "log_likelihood"),
    *("sample_stats", "observed_data", "constant_data"),
}
# Other draws of some rows can have a Pareto k above 0.7 by chance.
pytestmark = pytest.mark.filterwarnings("ignore:.* rows have an effective sample size")


def data(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, generator=g)
    cost = 100.0 + 15.0 * x[:, :1] + 8.0 * torch.randn(count, 2, generator=g)
    r = 110.0 + 25.0 * torch.randn(count, 2, generator=g)
    return x, r, (cost < r).all(-1).float()


@functools.cache
def trained(informed: bool = True) -> GCM:
    """A model of 600 rows, or of the same rows with outcomes that belong to others."""
    x, r, y = data(600)
    model = GCM(2, 2, z_dim=2, hidden=8, num_samples=512)
    y = y if informed else y[torch.randperm(600, generator=torch.Generator().manual_seed(1))]
    fit(model, x, r, y, epochs=15, batch_size=128, num_particles=16, progress=False)
    return model


@functools.cache
def held_out() -> Any:
    return to_arviz(trained(), *data(150, 1), num_samples=1000, progress=False)


def dims(variable: Any) -> dict[str, int]:
    return dict(zip(variable.dims, variable.shape, strict=True))


def groups(result: Any) -> set[str]:
    names = result.groups() if callable(result.groups) else result.groups
    return {name.strip("/") for name in names} - {""}


# What is in it


def test_groups_of_the_installed_line_hold_the_draws_of_the_model_of_this_seed() -> None:
    x, r, y = data(6)
    model, result = trained(), to_arviz(trained(), x, r, y, seed=5, **QUIET)
    line = "InferenceData" if az.__version__.startswith("0.") else "DataTree"
    assert type(result).__name__ == line
    assert groups(result) == GROUPS
    assert result["posterior"].attrs["inference_library"] == "pyro_gcm"
    prior = model.posterior(x, r, seed=5, **QUIET)
    draws = model.posterior(x, r, y, seed=6, **QUIET)
    for group, sites in (("prior", prior), ("posterior", draws)):
        assert set(result[group].data_vars) == {"z", "c"}
        for name in ("z", "c"):
            assert np.array_equal(result[group][name].values[0], sites[name].numpy())
        assert np.array_equal(result[f"{group}_predictive"]["y"].values[0], sites["y"].numpy())
    for name in ("ess", "pareto_k", "log_evidence"):
        np.testing.assert_array_equal(result["sample_stats"][name], getattr(draws, name))
    for group, name, values in (("observed", "y", y), ("constant", "x", x), ("constant", "r", r)):
        np.testing.assert_array_equal(result[f"{group}_data"][name], values)


def test_dimensions_have_names_and_coordinates(tmp_path: Path) -> None:
    x, r, y = data(60)
    people = pd.Index(["a", "b", "c", "d"], name="person")
    frames = {
        "x": pd.DataFrame(x[:4].numpy(), columns=["age", "income"], index=people),
        "r": pd.DataFrame(r[:4].numpy(), columns=["bid", "budget"], index=people),
        "y": pd.Series(y[:4].numpy(), index=people),
    }
    plain, given = (
        {"x_names": None, "r_names": None},
        {"x_names": ["u", "v"], "r_names": ("s", "t")},
    )
    for columns, names, rows, covariates, costs in (
        (
            {"x": x[:4], "r": r[:4], "y": y[:4]},
            plain,
            [0, 1, 2, 3],
            ["x[0]", "x[1]"],
            ["r[0]", "r[1]"],
        ),
        (frames, plain, ["a", "b", "c", "d"], ["age", "income"], ["bid", "budget"]),
        (frames, given, ["a", "b", "c", "d"], ["u", "v"], ["s", "t"]),
    ):
        result = to_arviz(trained(), **columns, **names, **QUIET)
        posterior, constant = result["posterior"], result["constant_data"]
        assert posterior["datum"].values.tolist() == rows
        assert posterior["cost"].values.tolist() == costs
        assert constant["covariate"].values.tolist() == covariates
        one = {"chain": 1, "draw": 40, "datum": 4}
        assert dims(posterior["z"]) == {**one, "latent": 2}
        assert dims(posterior["c"]) == {**one, "cost": 2}
        assert dims(result["log_likelihood"]["y"]) == one
        assert dims(constant["r"]) == {"datum": 4, "revenue": 2}
        assert posterior["c"].attrs["units"] == constant["r"].attrs["units"] == "data"
    result.to_netcdf(str(tmp_path / "draws.nc"))  # a file gives everything back
    again = az.from_netcdf(str(tmp_path / "draws.nc"))
    assert groups(again) == GROUPS
    assert all(result[group].equals(again[group]) for group in GROUPS)
    joint = GCM(2, 2, prior="standard", z_dim=2, hidden=8)
    fit(joint, x, r, y, objective="joint", epochs=1, progress=False)
    for model, site, sizes in (
        (GCM(2, 2, alternatives=3, costs=4, p0="constant"), "c", {"alternative": 3, "cost": 4}),
        (IGCM(2, 2, k_dim=3), "k", {"kernel": 3}),
        (joint, "w", {"hidden": 2}),
    ):
        if model is not joint:
            model.learn_units(x, r, y)
        posterior = to_arviz(model, *data(6), **QUIET)["posterior"]
        assert set(posterior.data_vars) == {"z", site, "c"}
        assert sizes.items() <= dims(posterior[site]).items()


def test_continuous_outcomes_have_a_density() -> None:
    x, r, _ = data(8)
    y = 300.0 + 20.0 * x[:, 0]
    model = GCM(2, 2, response="continuous", z_dim=2, hidden=8)
    model.learn_units(x, r, y)
    result = to_arviz(model, x, r, y, num_samples=1000, progress=False)
    log_p = result["log_likelihood"]["y"].values[0]
    found = -np.log(np.exp(-log_p).mean(0))
    assert np.abs(found - model.log_prob(x, r, y, num_samples=2048).numpy()).max() < 0.1


def test_wrong_arguments_are_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    model = GCM(2, 2)
    monkeypatch.setattr(model.z_prior, "forward", None)  # nothing is drawn before the check
    x, r, y = data(4)
    with pytest.raises(ValueError, match="x_names must have 2 names, got 1"):
        to_arviz(model, x, r, y, x_names=["a"])
    with pytest.raises(ValueError, match="r_names must have 2 names, got 3"):
        to_arviz(model, x, r, y, r_names=["a", "b", "c"])
    with pytest.raises(ValueError, match="y must have shape"):
        to_arviz(model, x, r, None)


# What ArviZ makes of it


def pointwise(result: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], float]:
    """Leave-one-out log densities and Pareto k of every datum, and their sum."""
    loo = az.loo(result, pointwise=True)
    if az.__version__.startswith("0."):
        return loo.loo_i.values, loo.pareto_k.values, loo.elpd_loo
    return loo.elpd_i.values, loo.pareto_k.values, loo.elpd


def test_leaving_a_held_out_row_out_gives_its_log_probability() -> None:
    wanted = trained().log_prob(*data(150, 1), num_samples=4096).double().numpy()
    found, k, total = pointwise(held_out())
    gap = found - wanted
    assert np.abs(gap).max() < 0.06
    assert abs(gap.mean()) < 0.003
    assert (k < 0.7).all()
    assert abs(total - wanted.sum()) < 0.4
    assert wanted.min() < -2.0  # some outcomes were a surprise
    model = to_arviz(trained(informed=False), *data(150, 1), num_samples=1000, progress=False)
    assert total > pointwise(model)[2] + 20.0
    # The draws differ from the evidence by less than its error.
    harmonic = -np.log(np.exp(-held_out()["log_likelihood"]["y"].values[0]).mean(0))
    stats = held_out()["sample_stats"]
    gap, error = harmonic - stats["log_evidence"].values, stats["log_evidence_error"].values
    assert error.max() > 1e-3
    assert (np.abs(gap) < 0.2 * error + 1e-4).all()
