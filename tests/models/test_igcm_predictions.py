"""Predictions of IGCM: the integral, the same at every call, never falling in the kernel."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pyro.poutine as poutine
import pytest
import torch
from igcm_toys import KERNELS, drawn, dtypes, kernels, responses, some, trained
from torch import Tensor

PAPER: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: ("binary", options) for name, options in KERNELS.items()},
    "prior of the paper": ("binary", {"prior": "standard"}),
    "continuous, K=1": ("continuous", {"k_dim": 1}),
    "continuous": ("continuous", {}),
}


@pytest.mark.parametrize("case", PAPER)
def test_paper_objective_predicts_with_draws_of_both_guides(case: str) -> None:
    response, options = PAPER[case]
    model = trained("paper", response, **options)
    x, r, _ = some(6, response)
    draws = 10_000
    guided = drawn(model.guide, draws, x, r)
    latent = {name: node["value"] for name, node in guided.items()}
    y = drawn(poutine.condition(model.model, latent), draws, x, r)["y"]["value"]
    prediction = model.predict(x, r, num_samples=1024)
    assert ((prediction - y.mean(0)).abs() < 4.5 * y.std(0) / draws**0.5).all()
    model.objective = "conditional"  # the exact p(k | x, r) in place of the guide
    assert not torch.allclose(model.predict(x, r, num_samples=1024), prediction, rtol=1e-3)


def kernel_chains(chains: int, length: int, k_dim: int, dtype: torch.dtype) -> Tensor:
    """Kernels [chains, length, K] that rise by one ulp or by more in one coordinate a step."""
    rows = [2.0 * torch.randn(chains, k_dim, dtype=dtype)]
    for _ in range(length - 1):
        up = torch.nextafter(rows[-1], torch.full_like(rows[-1], torch.inf))
        by_ulp = torch.rand(chains, 1) < 0.5
        up = torch.where(by_ulp, up, rows[-1] + torch.rand(chains, k_dim, dtype=dtype))
        moved = torch.nn.functional.one_hot(torch.randint(k_dim, (chains,)), k_dim).bool()
        rows.append(torch.where(moved, up, rows[-1]))
    return torch.stack(rows, 1)


@pytest.mark.long(keep=4)
@dtypes
@responses
@kernels
def test_prediction_given_the_kernel_never_falls_when_it_rises(
    kernel: str, response: str, dtype: torch.dtype
) -> None:
    model = copy.deepcopy(trained("conditional", response, **KERNELS[kernel])).to(dtype)
    predict = functools.partial(model.predict_given_kernel, num_samples=8)
    k = kernel_chains(500, 20, model.k_dim, dtype)
    x = some(500, response)[0].to(dtype).unsqueeze(1).expand(-1, 20, -1)
    p = torch.empty(500, 20, dtype=dtype)
    for first in (0, 1):  # neighbours in separate calls, of other sizes and orders
        order = torch.randperm(5000)
        rows = (t[:, first::2].flatten(0, 1)[order] for t in (x, k))
        parts = zip(*(t.split(997) for t in rows), strict=True)
        one = torch.empty(5000, dtype=dtype)
        one[order] = torch.cat([predict(*part) for part in parts])
        p[:, first::2] = one.reshape(500, 10)
    assert (p.diff(dim=1) >= 0).all()
    moving = (p[:, 0] > 0.01) & (p[:, 0] < 0.99) if response == "binary" else p[:, 0].isfinite()
    assert moving.sum() > 50
    assert (p[:, -1] > p[:, 0])[moving].all()


@responses
@kernels
def test_prediction_given_the_kernel_is_the_mean_of_the_program(kernel: str, response: str) -> None:
    model = trained("conditional", response, **KERNELS[kernel])
    x, r, _ = some(6, response)
    k, draws = torch.randn(6, model.k_dim).double(), 10_000
    view = poutine.condition(model.model, {"k": k.expand(draws, 6, -1)})
    y = drawn(view, draws, x, r)["y"]["value"]
    prediction = model.predict_given_kernel(x, k, num_samples=1024)
    unit = 1.0 if response == "binary" else y.std()
    error = y.std(0) / draws**0.5
    assert ((prediction - y.mean(0)).abs() < 4.5 * error + 1e-3 * unit).all()
