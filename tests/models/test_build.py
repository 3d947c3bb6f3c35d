"""Parts are named, passed as modules, or refused with the names that there are."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import pytest
import torch
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.models.responses import Binary
from pyro_gcm.nets import (
    Conditional,
    PiecewiseLinear,
    PositiveLinear,
    PosteriorGuide,
    Probit,
    StandardNormal,
)


def test_unknown_cost_family_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"cost_family='cauchy' is unknown; .*'laplace'"):
        GCM(3, 2, cost_family="cauchy")
    with pytest.raises(TypeError, match="Gamma is not a registered cost family"):
        GCM(3, 2, cost_family=dist.Gamma)


def test_parts_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match=r"revenue_map='identity' needs one alt.* shape \(5,\)"):
        GCM(3, 2, costs=5, revenue_map="identity")
    with pytest.raises(ValueError, match=r"revenue_map='probit' needs one .* shape \(2, 2\)"):
        GCM(3, 2, alternatives=2, revenue_map="probit")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, nn.Identity),
        ({"costs": 2}, nn.Identity),
        ({"costs": 3}, PositiveLinear),
        ({"alternatives": 2}, PositiveLinear),
        ({"revenue_map": "probit"}, Probit),
        ({"revenue_map": "positive_linear"}, PositiveLinear),
        ({"revenue_map": "piecewise_linear"}, PiecewiseLinear),
        ({"r_dim": 1, "response": "quantile"}, Probit),
        ({"r_dim": 1, "response": "quantile", "costs": 3}, PositiveLinear),
    ],
    ids=str,
)
def test_revenue_map_follows_the_shape_of_the_costs(options: dict[str, Any], kind: type) -> None:
    assert isinstance(GCM(3, **{"r_dim": 2, **options}).revenue_map, kind)


def test_prior_of_a_standard_model_is_the_standard_normal() -> None:
    assert isinstance(GCM(3, 2, prior="standard").z_prior, StandardNormal)
    assert isinstance(GCM(3, 2).z_prior, Conditional)


def test_modules_are_used_as_they_are() -> None:
    class Mine(nn.Module):
        def forward(self, x: Tensor, *rest: Any) -> Any:
            return dist.Normal(x[:, :2], 1.0).to_event(1)

    prior, guide, response = Mine(), Mine(), Binary()
    revenue_map = PositiveLinear(2, (2,))
    model = GCM(
        3, 2, prior=prior, guide=guide, response=response, revenue_map=revenue_map, z_dim=2
    )  # fmt: skip
    assert model.z_prior is prior
    assert model.z_guide is guide
    assert model.response is response
    assert model.revenue_map is revenue_map
    assert model.reads_x
    p = model.predict(torch.randn(4, 3), torch.randn(4, 2))
    assert ((p > 0) & (p < 1)).all()


def test_a_named_part_and_its_object_are_one_model() -> None:
    x, r = torch.randn(4, 3), torch.randn(4, 2)
    named, passed = GCM(3, 2, response="binary"), GCM(3, 2, response=Binary())
    assert torch.equal(named.predict(x, r), passed.predict(x, r))


class Decoder(nn.Module):
    """context -> Laplace columns around a linear map."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_dim, out_dim)

    def forward(self, context: Tensor) -> Any:
        return dist.Laplace(self.linear(context), 0.7).to_event(1)


class FullDecoder(Decoder):
    """context -> columns that are not independent."""

    def forward(self, context: Tensor) -> Any:
        loc = self.linear(context)
        return dist.MultivariateNormal(loc, torch.eye(loc.shape[-1]))


def test_decoders_of_the_joint_program_may_be_modules() -> None:
    x, r = torch.randn(64, 3), torch.rand(64, 2)
    r[::4, 1], x[1::4, 0] = torch.nan, torch.nan
    y = (torch.arange(64) % 2).float()
    decoders = {"x_decoder": Decoder(4, 3), "r_decoder": Decoder(2 + 3, 2)}
    before = {name: part.linear.weight.clone() for name, part in decoders.items()}
    model = GCM(3, 2, prior="standard", **decoders)
    fit(model, x, r, y, objective="joint", epochs=2, num_particles=4, progress=False)
    for name, part in decoders.items():
        assert getattr(model, name) is part
        assert not torch.equal(before[name], part.linear.weight)
    assert model.predict(x, r).isfinite().all()


def test_missing_values_need_independent_columns() -> None:
    x, r, y = torch.randn(64, 3), torch.rand(64, 2), torch.ones(64)
    model = GCM(3, 2, prior="standard", r_decoder=FullDecoder(2 + 3, 2))
    options = {"objective": "joint", "epochs": 1, "progress": False}
    fit(model, x, r, y, **options)
    r[3, 0] = torch.nan
    with pytest.raises(ValueError, match="missing values need a decoder with independent columns"):
        fit(model, x, r, y, **options)


def test_parts_of_the_implicit_model_may_be_modules() -> None:
    x, r, y = torch.randn(64, 3), torch.rand(64, 2), (torch.arange(64) % 2).float()
    noise = Conditional(dist.Normal, 3, (2,), hidden=())
    kernel_map = PositiveLinear(2, (3,))
    model = IGCM(3, 2, costs=3, dr_net=noise, kernel_map=kernel_map)
    assert model.dr_net is noise
    assert model.kernel_map is kernel_map
    fit(model, x, r, y, epochs=1, num_particles=4, progress=False)
    with pytest.raises(ValueError, match="dr_net must give a normal"):
        IGCM(3, 2, dr_net=Decoder(3, 2))


def test_costs_may_come_from_a_module() -> None:
    costs = Conditional(dist.Logistic, 4, (2,), hidden=())
    model = GCM(3, 2, cost_family=costs)
    assert model.cost_net is costs
    p = model.predict(torch.randn(4, 3), torch.randn(4, 2))
    assert ((p > 0) & (p < 1)).all()


class Falling(nn.Module):
    """r -> -r."""

    def forward(self, r: Tensor) -> Tensor:
        return -r


SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "prior": ({"prior": Conditional(dist.Normal, 3, (2,))}, r"prior must .* \(4,\).* got \(2,\)"),
    "costs": ({"cost_family": Conditional(dist.Normal, 4, (1,))}, r"cost_family must .* \(2,\)"),
    "p0": ({"p0": nn.Linear(3, 1)}, r"p0 must give values of shape \(\) for a row, got \(1,\)"),
    "p0 of alternatives": (
        {"p0": nn.Linear(3, 3), "alternatives": 2},
        r"p0 must give values of shape \(2,\) for a row, got \(3,\)",
    ),
    "map": ({"revenue_map": nn.Linear(2, 1)}, r"revenue_map must .* \(2,\) for a row, got \(1,\)"),
    "falling map": ({"revenue_map": Falling()}, "revenue_map must be increasing, but it falls"),
    "unused decoder": ({"x_decoder": Decoder(4, 3)}, "x_decoder needs prior='standard'"),
    "guide": (
        {"prior": "standard", "guide": PosteriorGuide(Conditional(dist.Normal, 6, (4,)))},
        r"guide=PosteriorGuide must be q\(z\|x\).* needs r and y",
    ),
    "guide of three": (
        {"prior": "standard", "guide": Conditional(dist.Normal, 3, (4,))},
        r"called as guide\(x, None, None\) it raised TypeError",
    ),
}


@pytest.mark.parametrize("case", SHAPES)
def test_module_that_would_broadcast_or_fall_is_refused_by_name(case: str) -> None:
    options, message = SHAPES[case]
    with pytest.raises(ValueError, match=message):
        GCM(3, 2, **options)


def test_dropout_is_for_training_alone() -> None:
    prior = nn.Sequential(nn.Dropout(0.5), Conditional(dist.Normal, 3, (4,)))
    model = GCM(3, 2, prior=prior)
    x, r, y = torch.randn(80, 3), torch.rand(80, 2), (torch.arange(80) % 2).float()
    fit(model, x, r, y, epochs=1, progress=False)
    assert prior[0].training
    first = model.predict(x, r)
    assert torch.equal(model.predict(x, r), first)
    assert (model.predict(x, r + 0.1) >= first).all()
    assert prior[0].training
    for mode in (model.surface(x[:2], r[:3])[1, 2], model.log_prob(x[1:2], r[2:3], y[:1]).exp()):
        assert mode.isfinite().all()
    model.eval()
    model.predict(x, r)
    assert not prior[0].training
