"""The base class of the baselines: units, losses, predictions, and no import of Pyro."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from baseline_checks import made, rows

import pyro_gcm
from pyro_gcm.baselines import MLP, Baseline


class Sum(Baseline):
    """Score sum(x) + 2 sum(r) of standardised inputs."""

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x.sum(-1, keepdim=True),)

    def decode(self, encoded: tuple[torch.Tensor, ...], r: torch.Tensor) -> torch.Tensor:
        return (encoded[0] + 2.0 * r.sum(-1, keepdim=True)).squeeze(-1)


def standard(values: Any) -> Any:
    return (values - values.mean(0)) / values.std(0)


@pytest.mark.parametrize("response", ["binary", "continuous", "quantile"])
def test_predictions_and_losses_use_the_units_of_the_data(response: str) -> None:
    x, r, y = (column.numpy() for column in rows(50))
    x, r = 10.0 * x + 3.0, 100.0 * r - 7.0
    y = y if response == "binary" else 1000.0 + 50.0 * y + x[:, 0]
    if response == "quantile":
        r = (r[:, :1] - r.min() + 0.1) / (np.ptp(r) + 0.2)
    model = Sum(3, r.shape[1], response=response).double()
    model.learn_units(*map(torch.from_numpy, (x, r, y)))
    score = standard(x).sum(1) + 2.0 * standard(r).sum(1)
    if response == "binary":
        wanted = 1.0 / (1.0 + np.exp(-score))
        assert model.y_units.scale == 1.0
    else:
        wanted = y.mean() + y.std() * score
    np.testing.assert_allclose(model.predict(x, r).numpy(), wanted, rtol=1e-12)
    surface = model.surface(x[:3], r[:4]).numpy()
    assert surface.shape == (3, 4)
    np.testing.assert_allclose(surface.diagonal(), wanted[:3], rtol=1e-12)
    with torch.no_grad():
        forward = model(*map(torch.from_numpy, (x, r))).numpy()
    np.testing.assert_allclose(forward, score, rtol=1e-12)

    error = standard(y) - score
    wanted = {
        "binary": np.logaddexp(0.0, score) - y * score,
        "continuous": error**2,
        "quantile": np.where(error > 0.0, r[:, 0], r[:, 0] - 1.0) * error,
    }[response]
    loss = model.loss(*map(torch.from_numpy, (x, r, y)))
    assert loss.item() == pytest.approx(wanted.mean(), rel=1e-12)


def test_surface_encodes_covariates_once_unless_not_cached() -> None:
    seen: list[int] = []

    class Counting(MLP):
        def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            seen.append(len(x))
            return super().encode(x)

    model = made(Counting)
    model.surface(rows(5)[0], rows(7)[1])
    model.surface(rows(5)[0], rows(7)[1], cached=False)
    assert seen == [5, 35]


def test_predictions_leave_mode_and_random_state_unchanged() -> None:
    model, (x, r, _) = made(MLP), rows(5)
    model.network.hidden.eval()
    before = torch.get_rng_state()
    model.predict(x, r)
    model.surface(x, r)
    assert model.training
    assert not model.network.hidden.training
    assert not model.predict(x, r).requires_grad
    assert torch.equal(before, torch.get_rng_state())


def test_inputs_of_a_loss_of_wrong_shapes_are_refused_by_name() -> None:
    """Those of `predict` and `surface` are in `tests/arguments`."""
    model, (x, r, _) = made(MLP), rows(5)
    for columns, message in (
        ((x, r, x[:, :1]), r"y must have shape \[5\], got \(5, 1\)"),
        ((x, r[:, :1], x[:, 0]), r"\[B, 2\], got \(5, 3\) and \(5, 1\)"),
        ((x[:1], r, x[:, 0]), r"\[B, 2\], got \(1, 3\) and \(5, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            model.loss(*columns)


def test_pyro_and_heavy_packages_are_not_imported() -> None:
    """The package is replaced by an empty one, since its own __init__ may import more."""
    code = f"""
import sys, types
package = types.ModuleType("pyro_gcm")
package.__path__ = [{str(Path(pyro_gcm.__file__).parent)!r}]
sys.modules["pyro_gcm"] = package
import torch
allowed = set(sys.modules)
import pyro_gcm.audit, pyro_gcm.baselines, pyro_gcm.data, pyro_gcm.training
print(*sorted({{name.split(".")[0] for name in set(sys.modules) - allowed}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pyro", "pandas", "matplotlib", "scipy", "sklearn", "pooch", "arviz", "joblib"}
    assert "pyro_gcm" in done.stdout.split()
    assert not heavy & set(done.stdout.split())
