"""IGCM on toy rows: trained once for each kind, and its predictions by brute force."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from torch import Tensor, nn

from pyro_gcm import IGCM, fit

Rows = tuple[Tensor, Tensor, Tensor]

priors = pytest.mark.parametrize("prior", ["conditional", "standard", "categorical"])
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
    "response_revenue": {},
    "paper": {"kernel_guide": "amortised"},
    "joint": {"prior": "standard"},
}


def data(count: int, response: str = "binary", seed: int = 2) -> Rows:
    """Rows of x [.., 3], r [.., 2] and y; r and y share a kernel, and y follows x as well."""
    g = torch.Generator().manual_seed(seed)
    x, noise = torch.randn(count, 3, generator=g), torch.randn(count, 4, generator=g)
    k = noise[:, 0]
    r = torch.stack([70.0 + 9.0 * (k + 0.4 * noise[:, 1]), -0.5 + 0.1 * (k + 0.7 * noise[:, 2])], 1)
    y = 1.5 * k + 1.5 * x[:, 0] + 0.5 * noise[:, 3]
    return 40.0 + 3.0 * x, r, (y > 0).float() if response == "binary" else 300.0 + 50.0 * y


def trained(objective: str = "conditional", response: str = "binary", **options: Any) -> IGCM:
    """A model after a short fit, in float64; no test changes more of it than its objective."""
    model = _trained(objective, response, **options)
    model.objective = objective
    return model


@functools.cache
def _trained(objective: str, response: str, **options: Any) -> IGCM:
    options = {"num_samples": 64, **OBJECTIVES[objective], **options}
    model = IGCM(3, 2, response=response, **options)
    training = {"epochs": 8, "batch_size": 100, "num_particles": 8, "progress": False}
    fit(model, *data(200, response), objective=objective, learning_rate=0.04, **training)
    return model.double()


def some(count: int, response: str = "binary") -> Rows:
    x, r, y = data(count, response, seed=3)
    return x.double(), r.double(), y.double()


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


@contextmanager
def torch_default(dtype: torch.dtype) -> Iterator[None]:
    """Pyro's enumeration with draws beside it makes tensors of the default type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class LaplaceKernel(nn.Module):
    """p(k | x): Laplace around a linear map of x, of learned widths."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.log_scale = nn.Linear(3, 2), nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> Any:
        return dist.Laplace(self.linear(x), self.log_scale.exp()).to_event(1)
