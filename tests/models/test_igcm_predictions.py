"""Predictions of IGCM: the integral, the same at every call, never falling in the kernel."""

from __future__ import annotations

from typing import Any

import pyro.poutine as poutine
import pytest
import torch
from igcm_toys import KERNELS, drawn, kernels, some, trained
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


def kernel_chains(length: int, chains: int, k_dim: int) -> Tensor:
    """Kernels [length, chains, K] that rise by one ulp or by more in one coordinate a step."""
    rows = [2.0 * torch.randn(chains, k_dim).double()]
    for _ in range(length - 1):
        up = torch.nextafter(rows[-1], torch.full_like(rows[-1], torch.inf))
        up = torch.where(torch.rand(chains, 1) < 0.5, up, rows[-1] + torch.rand(chains, k_dim))
        moved = torch.nn.functional.one_hot(torch.randint(k_dim, (chains,)), k_dim).bool()
        rows.append(torch.where(moved, up, rows[-1]))
    return torch.stack(rows)


@kernels
def test_the_event_gets_likelier_as_the_kernel_rises(kernel: str) -> None:
    model = trained("conditional", "binary", **KERNELS[kernel])
    x, r, _ = some(200, "binary")
    z = model.posterior(x, r, num_samples=1, progress=False)["z"].expand(20, -1, -1)
    k = kernel_chains(20, 200, model.k_dim)
    p = model.log_likelihood(x, r, torch.ones(200), sites={"z": z, "k": k}).exp()
    assert (p.diff(dim=0) >= -1e-12).all()  # of rounding
    moving = (p[0] > 0.01) & (p[0] < 0.99)
    assert moving.sum() > 20
    assert (p[-1] > p[0])[moving].all()
