"""IGCM on toy rows: trained once for each kind, and its predictions by brute force."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.poutine as poutine
import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import IGCM

Rows = tuple[Tensor, Tensor, Tensor]

responses = pytest.mark.parametrize("response", ["binary", "continuous"])
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
KERNELS: dict[str, dict[str, Any]] = {
    "K=1": {"k_dim": 1},
    "K=2": {},
    "alternatives": {"alternatives": 2, "costs": 3},
}
kernels = pytest.mark.parametrize("kernel", KERNELS)
#: What it takes to train a model for an objective.
OBJECTIVES: dict[str, dict[str, Any]] = {
    "conditional": {},
    "paper": {"kernel_guide": "amortised"},
    "joint": {"prior": "standard"},
}


def data(count: int, response: str = "binary", seed: int = 2) -> Rows:
    """Rows in float32."""
    x, r, y = zoo.rows(response, count, seed)
    return x.float(), r.float(), y.float()


def trained(objective: str = "conditional", response: str = "binary", **options: Any) -> IGCM:
    """A model that has learned something; no test changes more of it than its objective."""
    options = {"hidden": 8, **OBJECTIVES[objective], **options}
    model: IGCM = zoo.learned(IGCM, response, objective, **options)
    model.objective = objective
    return model


def some(count: int, response: str = "binary") -> Rows:
    """Other rows."""
    return zoo.rows(response, count, 3)[:3]


def sites(program: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    trace = poutine.trace(program).get_trace(*args, **kwargs)
    trace.compute_log_prob(lambda name, site: name in ("z", "k", "x", "r"))
    nodes = {name: node for name, node in trace.nodes.items() if node["type"] == "sample"}
    return {name: node for name, node in nodes.items() if name not in ("data", "draws")}


def drawn(program: Any, draws: int, *args: Any) -> dict[str, Any]:
    """Sites of a program that runs `draws` times for every row."""
    with torch.no_grad(), pyro.plate("draws", draws, dim=-2):
        return sites(program, *args)


def brute_force(model: IGCM, x: Tensor, r: Tensor, draws: int) -> tuple[Any, Tensor]:
    """Draws of the explicit program, costs and all, and their weights given x and r [draws, B]."""
    shown = drawn(model.model, draws, x, r)
    log_w = shown["r"]["log_prob"]
    if model.objective == "joint":
        log_w = log_w + shown["x"]["log_prob"]
    return shown["y"], torch.softmax(log_w, 0)


def weighted(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of values under normalised weights, and its standard error."""
    mean = (weights * values).sum(0)
    return mean, (weights * (values - mean)).square().sum(0).sqrt()
