"""The zoo: a small model of every kind, with rows for it; untrained, or trained once for all tests.

What `trained` and `learned` return is shared by the tests of a process: copy what you change.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any, NamedTuple

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM, FitResult, fit
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.models import MemberGCM
from pyro_gcm.nets import Conditional, PosteriorGuide
from pyro_gcm.responses import Classes, Continuous, Count, Ordinal, Survival, WholeDistribution

X_DIM, R_DIM = 3, 2
#: Parts of a model whose size says how much y tells of z.
PARTS = ("cost_net", "z_prior")


class Rows(NamedTuple):
    """x [n, 3], r [n, 2] or levels [n, 1], and y [n] or counts and exposures [n, 2]."""

    x: Any
    r: Any
    y: Any

    def map(self, function: Callable[[Any], Any]) -> Rows:
        """A function of every column."""
        return Rows(*(function(column) for column in self))


class Kind(NamedTuple):
    """Options of a model, where a function makes a part; and how it is trained."""

    options: dict[str, Any] = {}
    family: type = GCM
    training: dict[str, Any] = {}
    response: str = "binary"  # of the rows

    @property
    def objective(self) -> str | None:
        """What it is trained for, if not for its default."""
        return self.training.get("objective")


def posterior_of_kernel() -> PosteriorGuide:
    """q(k | x, r, y)."""
    return PosteriorGuide(Conditional(dist.Normal, X_DIM + R_DIM + 1, (R_DIM,), 4))


def _kind(response: str = "binary", family: type = GCM, **options: Any) -> Kind:
    """A kind whose options are those of the constructor, and `fit`."""
    training = options.pop("fit", {})
    return Kind({"response": response, **options}, family, training, response)


_igcm = functools.partial(_kind, family=IGCM)
_JOINT: dict[str, Any] = {"prior": "standard", "fit": {"objective": "joint"}}
_MEMBERS: dict[str, Any] = {"members": 3}
_AXES = {
    "survival": lambda: Survival(knots=3),
    "ordinal": lambda: Ordinal(levels=4),
    "distribution": lambda: WholeDistribution(knots=3),
}


def _axis(axis: str, family: type = GCM, **options: Any) -> Kind:
    return Kind({"response": _AXES[axis], **options}, family, response=axis)


#: Responses along an axis.
AXIS_KINDS = {
    "survival": _axis("survival"),
    "survival, members": _axis("survival", MemberGCM, **_MEMBERS),
    "survival, cured": _axis("survival", alternatives=2, costs=2, p0="conditional"),
    "survival, guided": _axis("survival", guide="amortised", cost_family="laplace"),
    "ordinal": _axis("ordinal", cost_family="logistic"),
    "ordinal, members": _axis("ordinal", MemberGCM, **_MEMBERS),
    "ordinal, alternatives": _axis("ordinal", alternatives=2, costs=2, p0="constant"),
    "distribution": _axis("distribution", prior="mixture"),
    "distribution, members": _axis("distribution", MemberGCM, **_MEMBERS),
    "distribution, alternatives": _axis("distribution", alternatives=2, costs=3),
}
KINDS: dict[str, Kind] = {
    "plain": _kind(),
    "count": _kind("count"),
    "count, zeros": Kind(
        {"response": lambda: Count(X_DIM, 4, dispersion="conditional"), "p0": "conditional"},
        response="count",
    ),
    "count, members": _kind("count", MemberGCM, **_MEMBERS),
    "continuous": _kind("continuous"),
    "constant noise": Kind(
        {"response": lambda: Continuous(X_DIM, 4, noise="constant")}, response="continuous"
    ),
    "quantile": _kind("quantile"),
    "alternatives": _kind(alternatives=3, costs=2),
    "constant p0": _kind(p0="constant"),
    "conditional p0": _kind(p0="conditional", alternatives=2),
    "laplace prior": _kind(prior="laplace", guide="amortised"),
    "mixture prior": _kind(prior="mixture"),
    "flow prior": _kind(prior="flow", guide="posterior_flow"),
    "categorical prior": _kind("continuous", prior="categorical"),
    "posterior guide": _kind(guide="posterior", fit={"elbo": "dreg"}),
    "full posterior guide": _kind(guide="posterior_full"),
    "posterior flow": _kind(guide="posterior_flow"),
    "literal loss": _kind(prior="standard", fit={"elbo": "mean_field"}),
    "joint": _kind(**_JOINT),
    "joint, continuous": _kind("continuous", **_JOINT),
    "splines and logistic costs": _kind(
        revenue_map="piecewise_linear", cost_family="logistic", fit={"elbo": "elbo"}
    ),
    "sigmoid and laplace costs": _kind(revenue_map="sigmoid", cost_family="laplace"),
    "members": _kind(family=MemberGCM, **_MEMBERS),
    "members, classes": Kind(
        {"response": lambda: Classes(classes=3, directions=[[0, 0], [0, -1], [1, 0]]), **_MEMBERS},
        MemberGCM,
        response="classes",
    ),
    "members, continuous": _kind("continuous", MemberGCM, **_MEMBERS),
    "implicit": _igcm(),
    "implicit, one kernel": _igcm(k_dim=1, p0="constant"),
    "implicit, continuous": _igcm("continuous", alternatives=2),
    "implicit, paper": _igcm(kernel_guide="amortised", fit={"objective": "paper"}),
    "implicit, categorical": _igcm(prior="categorical", kernel_prior="conditional"),
    "implicit, joint": _igcm(**_JOINT),
    **AXIS_KINDS,
}


def rows(
    response: str = "binary",
    count: int = 64,
    seed: int = 1,
) -> Rows:
    """Rows in float64, far from unit scale: r and y share a kernel, and y follows x as well."""
    g = torch.Generator().manual_seed(seed)
    noise = torch.randn(count, X_DIM + 4, generator=g, dtype=torch.float64)
    x, (k, first, second, rest) = 40.0 + 3.0 * noise[:, :X_DIM], noise[:, X_DIM:].T
    r = torch.stack([70.0 + 9.0 * (k + 0.4 * first), -0.5 + 0.1 * (k + 0.7 * second)], 1)
    score = 1.5 * k + 1.5 * noise[:, 0] + 0.5 * rest
    y: Any = 300.0 + 50.0 * score
    if response == "binary":
        y = (score > 0.0).double()
    elif response == "count":
        exposure = 0.2 + 3.0 * torch.rand(count, generator=g, dtype=torch.float64)
        mean = exposure * (0.5 * score).exp()
        y = torch.stack([torch.poisson(mean, generator=g), exposure], 1)
    elif response == "quantile":
        r = 0.01 + 0.98 * torch.rand(count, 1, generator=g, dtype=torch.float64)
    elif response == "ordinal":
        y = torch.bucketize(score, torch.tensor([-1.0, 0.0, 2.0]).double()).double()
    elif response == "classes":
        y = torch.bucketize(score, torch.tensor([-1.0, 1.0]).double()).double()
    elif response == "distribution":
        y = 300.0 + 20.0 * (0.5 * score).exp()
    elif response == "survival":
        y = _times(10.0 * (-0.5 * score).exp(), g)
    return Rows(x, r, y)


def _times(time: Tensor, g: torch.Generator) -> SurvivalTimes:
    """Every kind of censoring in turn."""
    kind = torch.arange(len(time)) % 4
    before, after = torch.rand(2, len(time), generator=g, dtype=torch.float64)
    lower = torch.where(kind == 0, time, torch.where(kind == 1, 0.0, time * before))
    upper = torch.where(kind == 0, time, torch.where(kind == 2, torch.inf, time + 5.0 * after))
    return SurvivalTimes(lower, upper)


def rows_of(name: str, count: int = 64, seed: int = 1, dtype: torch.dtype = torch.float64) -> Rows:
    """Rows for a kind of model."""
    kind = KINDS[name]
    found = rows(kind.response, count, seed)
    return found.map(lambda column: column.to(dtype) if isinstance(column, Tensor) else column)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Another type of new tensors."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def make(family: type = GCM, dtype: torch.dtype = torch.float64, **options: Any) -> Any:
    """A small untrained model, the same at every call, with a guide that is not at the prior."""
    r_dim = 1 if options.get("response") == "quantile" else R_DIM
    with torch.random.fork_rng(), default_dtype(dtype):
        torch.default_generator.manual_seed(0)
        parts = {key: part() if _makes(part) else part for key, part in options.items()}
        sizes = {"hidden": 4, "z_dim": 2, "num_samples": 16, "seed": 3}
        if issubclass(family, MemberGCM):
            sizes = {"hidden": 4, "seed": 3}
        return off_the_prior(family(X_DIM, r_dim, **{**sizes, **parts}))


@torch.no_grad()
def off_the_prior(model: Any) -> Any:
    """The model with random numbers in the last layer of its guide, if that is zero."""
    for parameter in () if model.z_guide is None else model.z_guide.parameters():
        if not parameter.any():
            parameter.normal_(0.0, 0.2)
    return model


def _makes(part: Any) -> bool:
    """Whether an option is a function or a class that makes a part."""
    return isinstance(part, FunctionType) or (
        isinstance(part, type) and issubclass(part, nn.Module)
    )


def build(name: str, dtype: torch.dtype = torch.float64, **options: Any) -> Any:
    """An untrained model of a kind."""
    kind = KINDS[name]
    return make(kind.family, dtype, **{**kind.options, **options})


def with_units(name: str, dtype: torch.dtype = torch.float64, **options: Any) -> Any:
    """An untrained model of a kind that has learned the units of its rows, and its objective."""
    model = build(name, dtype, **options)
    model.learn_units(*rows_of(name, 400)[:3])
    model.objective = KINDS[name].objective or model.default_objective
    return model


def quickly(model: Any, data: Rows, **training: Any) -> FitResult:
    """Train a model for two epochs, without what `fit` tells of kinds that are for the record."""
    options = {"epochs": 2, "batch_size": 32, "num_particles": 4, "seed": 5, **training}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(model, *data, progress=False, **options)


@functools.cache
def trained(name: str, dtype: torch.dtype = torch.float64, **training: Any) -> Any:
    """A model of a kind after a short `fit`."""
    model = build(name, dtype)
    quickly(model, rows_of(name, dtype=dtype), **{**KINDS[name].training, **training})
    return model


@functools.cache
def learned(
    family: type = GCM,
    response: str = "binary",
    objective: str | None = None,
    dtype: torch.dtype = torch.float64,
    **options: Any,
) -> Any:
    """A model that has learned something, from 200 rows."""
    model = make(family, dtype, response=response, **{"num_samples": 64, **options})
    training = {"epochs": 8, "batch_size": 100, "num_particles": 8, "learning_rate": 0.04}
    quickly(model, rows(response, 200, 2), objective=objective, **training)
    return model


def informative(model: Any, factor: float = 1.8, parts: Sequence[str] = PARTS) -> Any:
    """The model with costs that z moves more than at its start, and z that x moves more."""
    with torch.no_grad():
        for part in parts:
            for parameter in getattr(model, part).parameters():
                parameter.mul_(factor)
    return model


def predictions(model: Any, data: Rows) -> dict[str, Tensor]:
    """What the weights of a model alone decide."""
    few, (x, r, _) = data.map(lambda column: column[:12]), data
    found = {
        "predict": model.predict(few.x, few.r),
        "log_prob": model.log_prob(*few),
        "surface": model.surface(x[:5], r[:9]),
        "surface_draws": model.surface_draws(x[:2], r[:3]).values,
        "effective_sample_size": model.effective_sample_size(few.x, few.r),
    }
    if model.objective != "joint" or isinstance(model, GCM):
        cost = model.cost(x[:6])
        found |= {"cost mean": cost.mean, "cost cdf": cost.cdf(cost.mean.nan_to_num(posinf=1.0))}
    p_y = model.predictive(few.x, few.r)
    if isinstance(model.response, Count):
        found |= {"rate": p_y.rate(few.y[:, 0]), "pmf": p_y.pmf([0, 3])}
    elif hasattr(p_y, "cdf"):
        found["cdf"] = p_y.cdf(few.y)
    if isinstance(model.response, Count | Survival | Ordinal | WholeDistribution):
        found["quantile"] = p_y.quantile([0.1, 0.5, 0.9])
    elif isinstance(model, GCM) and model.response.r_dist() is None:
        level = 0.6 if model.response.is_probability else 320.0
        found["required_revenue"] = model.required_revenue(x[:5], level)
    return {key: value.detach() for key, value in found.items()}
