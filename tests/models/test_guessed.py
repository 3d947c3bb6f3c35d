"""A guess rate: the mirror of the probability of an infinite cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pyro_gcm import GCM, fit, load, save
from pyro_gcm.responses import Guessed


def model_of(**options: Any) -> GCM:
    response = Guessed(**options)
    model = GCM(3, 1, response=response, p0="constant", hidden=4, z_dim=2, seed=2).double()
    x, r = rows(200)
    model.learn_units(x, r, torch.arange(200.0) % 2)
    return model


def rows(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    x, r = (torch.randn(count, d, generator=g, dtype=torch.float64) for d in (3, 1))
    return x, 4.0 * r


@pytest.mark.parametrize("guess", ["constant", "conditional"])
def test_curves_run_between_the_guess_and_the_lapse_rate(guess: str, tmp_path: Path) -> None:
    model, (x, r) = model_of(guess=guess), rows(300)
    y = (torch.rand(300, generator=torch.Generator().manual_seed(3)) < 0.2).double()
    y = torch.where(r[:, 0] > 0.0, 1.0, y)
    fit(model, x, r, y, epochs=3, progress=False)
    ends = model.surface(x, torch.tensor([[-1e4], [0.0], [1e4]]))
    g = torch.sigmoid(model.response.logits(model.x_standardizer(x)))
    top = g + (1.0 - g) * torch.sigmoid(-model.infinite_net(model.x_standardizer(x)))
    torch.testing.assert_close(ends[:, 0], g)
    torch.testing.assert_close(ends[:, 2], top)
    assert (ends.diff(dim=1) >= 0.0).all()
    torch.testing.assert_close(ends[:, 1], model.predict(x, torch.zeros(300, 1)))
    save(model, tmp_path / "saved")
    assert torch.equal(load(tmp_path / "saved").predict(x, r), model.predict(x, r))


def test_a_known_rate_stays() -> None:
    model, (x, r) = model_of(rate=0.5), rows(60)
    fit(model, x, r, torch.arange(60.0) % 2, epochs=2, progress=False)
    low = model.predict(x, torch.full((60, 1), -1e4))
    torch.testing.assert_close(low, torch.full_like(low, 0.5))
