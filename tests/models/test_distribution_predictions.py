"""What follows from the distribution function of y: the same in any batch, and few evaluations."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
import zoo
from axis_toys import model_of, rows
from torch import Tensor
from torch.distributions import Normal

from pyro_gcm.models.distribution_predictions import crps_of

CASES = [name for name, kind in zoo.KINDS.items() if kind.response in ("distribution", "ordinal")]
cases = pytest.mark.parametrize("case", [*CASES, "continuous"])


@cases
def test_cdf_at_several_values_is_that_at_each_and_of_rows_alone(case: str) -> None:
    model, (x, r, y) = model_of(case), rows(case, 40, seed=3)
    at = torch.stack([y.double(), y.double().flip(0), y.double().roll(1)], 1)
    together = model.cdf(x, r, at)
    for column, values in zip(together.T, at.T, strict=True):
        assert torch.equal(model.cdf(x, r, values), column)
    assert torch.equal(model.cdf(x[7:8], r[7:8], at[7:8]), together[7:8])
    assert torch.equal(model.crps(x[7:8], r[7:8], y[7:8]), model.crps(x, r, y)[7:8])
    low, high = model.cdf(x, r + 0.01, at), model.cdf(x, r, at)
    assert (low <= high).all()
    for wrong in (at[:5], at[:, :, None]):
        with pytest.raises(ValueError, match="y "):
            model.cdf(x, r, wrong)


def test_cdf_of_times_names_what_to_use() -> None:
    with pytest.raises(ValueError, match="use predict_survival"):
        model_of("survival, members").cdf(*rows("survival, members", 5))


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
    response = SimpleNamespace(from_standard=lambda standard: standard)
    torch.testing.assert_close(crps_of(response, cdf, y), scale * wanted, rtol=1e-6, atol=0.0)
    assert sum(count) < 300
