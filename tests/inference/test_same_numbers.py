"""One seed, one result, after anything else; `tests/golden` compares with other processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from toy_rows import QUICK, Rows
from training_runs import same, weights

from pyro_gcm import GCM, fit


@pytest.mark.parametrize("elbo", ["iwae", "renyi"])
def test_the_seed_decides_every_bit_of_the_weights(elbo: str, toy: Rows) -> None:
    def trained(seed: int, model_seed: int, noise: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(noise)  # must not matter
        np.random.seed(noise)
        torch.randn(noise)
        model = GCM(3, 2, seed=model_seed)
        fit(model, *toy, **QUICK, elbo=elbo, seed=seed)
        return weights(model)

    wanted = trained(3, 4, noise=1)
    assert same(wanted, trained(3, 4, noise=2))
    name = "cost_net.net.0.weight"
    assert not torch.equal(wanted[name], trained(5, 4, noise=1)[name])
    assert not torch.equal(wanted[name], trained(3, 6, noise=1)[name])


def test_seed_of_the_model_decides_its_first_weights_and_its_noise() -> None:
    a, b, c = (weights(GCM(3, 2, seed=seed)) for seed in (1, 1, 2))
    assert same(a, b)
    for name in ("cost_net.net.0.weight", "z_prior.net.0.weight", "base_samples.samples"):
        assert not torch.equal(a[name], c[name])


@pytest.mark.parametrize(
    "work",
    [
        lambda: GCM(3, 2),
        lambda: GCM(3, 2, prior="standard", alternatives=2, response="continuous", seed=7),
        lambda: GCM(3, 2).predict(torch.zeros(2, 3), torch.zeros(2, 2)),
        lambda: GCM(3, 2).predict(torch.zeros(2, 3), torch.zeros(2, 2), num_samples=40),
        lambda: GCM(3, 2).surface(torch.zeros(2, 3), torch.zeros(2, 2)),
        lambda: GCM(3, 2).cost(torch.zeros(2, 3)),
    ],
    ids=["build", "build standard", "predict", "predict more samples", "surface", "cost"],
)
def test_only_sampling_moves_the_global_generator(work: Any) -> None:
    before = torch.get_rng_state()
    work()
    assert torch.equal(torch.get_rng_state(), before)
