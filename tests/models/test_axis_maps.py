"""Maps of an axis: proper distributions for those that are allowed, refusals for the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from axis_toys import rows
from torch.distributions.transforms import SoftplusTransform

from pyro_gcm import GCM, fit
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.models import MemberGCM
from pyro_gcm.responses import Survival, WholeDistribution

MAPS = ("identity", "positive_linear", "piecewise_linear", "sigmoid", "members")


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("revenue_map", MAPS)
@pytest.mark.parametrize("kind", [Survival, WholeDistribution])
def test_distributions_are_proper_for_every_map(kind: type, revenue_map: str) -> None:
    options: Any = {"revenue_map": revenue_map, "hidden": 8}
    of: Any = GCM
    if revenue_map == "members":
        of, options = MemberGCM, {"members": 3}
    model = of(3, 2, response=kind(), **options)
    x, r, y = rows("survival" if kind is Survival else "distribution", 200)
    fit(model, x, r, y, epochs=3, progress=False)
    model.double()
    if kind is Survival:
        ends = model.predictive(x, r).survival([0.0, 1e-300, 1e300])
        assert ((ends - torch.tensor([1.0, 1.0, 0.0])).abs() <= 1e-12).all()
    else:
        for far, limit in ((-1e9, 0.0), (1e9, 1.0)):
            found = model.predictive(x, r).cdf(torch.full((200,), far))
            assert ((found - limit).abs() <= 1e-12).all()


def test_a_map_of_time_of_the_user_gives_the_same_density() -> None:
    x, r, y = rows("survival", 100)
    model = GCM(3, 2, response=Survival(time_map=SoftplusTransform().inv), hidden=4).double()
    model.learn_units(x, r, y)
    t, step = torch.tensor([0.5, 3.0, 20.0]).double(), 1e-5
    exact = SurvivalTimes(t, t)
    x, r = x[:1].expand(3, -1), r[:1].expand(3, -1)
    s = model.predictive(x[:1], r[:1]).survival(torch.cat([t - step, t + step]))[0]
    torch.testing.assert_close(
        model.log_prob(x, r, exact).exp(), (s[:3] - s[3:]) / (2.0 * step), rtol=1e-5, atol=1e-9
    )
