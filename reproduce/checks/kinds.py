"""Small models of every kind and small data, for runs that look for faults and not for scores."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit, load, save
from pyro_gcm.members import MemberSettings, build_members
from pyro_gcm.training import FitSettings

X_DIM = 3
#: Columns of r for each response; those of "quantile" are levels.
REVENUES = {"binary": 2, "continuous": 2, "quantile": 1, "ordinal": 2, "distribution": 2}
_SETTINGS = MemberSettings(members=4, width=16, dropout=0.2)


class Rows(NamedTuple):
    """x [n, 3], r [n, 2] and y [n]."""

    x: Tensor
    r: Tensor
    y: Tensor


class Kind(NamedTuple):
    """How to make a model, its response, and how to train it in a fraction of a second."""

    make: Callable[[], Any]
    response: str = "binary"
    fit: dict[str, Any] = {}


def _members(response: str = "binary") -> Kind:
    r_dim = REVENUES[response]
    return Kind(lambda: build_members(_SETTINGS, X_DIM, r_dim, response=response), response)


def _gcm(response: str = "binary", fit: dict[str, Any] | None = None, **options: Any) -> Kind:
    options = {"response": response, "hidden": 8, "num_samples": 32, **options}
    return Kind(lambda: GCM(X_DIM, REVENUES[response], **options), response, fit or {})


def _igcm(response: str = "binary", fit: dict[str, Any] | None = None, **options: Any) -> Kind:
    options = {"response": response, "hidden": 8, "num_samples": 32, **options}
    return Kind(lambda: IGCM(X_DIM, REVENUES[response], **options), response, fit or {})


KINDS = {
    "members": _members(),
    "members, continuous": _members("continuous"),
    "members, quantile": _members("quantile"),
    "GCM": _gcm(),
    "GCM, continuous": _gcm("continuous"),
    "GCM, quantile": _gcm("quantile"),
    "GCM, alternatives": _gcm(alternatives=3, costs=2),
    "GCM, p0": _gcm(p0="conditional"),
    "GCM, Laplace prior": _gcm(prior="laplace", guide="amortised"),
    "GCM, mixture prior": _gcm(prior="mixture"),
    "GCM, flow prior": _gcm(prior="flow"),
    "GCM, categorical prior": _gcm(prior="categorical"),
    "GCM, posterior guide": _gcm(guide="posterior", fit={"elbo": "dreg"}),
    "GCM, Sobol draws": _gcm(fit={"settings": FitSettings(particles="qmc")}),
    "GCM, joint": _gcm(prior="standard", fit={"objective": "joint"}),
    "GCM, splines and logistic costs": _gcm(
        revenue_map="piecewise_linear", cost_family="logistic", fit={"elbo": "elbo"}
    ),
    "GCM, sigmoid and Laplace costs": _gcm(revenue_map="sigmoid", cost_family="laplace"),
    "IGCM": _igcm(),
    "IGCM, continuous": _igcm("continuous"),
    "IGCM, paper": _igcm(prior="standard", kernel_guide="amortised", fit={"objective": "paper"}),
}
#: Kinds whose cumulative probabilities and quantiles are ordered as well.
CURVES = {
    "members, ordinal": _members("ordinal"),
    "GCM, ordinal": _gcm("ordinal", alternatives=2, costs=2),
    "members, distribution": _members("distribution"),
    "GCM, distribution": _gcm("distribution", alternatives=2, costs=2),
}


@lru_cache
def rows(response: str, dtype: torch.dtype = torch.float32, count: int = 300) -> Rows:
    """The same rows at every call, on which y increases in r on the whole."""
    g = torch.Generator().manual_seed(count)
    x, r = torch.randn(count, X_DIM, generator=g), torch.randn(count, 2, generator=g)
    score = r.sum(1) + x[:, 0] + 0.5 * torch.randn(count, generator=g)
    if response == "quantile":
        r = torch.rand(count, 1, generator=g)
    target = score
    if response == "binary":
        target = (score > 0.0).float()
    elif response == "ordinal":
        target = (score > -1.0).float() + (score > 1.0).float()
    return Rows(x.to(dtype), r.to(dtype), target.to(dtype))


def trained(name: str, dtype: torch.dtype = torch.float32, **options: Any) -> Any:
    """A model of a kind after a short `fit`."""
    kind = {**KINDS, **CURVES}[name]
    model = kind.make().to(dtype)
    defaults = {"epochs": 2, "batch_size": 100, "progress": False, "num_particles": 4}
    fit(model, *rows(kind.response, dtype), **{**defaults, **kind.fit, **options})
    return model


def loaded(model: Any, **options: Any) -> Any:
    """A model as it is after it was saved and loaded, with these options."""
    with tempfile.TemporaryDirectory() as folder:
        return load(save(model, Path(folder) / "model"), **options)
