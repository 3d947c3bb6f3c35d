"""Maps of an axis: proper distributions for those that are allowed, refusals for the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from axis_toys import rows
from torch import Tensor, nn
from torch.distributions.transforms import ExpTransform, SigmoidTransform, SoftplusTransform

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.models import MemberGCM
from pyro_gcm.nets import PiecewiseLinear
from pyro_gcm.nets.revenue_maps import AxisMap
from pyro_gcm.responses import Survival, WholeDistribution


class Own(nn.Module):
    """A map of an axis as users write one, with parameters."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(shape))

    def forward(self, s: Tensor) -> Tensor:
        s = s.reshape(*s.shape[:-1], *(1,) * self.raw.dim())
        return s * (0.2 + nn.functional.softplus(self.raw)) + torch.tanh(s - self.raw)


MAPS = ("identity", "positive_linear", "piecewise_linear", "sigmoid", "members")


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("revenue_map", MAPS)
@pytest.mark.parametrize("kind", [Survival, WholeDistribution])
@pytest.mark.parametrize("own", [False, True], ids=["smooth", "own"])
def test_distributions_are_proper_for_every_map(own: bool, kind: type, revenue_map: str) -> None:
    options: Any = {"revenue_map": revenue_map, "hidden": 8}
    shape: tuple[int, ...] = (2,)
    of: Any = GCM
    if revenue_map == "members":
        of, options, shape = MemberGCM, {"members": 3}, (3, 3, 3)
    model = of(3, 2, response=kind(axis=Own(shape) if own else None), **options)
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


class Flat(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, s: Tensor) -> Tensor:
        return self.function(s).expand(*s.shape[:-1], 2)


@pytest.mark.parametrize(
    ("axis", "error"),
    [
        (nn.Identity(), r"axis must give values of shape \(2,\).*F\(-inf\)"),
        (Flat(torch.sigmoid), "axis must increase everywhere"),
        (Flat(lambda s: s.clamp(-50.0, 50.0)), "axis must increase everywhere"),
        (Flat(lambda s: -s), "axis must increase everywhere"),
        (Flat(lambda s: s / (1.0 + s.abs() / 4.0)), "axis must .* be unbounded on both sides"),
        (PiecewiseLinear(1, (2,), squash=True), "axis must"),
        (PiecewiseLinear(1, (2,), flat=True), "axis must increase everywhere"),
        (AxisMap((3,)), r"shape \(2,\) for a position, got \(3,\)"),
    ],
    ids=["identity", "sigmoid", "clamped", "falling", "squashed", "squash", "flat", "shape"],
)
@pytest.mark.parametrize("kind", [Survival, WholeDistribution])
def test_maps_without_a_proper_distribution_are_refused(
    kind: type, axis: nn.Module, error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        GCM(3, 2, response=kind(axis=axis))


def test_parts_that_leave_no_distribution_are_refused() -> None:
    with pytest.raises(TypeError, match="axis must be a module"):
        GCM(3, 2, response=Survival(axis="identity"))
    for response in ("survival", "distribution"):
        with pytest.raises(ValueError, match="revenue_map='probit' gives infinite values"):
            GCM(3, 2, response=response, revenue_map="probit")
    with pytest.raises(ValueError, match="p0 must be left out with response='distribution'"):
        GCM(3, 2, response="distribution", p0="constant")
    for response in ("survival", "distribution", "ordinal"):
        with pytest.raises(ValueError, match=f"response='{response}' needs GCM"):
            IGCM(3, 2, response=response)


@pytest.mark.parametrize("time_map", ["identity", 3, ExpTransform(), SigmoidTransform()], ids=str)
def test_maps_of_time_that_are_not_onto_the_line_are_refused(time_map: Any) -> None:
    with pytest.raises(ValueError, match="time_map must"):
        Survival(time_map=time_map)


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
