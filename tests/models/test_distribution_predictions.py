"""What follows from the distribution function of y: the same in any batch, and few evaluations."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import zoo
from axis_toys import model_of, rows
from torch import Tensor
from torch.distributions import Normal

from pyro_gcm.prediction.predictive import DistributionPredictive

CASES = [name for name, kind in zoo.KINDS.items() if kind.response in ("distribution", "ordinal")]
cases = pytest.mark.parametrize("case", [*CASES, "continuous"])


@cases
def test_cdf_at_several_values_is_that_at_each_and_of_rows_alone(case: str) -> None:
    model, (x, r, y) = model_of(case), rows(case, 40, seed=3)
    at = torch.stack([y.double(), y.double().flip(0), y.double().roll(1)], 1)
    p_y, alone = model.predictive(x, r), model.predictive(x[7:8], r[7:8])
    together = p_y.cdf(at)
    for column, values in zip(together.T, at.T, strict=True):
        assert torch.equal(p_y.cdf(values), column)
    assert torch.equal(alone.cdf(at[7:8]), together[7:8])
    assert torch.equal(alone.crps(y[7:8]), p_y.crps(y)[7:8])
    assert (model.predictive(x, r + 0.01).cdf(at) <= together).all()
    for wrong in (at[:5], at[:, :, None]):
        with pytest.raises(ValueError, match="y "):
            p_y.cdf(wrong)


@pytest.mark.parametrize("loc", [0.0, 37.3])
@pytest.mark.parametrize("scale", [1e-5, 1.0, 300.0])
def test_crps_takes_few_values_of_the_distribution_function(loc: float, scale: float) -> None:
    """Against the closed form of a normal distribution, wherever it is and however narrow."""
    p_y, count = Normal(torch.tensor(loc, dtype=torch.float64), scale), []

    def cdf(y: Tensor) -> Tensor:
        count.append(len(y))
        return p_y.cdf(y)

    y = loc + scale * torch.tensor([0.0, 0.4, -3.0, 30.0]).double()
    u, unit = (y - loc) / scale, Normal(torch.zeros(()).double(), 1.0)
    wanted = u * (2.0 * unit.cdf(u) - 1.0) + 2.0 * unit.log_prob(u).exp() - 1.0 / math.sqrt(math.pi)
    of: Any = SimpleNamespace(response=SimpleNamespace(from_standard=lambda standard: standard))
    found = DistributionPredictive._crps(of, cdf, y)
    torch.testing.assert_close(found, scale * wanted, rtol=1e-6, atol=0.0)
    assert sum(count) < 300
