"""Every draw of the costs agrees with y, in float32 and in the units of the data."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM

QUIET: dict[str, Any] = {"progress": False, "seed": 7}


def prices(count: int, loc: float = 60.0, scale: float = 8.0, r_dim: int = 2) -> Tensor:
    return loc + scale * torch.randn(count, r_dim)


def model_of(r: Tensor, **options: Any) -> Any:
    """Float32, with costs that z moves more than at the start."""
    model = GCM(3, r.shape[1], **{"z_dim": 2, "hidden": 8, "seed": 6, **options})
    with torch.no_grad():
        for parameter in model.cost_net.parameters():
            parameter.mul_(2.0)
    model.learn_units(torch.eye(3), r, torch.tensor([0.0, 1.0]))
    return model


UNITS = {
    "far from 0": (1e4, 1.0, torch.float32),  # few floats between two prices
    "too far for float32": (1e4, 1.0, torch.float64),
    "between floats": (500.0, 1.0, torch.float64),
    "few floats wide": (1e4, 1e-2, torch.float32),
    "wide": (60.0, 8.0, torch.float32),
}


@pytest.mark.parametrize("units", UNITS)
def test_draws_in_the_units_of_the_data_agree_as_well(units: str) -> None:
    loc, scale, r_dtype = UNITS[units]
    r = prices(150, loc, scale).to(r_dtype)
    if r_dtype == torch.float64:
        r = r + 1e-9 * torch.randn(r.shape, dtype=r_dtype)  # between two floats of the draws
    model = model_of(r)
    x, y = torch.randn(150, 3), torch.arange(150) % 2.0
    options = {**QUIET, "num_samples": 200}
    draws = model.cost_posterior(x, r, y, **options)
    wide = units == "too far for float32"
    assert draws["c"].dtype == (torch.float64 if wide else torch.float32)
    happened = (draws["c"] < r).all(-1)
    assert int((happened == (y == 1.0)).sum()) == 150 * 200
    # So do they in the program, and those do that are next to a revenue.
    known = model.cost_units(r)
    standard = known.to_standard(draws["c"])
    assert ((standard < known.threshold).all(-1) == (y == 1.0)).all()
    assert ((known.to_data(standard) - draws["c"]).abs() <= 3.0 * 1e4 * 2.0**-23).all()
    near = known.threshold + 2e-7 * torch.randn(200, *r.shape)
    assert torch.equal(known.to_data(near) < r, near < known.threshold)
    assert torch.equal(
        known.to_standard(known.to_data(near)) < known.threshold, near < known.threshold
    )
    if units == "far from 0":  # without care some would not agree
        assert ((model.r_standardizer.inverse(near) < r) != (near < known.threshold)).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_draws_agree_with_outcomes_that_hardly_ever_happen(dtype: torch.dtype) -> None:
    model = model_of(prices(500), cost_family="normal").to(dtype)
    distance = torch.tensor([-25.0, -12.0, -8.0, 8.0, 12.0]).to(dtype)
    r = model.r_standardizer.inverse(distance[:, None].expand(5, 2))
    y = (distance < 0).to(dtype)  # the side that is all but impossible
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draws = model.cost_posterior(
            torch.zeros(5, 3, dtype=dtype), r, y, num_samples=2000, progress=False
        )
    assert any("effective sample size" in str(one.message) for one in caught)
    assert (draws.log_evidence < -8.0).all()
    assert ((draws["c"] < r).all(-1) == (y == 1.0)).all()
    assert draws["c"].isfinite().all()
