"""Pyro's own inference on the programs: autoguides and NUTS on small data."""

from __future__ import annotations

import pyro
import pyro.poutine as poutine
import pytest
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide
from torch import Tensor

from pyro_gcm import GCM, IGCM
from pyro_gcm.inference import conditional

ROWS = 4


@pytest.fixture
def fixed() -> tuple[GCM, Tensor, Tensor, Tensor]:
    """A model whose weights stay, and rows whose outcomes say something about z."""
    model = GCM(3, 2, z_dim=2, seed=3).requires_grad_(False).eval()
    x, r = torch.randn(ROWS, 3), torch.randn(ROWS, 2)
    return model, x, r, (torch.arange(ROWS) % 2).float()


def posterior_mean(model: GCM, x: Tensor, r: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """E[z | x, r, y] and log p(y | x, r), by importance sampling from the prior."""
    plate = pyro.plate("draws", 20_000, dim=-2)
    z = poutine.trace(plate(model.guide)).get_trace(x, r, y).nodes["z"]["value"]
    program = poutine.condition(plate(conditional(model)), {"z": z})
    trace = poutine.trace(program).get_trace(x, r, y)
    trace.compute_log_prob()
    log_p = trace.nodes["y"]["log_prob"]
    mean = (log_p.softmax(0).unsqueeze(-1) * z).sum(0)
    return mean, log_p.exp().mean(0).log()


@pytest.mark.long(keep=0)
@pytest.mark.parametrize("kind", ["AutoNormal", "AutoDiagonalNormal"])
def test_autoguide_finds_the_posterior_of_z(
    kind: str, fixed: tuple[GCM, Tensor, Tensor, Tensor]
) -> None:
    model, x, r, y = fixed
    program = conditional(model.model)
    guide = getattr(autoguide, kind)(program)
    # One plate of draws around the plate of rows, where the guide has such a plate itself.
    vectorized = kind == "AutoNormal"
    bound = Trace_ELBO(num_particles=4, vectorize_particles=vectorized, max_plate_nesting=1)
    svi = SVI(program, guide, pyro.optim.Adam({"lr": 0.03}), bound)
    losses = [svi.step(x, r, y) for _ in range(200)]
    mean, evidence = posterior_mean(model, x, r, y)
    found = guide.median(x, r, y)["z"]
    assert (found - mean).abs().max() < 0.35  # the posterior's width is about 1
    assert torch.corrcoef(torch.stack([found.flatten(), mean.flatten()]))[0, 1] > 0.9
    assert -sum(losses[-50:]) / 50 == pytest.approx(evidence.sum().item(), abs=0.5)


@pytest.mark.long(keep=0)
def test_nuts_draws_from_the_posterior_of_z(fixed: tuple[GCM, Tensor, Tensor, Tensor]) -> None:
    model, x, r, y = fixed
    sampler = MCMC(
        NUTS(conditional(model.model), max_tree_depth=4),
        num_samples=150,
        warmup_steps=50,
        disable_progbar=True,
    )
    sampler.run(x, r, y)
    z = sampler.get_samples()["z"]
    assert z.shape == (150, ROWS, 2)
    mean, _ = posterior_mean(model, x, r, y)
    assert (z.mean(0) - mean).abs().max() < 0.4


def test_nuts_draws_the_kernel_of_the_implicit_model() -> None:
    model = IGCM(3, 2, z_dim=2).requires_grad_(False).eval()
    x, r, y = torch.randn(4, 3), torch.randn(4, 2), torch.ones(4)
    sampler = MCMC(
        NUTS(conditional(model.model), max_tree_depth=3),
        num_samples=20,
        warmup_steps=10,
        disable_progbar=True,
    )
    sampler.run(x, r, y)
    shapes = {name: tuple(value.shape) for name, value in sampler.get_samples().items()}
    assert shapes == {"z": (20, 4, 2), "k": (20, 4, 2)}
