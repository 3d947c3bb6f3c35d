"""One seed, one result: in this process, in another, after anything else."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy_rows import QUICK, Rows, same, weights

import pyro_gcm
from pyro_gcm import GCM, fit

SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = [{package!r}, {here!r}]
from test_same_numbers import fingerprint
for options in {runs!r}:
    print(fingerprint(options))
"""
RUNS: list[dict[str, Any]] = [{}, {"alternatives": 2, "response": "continuous"}]


def fingerprint(options: dict[str, Any]) -> str:
    """A hash of all weights after training a model with these options, and of its predictions."""
    g = torch.Generator().manual_seed(5)
    x, r = torch.randn(100, 3, generator=g), torch.rand(100, 2, generator=g)
    model = GCM(3, 2, **options)
    fit(model, x, r, (x[:, 0] + r[:, 0] > 0.5).float(), **QUICK, validation=0.2)
    digest = hashlib.sha256()
    for value in (*weights(model).values(), model.predict(x, r)):
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.long(keep=0)
def test_trainings_give_the_same_numbers_in_any_order_and_in_another_process() -> None:
    package, here = Path(pyro_gcm.__file__).parents[1], Path(__file__).parent
    script = SCRIPT.format(package=str(package), here=str(here), runs=RUNS[::-1])
    other = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert other.returncode == 0, other.stderr
    theirs = other.stdout.split()[::-1]
    mine = [fingerprint(options) for options in (*RUNS, *RUNS)]
    assert mine == theirs * 2
    assert len(set(mine)) == 2


@pytest.mark.parametrize("elbo", ["iwae", "elbo", "mean_field", "renyi"])
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


def test_shuffling_depends_on_the_seed_and_the_weights_on_the_shuffling(toy: Rows) -> None:
    """With one batch an epoch the order of rows hardly matters; with several it does."""

    def loss(seed: int, batch_size: int) -> float:
        options = {**QUICK, "epochs": 1, "batch_size": batch_size, "learning_rate": 1e-12}
        return float(fit(GCM(3, 2), *toy, **options, seed=seed).history.loss.iloc[0])

    assert loss(1, 50) == loss(1, 50)
    assert loss(1, 50) != loss(2, 50)
