"""Pyro's own trainer, autoguides and NUTS on the programs, and their draws in ArviZ."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
import zoo
from pyro.infer import (
    MCMC,
    NUTS,
    Predictive,
)
from pyro.infer.autoguide import AutoNormal
from torch import Tensor

from pyro_gcm import GCM, IGCM
from pyro_gcm.inference import conditional, program_to_arviz, uncollapse
from pyro_gcm.inference.program_arviz import imported_arviz

# RenyiELBO has no differentiable loss.


# Autoguides and NUTS on small data


def nuts(model: GCM, rows: tuple[Tensor, ...], depth: int, count: int) -> dict[str, Tensor]:
    kernel = NUTS(conditional(model.model), max_tree_depth=depth)
    sampler = MCMC(kernel, num_samples=count, warmup_steps=count // 3, disable_progbar=True)
    sampler.run(*rows)
    return sampler.get_samples()


def test_nuts_draws_the_kernel_of_the_implicit_model() -> None:
    model = IGCM(3, 2, z_dim=2).requires_grad_(False).eval()
    draws = nuts(model, (torch.randn(4, 3), torch.randn(4, 2), torch.ones(4)), 3, 12)
    shapes = {name: tuple(value.shape) for name, value in draws.items()}
    assert shapes == {"z": (12, 4, 2), "k": (12, 4, 2)}


EFFECT = torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
SCHOOLS = list("ABCDEFGH")


def schools(y: Tensor) -> None:
    """Eight schools (Rubin 1981), with a matrix that no plate holds."""
    mean = pyro.sample("mean", dist.Normal(0.0, 5.0))
    spread = pyro.sample("spread", dist.HalfCauchy(5.0))
    pyro.sample("weights", dist.Normal(torch.zeros(2, 3), 1.0).to_event(2))
    with pyro.plate("school", 8):
        effect = pyro.sample("effect", dist.Normal(mean, spread))
        pyro.deterministic("twice", 2.0 * effect)
        pyro.sample("y", dist.Normal(effect, ERROR), obs=y)


def test_chains_of_nuts() -> None:
    pyro.set_rng_seed(0)
    kernel = NUTS(schools, max_tree_depth=5)
    mcmc = MCMC(kernel, num_samples=30, warmup_steps=30, num_chains=1, disable_progbar=True)
    mcmc.run(EFFECT)
    coords = {"school": SCHOOLS}
    found = program_to_arviz(schools, mcmc, EFFECT, coords=coords)
    posterior = found["posterior"]
    assert posterior["effect"].dims == ("chain", "draw", "school")
    assert posterior["effect"].coords["school"].values.tolist() == SCHOOLS
    assert posterior["weights"].dims == ("chain", "draw", "weights_dim_0", "weights_dim_1")
    draws = torch.as_tensor(posterior["effect"].values)
    assert torch.equal(draws, mcmc.get_samples(group_by_chain=True)["effect"])
    assert set(found["observed_data"]) == {"y"}
    diverging = found["sample_stats"]["diverging"].values
    assert diverging.sum() == len(mcmc.diagnostics()["divergences"]["chain 0"])
    assert "mean" in imported_arviz().summary(found, var_names=["mean"]).index


def test_draws_of_a_guide_and_of_predictive() -> None:
    guide = AutoNormal(schools)
    guide(EFFECT)
    found = program_to_arviz(schools, guide, EFFECT, num_samples=20)
    again = program_to_arviz(schools, guide, EFFECT, num_samples=20)
    posterior = found["posterior"]
    assert posterior["effect"].dims == ("chain", "draw", "school")
    assert posterior["spread"].shape == (1, 20)
    assert posterior.equals(again["posterior"])  # of the same seed
    model, data = zoo.trained("plain"), zoo.rows(count=4)
    program = uncollapse(model.model)
    draws = Predictive(program, num_samples=10)(*data[:3])
    wanted = {name: draws[name] for name in ("z", "c")}
    rows = ["a", "b", "c", "d"]
    found = program_to_arviz(program, wanted, *data[:3], coords={"data": rows})
    posterior = found["posterior"]
    assert posterior["c"].dims == ("chain", "draw", "data", "c_dim_0")
    assert posterior.coords["data"].values.tolist() == rows
    of_guide = program_to_arviz(conditional(model.model), model.guide, *data[:3], num_samples=5)
    assert of_guide["posterior"]["z"].dims == ("chain", "draw", "data", "z_dim_0")


def test_draws_of_other_sites_are_refused() -> None:
    with pytest.raises(KeyError, match="'z'"):
        program_to_arviz(schools, {"z": torch.zeros(5)}, EFFECT)
