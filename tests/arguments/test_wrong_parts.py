"""Parts that do not fit, would broadcast, fall or mean nothing are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
import zoo
from pyro.nn import PyroModule, PyroSample
from torch import Tensor, nn
from torch.distributions.transforms import ExpTransform, SigmoidTransform

from pyro_gcm import GCM, IGCM
from pyro_gcm.models import HierarchicalGCM, MemberGCM
from pyro_gcm.nets import (
    Conditional,
    MemberEncoder,
    PositiveLinear,
    PosteriorGuide,
)
from pyro_gcm.responses import (
    Binary,
    Continuous,
    Count,
    Guessed,
    Ordinal,
    Several,
    Survival,
    WholeDistribution,
)


class Part(nn.Module):
    """A function as a part."""

    def __init__(self, made: Callable[..., Any]) -> None:
        super().__init__()
        self.made = made

    def forward(self, *context: Any) -> Any:
        return self.made(*context)


class Bayesian(PyroModule):
    """Weights that are sites."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = PyroModule[nn.Linear](2, 2)
        self.layer.weight = PyroSample(dist.Normal(0.0, 1.0).expand([2, 2]).to_event(2))

    def forward(self, z: Tensor) -> Any:
        return dist.Normal(self.layer(z), 1.0).to_event(1)


def drawing(x: Tensor) -> Any:
    return dist.Normal(x[..., :2] + pyro.sample("shift", dist.Normal(0.0, 1.0)), 1.0).to_event(1)


def mixed(z: Tensor) -> Any:
    parts = dist.Normal(z[..., :2].unsqueeze(-1).expand(*z.shape[:-1], 2, 3), 1.0)
    return dist.MixtureSameFamily(dist.Categorical(torch.ones(3)), parts).to_event(1)


def normal(width: int, in_dim: int = 3) -> Conditional:
    return Conditional(dist.Normal, in_dim, (width,))


def months() -> Several:
    return Several({"late": Binary(), "months": Survival(knots=2)})


LAPLACE = Part(lambda context: dist.Laplace(context[..., :2], 0.7).to_event(1))
Z3 = Part(lambda x, r, y: dist.Normal(x, 1.0).to_event(1))
POSTERIOR = PosteriorGuide(normal(4, 6))
BINARY = {"a": Binary(), "b": Binary()}
TWICE = Survival()
Options = list[tuple[dict[str, Any], str]]

OF_GCM: Options = [
    ({"cost_family": "cauchy"}, r"cost_family='cauchy' is unknown; .*'laplace'"),
    ({"cost_family": dist.Gamma}, "Gamma is not a registered cost family"),
    ({"costs": 5, "revenue_map": "identity"}, r"='identity' needs one alt.* shape \(5,\)"),
    ({"alternatives": 2, "revenue_map": "probit"}, r"='probit' needs one .* shape \(2, 2\)"),
    ({"prior": normal(2)}, r"prior must .* \(4,\).* got \(2,\)"),
    ({"cost_family": normal(1, 4)}, r"cost_family must .* \(2,\)"),
    ({"p0": nn.Linear(3, 1)}, r"p0 must give values of shape \(\) for a row, got \(1,\)"),
    ({"response": "count", "p0": "constant", "alternatives": 2}, "p0 needs alternatives=1"),
    ({"p0": nn.Linear(3, 3), "alternatives": 2}, r"p0 must give .* \(2,\) for a row, got \(3,\)"),
    ({"revenue_map": nn.Linear(2, 1)}, r"revenue_map must .* \(2,\) for a row, got \(1,\)"),
    ({"revenue_map": Part(torch.neg)}, "revenue_map must be increasing, but it falls"),
    ({"x_decoder": LAPLACE}, "x_decoder needs prior='standard'"),
    (
        {"prior": "standard", "guide": POSTERIOR},
        r"guide=PosteriorGuide with prior=.standard. must take",
    ),
    ({"prior": "standard", "guide": normal(4)}, r"take \(x, None, None\) .* raised TypeError"),
    ({"prior": Part(drawing), "z_dim": 2}, r"prior must not draw .*\['shift'\].* `shared`"),
    ({"cost_family": Bayesian(), "z_dim": 2}, "cost_family must not draw"),
    (
        {"cost_family": Part(lambda z: dist.MultivariateNormal(z[..., :2], torch.eye(2)))},
        "cost_family.*MultivariateNormal",
    ),
    ({"cost_family": Part(mixed)}, "cost_family.*MixtureSameFamily"),
    (
        {"guide": Part(lambda x, r, y: nn.functional.linear(x, torch.ones(4, 5)))},
        "guide must take.* mat1 and mat2",
    ),
    ({"guide": Part(lambda x, r, y: x)}, "guide must give a distribution, got Tensor"),
    ({"guide": Z3}, r"guide must give values of shape \(4,\) for a row, got \(3,\)"),
    ({"guide": Part(lambda x, r, y: dist.Normal(x, 1.0)), "z_dim": 3}, r"of shape \(3,\)"),
    ({"prior": Part(lambda x: x)}, "prior must give a distr"),
    ({"r_dim": 0}, "r_dim must be an integer of at least 1, got 0"),
    ({"response": "distribution", "p0": "constant"}, "p0 must be left out with response='distribu"),
    ({"response": "survival", "revenue_map": "probit"}, "'probit' gives infinite values"),
    ({"response": Several(BINARY, {"b": [1]})}, r"directions\['b'\] must have"),
    ({"response": Several(BINARY, {"b": [0, 0]})}, r"directions\['b'\] must have"),
    ({"response": months(), "p0": "constant"}, "p0 must be left out"),
    ({"response": Several({"a": TWICE, "b": TWICE})}, "of its own for every model"),
    (
        {"response": months(), "revenue_map": PositiveLinear(2, (6,))},
        "revenue_map must be a name",
    ),
]
OF_IGCM: Options = [
    ({"dr_net": LAPLACE}, "dr_net must be normal"),
    ({"kernel_guide": Z3}, r"kernel_guide must give values of shape \(2,\)"),
    (
        {"kernel_prior": Conditional(dist.Laplace, 3, (2,), 4)},
        "kernel_prior must be normal with independent coordinates, .* got Laplace",
    ),
    ({"guide": lambda x, r, y: None}, "guide must be one of .* got <function"),
    ({"kernel_map": "identity", "costs": 3}, "kernel_map='identity' needs one alternative with a"),
    ({"r_dim": 0}, "must be an integer of at least 1, got 0"),
    *(({"response": name}, f"response='{name}' needs GCM") for name in ("survival", "ordinal")),
    ({"response": "count"}, "response='count' needs GCM"),
    ({"response": "distribution"}, "response='distribution' needs GCM"),
]
OF_MEMBERS: Options = [
    ({"response": Continuous(3)}, "response must take 40"),
    ({"p0": nn.Linear(3, 3)}, "p0 must take 40"),
    ({"members": MemberEncoder(4)}, "x_dim=3"),
    ({"response": Several({"a": Continuous(3), "b": Survival()})}, "response must take"),
]
OF_GROUPS: Options = [
    ({"groups": 0}, "groups must be an integer of at least 1"),
    ({"groups": "abc"}, "groups must be names, each of them once"),
    ({"groups": []}, "groups must be names, each of them once"),
    ({"groups": ["a", "a"]}, "groups must be names, each of them once"),
    ({"groups": 2, "x_dim": 1}, "x_dim must be an integer of at least 2"),
    ({"groups": 2, "prior": "standard"}, r"prior must be a p\(z\|x\)"),
]
#: Constructors of parts.
OF_PARTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: MemberEncoder(3, scaling="both"), "scaling"),
    (lambda: Several({"one": "binary", "two": "binary"}), "must be a response .an object."),
    (lambda: Several(BINARY, {"c": [1]}), r"directions\['c'\] must"),
    (lambda: Several(BINARY, {"a": torch.tensor([1, 1])}), "directions"),
    (lambda: Several(BINARY, {"a": [0.5, 1]}), "directions"),
    (lambda: Guessed(rate=1.0), "rate must be a probability"),
    (lambda: Ordinal(levels=1), "levels must be an integer of at least 2"),
    (lambda: Continuous(1, noise="none"), "noise must be one of"),
    (lambda: Count(1, dispersion="none"), "dispersion must be one of"),
    *(
        (lambda time_map=time_map: Survival(time_map=time_map), "time_map must")
        for time_map in (ExpTransform(), SigmoidTransform())
    ),
]


def test_parts_that_cannot_be_used_are_refused_by_name() -> None:
    kinds = ((GCM, OF_GCM), (IGCM, OF_IGCM), (MemberGCM, OF_MEMBERS), (HierarchicalGCM, OF_GROUPS))
    calls = [
        (lambda kind=kind, own=own: kind(**{"x_dim": 3, "r_dim": 2, **own}), message)
        for kind, refused in kinds
        for own, message in refused
    ]
    for call, message in (*calls, *OF_PARTS):
        with pytest.raises((AttributeError, TypeError, ValueError), match=f"(?s){message}"):
            pytest.fail(f"{call()} is not refused with {message}")


def test_a_response_belongs_to_one_model() -> None:
    responses = (Survival(), WholeDistribution(), Ordinal(levels=3), months(), Guessed())
    for response in responses:
        GCM(3, 2, response=response, hidden=4)
        with pytest.raises(ValueError, match="of its own for every model"):
            GCM(3, 2, response=response, hidden=4)


def test_programs_need_what_they_read() -> None:
    x, r, y = zoo.rows(count=12).map(Tensor.float)
    implicit = IGCM(3, 2)
    for call, message in (
        (lambda: GCM(3, 2).model(), r"x must be given: the prior p\(z\|x\) reads it"),
        (lambda: GCM(3, 2).guide(None, r, y), "x must be given: the guide reads"),
        (lambda: implicit.model(), "x must be given: the prior p"),
        (lambda: implicit.guide(None, r, y), "x must be given: the guide"),
        (lambda: GCM(3, 2, prior="standard").model(size=0), "size must be an integer"),
        (lambda: GCM(3, 2).responsibilities(x, r, y), "finitely many"),
    ):
        with pytest.raises(ValueError, match=message):
            pytest.fail(f"{call()} is not refused with {message}")
