"""Predictions of IGCM: the integral, the same at every call, never falling in the kernel."""

from __future__ import annotations

from typing import Any

import pyro.poutine as poutine
import pytest
import torch
from igcm_toys import KERNELS, drawn, some, trained

PAPER: dict[str, tuple[str, dict[str, Any]]] = {
    "K=1": ("binary", {"k_dim": 1}),
    "prior of the paper": ("binary", {"prior": "standard"}),
    "continuous, alternatives": ("continuous", {"alternatives": 2}),
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


def test_the_event_gets_likelier_as_the_kernel_rises() -> None:
    for options in KERNELS.values():
        model = trained(**options)
        x, r, _ = some(200)
        z = model.posterior(x, r, num_samples=1, progress=False)["z"]
        k = 2.0 * torch.randn(1, 200, model.k_dim).double()
        column = torch.randint(model.k_dim, (200, 1)) == torch.arange(model.k_dim)
        steps = (
            torch.where(column, torch.nextafter(k, k + 1.0) + s, k) for s in (0.0, 1e-6, 0.3, 9.0)
        )
        k = torch.cat([k, *steps])
        sites = {"z": z.expand(5, -1, -1), "k": k}
        p = model.log_likelihood(x, r, torch.ones(200), sites=sites).exp()
        assert (p.diff(dim=0) >= -1e-12).all()  # of rounding
        moving = (p[0] > 0.01) & (p[0] < 0.99)
        assert moving.sum() > 20
        assert (p[-1] > p[0])[moving].all()
