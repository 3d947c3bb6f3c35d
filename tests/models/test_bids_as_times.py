"""A bid as the time of a survival response without other revenues: costs seen, bounded, or both."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from pyro_gcm import GCM
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.responses import Survival

NO_REVENUE = torch.zeros(6, 0)


def mixed() -> SurvivalTimes:
    """Two prices that were seen, two auctions lost and two won at a bid."""
    lower = torch.tensor([0.8, 3.0, 1.5, 6.0, 0.0, 0.0], dtype=torch.float64)
    upper = torch.tensor([0.8, 3.0, torch.inf, torch.inf, 2.5, 0.3], dtype=torch.float64)
    return SurvivalTimes(lower, upper)


def test_the_likelihood_of_mixed_rows_is_that_of_scipy() -> None:
    model = GCM(1, 0, response=Survival(knots=0), z_dim=1).double()
    slope = model.response.axis.weights().item()
    with torch.no_grad():
        for parameter in model.cost_net.parameters():
            parameter.zero_()  # the cost is N(0, 1) for every z
    y = mixed()
    model.learn_units(torch.zeros(6, 1), NO_REVENUE, y)
    found = model.log_prob(torch.zeros(6, 1), NO_REVENUE, y)
    loc, scale = (
        float(v) for v in (model.response.standardizer.loc, model.response.standardizer.scale)
    )
    # c < slope (log t - loc) / scale with c ~ N(0, 1): log t is normal as well
    price = stats.lognorm(s=scale / slope, scale=np.exp(loc))
    want = np.concatenate(
        [price.logpdf([0.8, 3.0]), price.logsf([1.5, 6.0]), price.logcdf([2.5, 0.3])]
    )
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-9)
    bids = torch.tensor([0.5, 1.0, 4.0])
    wins = 1.0 - model.predictive(torch.zeros(1, 1), NO_REVENUE[:1]).survival(bids)[0]
    np.testing.assert_allclose(wins.numpy(), price.cdf(bids.numpy()), rtol=1e-9)
