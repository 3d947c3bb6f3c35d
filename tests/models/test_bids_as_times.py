"""A bid as the time of a survival response without other revenues: costs seen, bounded, or both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.models import MemberGCM
from pyro_gcm.responses import Survival

NO_REVENUE = torch.zeros(6, 0)


class Affine(nn.Module):
    """Positions [..., 1] to 1.7 s - 0.4."""

    def forward(self, position: Tensor) -> Tensor:
        return 1.7 * position - 0.4


def mixed() -> SurvivalTimes:
    """Two prices that were seen, two auctions lost and two won at a bid."""
    lower = torch.tensor([0.8, 3.0, 1.5, 6.0, 0.0, 0.0], dtype=torch.float64)
    upper = torch.tensor([0.8, 3.0, torch.inf, torch.inf, 2.5, 0.3], dtype=torch.float64)
    return SurvivalTimes(lower, upper)


def test_the_likelihood_of_mixed_rows_is_that_of_scipy() -> None:
    model = GCM(1, 0, response=Survival(axis=Affine()), z_dim=1).double()
    with torch.no_grad():
        for parameter in model.cost_net.parameters():
            parameter.zero_()  # the cost is N(0, 1) for every z
    y = mixed()
    model.learn_units(torch.zeros(6, 1), NO_REVENUE, y)
    found = model.log_prob(torch.zeros(6, 1), NO_REVENUE, y)
    loc, scale = (
        float(v) for v in (model.response.standardizer.loc, model.response.standardizer.scale)
    )
    # c < 1.7 (log t - loc) / scale - 0.4 with c ~ N(0, 1): log t is normal as well
    price = stats.lognorm(s=scale / 1.7, scale=np.exp(loc + 0.4 * scale / 1.7))
    want = np.concatenate(
        [price.logpdf([0.8, 3.0]), price.logsf([1.5, 6.0]), price.logcdf([2.5, 0.3])]
    )
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-9)
    bids = torch.tensor([0.5, 1.0, 4.0])
    wins = 1.0 - model.predictive(torch.zeros(1, 1), NO_REVENUE[:1]).survival(bids)[0]
    np.testing.assert_allclose(wins.numpy(), price.cdf(bids.numpy()), rtol=1e-9)


@pytest.mark.parametrize("kind", [GCM, MemberGCM])
def test_training_on_all_three_kinds_of_rows_finds_the_distribution_of_the_cost(kind: Any) -> None:
    n, g = 3000, torch.Generator().manual_seed(0)
    x, noise = torch.randn(n, 1, generator=g).double(), torch.randn(n, generator=g).double()
    cost = (0.6 * x[:, 0] + 0.5 * noise).exp()
    bid = torch.randn(n, generator=g).double().exp()
    won, seen = cost < bid, torch.rand(n, generator=g) < 0.5
    exact = won & seen
    lower = torch.where(won, torch.where(exact, cost, 0.0), bid)
    upper = torch.where(won, torch.where(exact, cost, bid), torch.inf)
    y, r = SurvivalTimes(lower, upper), torch.zeros(n, 0)
    model = kind(1, 0, response="survival")
    fit(model, x, r, y, epochs=12, learning_rate=0.02, progress=False)
    at, bids = torch.tensor([[-1.0], [0.0], [1.0]]), torch.linspace(0.2, 5.0, 40).double()
    wins = 1.0 - model.predictive(at, torch.zeros(3, 0)).survival(bids)
    truth = torch.special.ndtr((bids.log() - 0.6 * at.double()) / 0.5)
    # At most 0.02 on average over ten fits of either kind, with a standard deviation of 0.006.
    assert (wins - truth).abs().mean() < 0.06
    assert (wins.diff(dim=1) >= 0.0).all()
    # The posterior of the cost of a lost auction stays above the bid.
    lost = SurvivalTimes([2.0], [torch.inf])
    t = model.posterior(at[:1], torch.zeros(1, 0), lost, num_samples=200, progress=False)["t"]
    assert (t >= 2.0).all()


def test_only_responses_with_an_axis_need_no_revenue() -> None:
    with pytest.raises(ValueError, match="r_dim must be an integer of at least 1, got 0"):
        GCM(2, 0)
    with pytest.raises(ValueError, match="must be an integer of at least 1, got 0"):
        IGCM(2, 0)
