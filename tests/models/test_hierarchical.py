"""Groups with effects of their own: what is learned of them, and of a group that was not seen."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import fit, load, save, to_arviz
from pyro_gcm.models import HierarchicalGCM

GROUPS = 12
NAMES = [f"shop {number}" for number in range(GROUPS)]


def rows(count: int, seed: int) -> tuple[zoo.Rows, Tensor]:
    """Rows of groups of very different sizes, and the effects of these in the units of r."""
    g = torch.Generator().manual_seed(seed)
    effect = torch.linspace(-1.2, 1.2, GROUPS)[torch.randperm(GROUPS, generator=g)]
    size = torch.linspace(0.05, 1.0, GROUPS).square()
    group = torch.multinomial(size, count, replacement=True, generator=g)
    x, r = torch.randn(count, 1, generator=g), 2.0 * torch.randn(count, 1, generator=g)
    noise = 0.5 * torch.randn(count, 1, generator=g)
    y = (torch.tanh(x) + effect[group][:, None] + noise < r).all(1).float()
    return zoo.Rows(torch.cat([x, group[:, None].float()], 1), r, y), effect


@functools.cache
def learned(dtype: torch.dtype = torch.float32) -> Any:
    data = rows(900, 0)[0].map(lambda column: column.to(dtype))
    with zoo.default_dtype(dtype):
        model = HierarchicalGCM(2, 1, groups=NAMES, z_dim=2, num_samples=16)
    fit(model, *data, epochs=40, learning_rate=0.03, seed=1, progress=False)
    return model


def unseen(data: zoo.Rows) -> zoo.Rows:
    return data._replace(x=torch.cat([data.x[:, :1], torch.full_like(data.x[:, :1], -1.0)], 1))


def test_effects_are_found_and_pooled() -> None:
    model, (data, truth) = learned(), rows(900, 0)
    held_out = rows(2000, 1)[0]
    held_out = held_out._replace(x=held_out.x.clone())
    draws = model.cost_posterior(*data.map(lambda v: v[:1]), num_samples=400, progress=False)
    effect = draws["effect"][:, 0] * model.r_standardizer.scale
    assert effect.shape == (400, GROUPS + 1)
    found, spread = effect[:, :-1].mean(0), effect[:, :-1].std(0)
    assert torch.corrcoef(torch.stack([found, truth]))[0, 1] > 0.95
    assert ((found - truth).abs() < 3.0 * spread + 0.1).all()
    counts = torch.bincount(data.x[:, -1].long(), minlength=GROUPS)
    small, large = counts.argsort()[:3], counts.argsort()[-3:]
    assert spread[small].mean() > 1.5 * spread[large].mean()
    assert effect[:, -1].std() > 1.5 * spread.mean()
    assert effect[:, -1].mean().abs() < 0.3


def test_predictions_for_an_unseen_group_are_less_sharp() -> None:
    model, (data, _) = learned(), rows(2000, 0)
    known, new = model.predict(data.x, data.r), model.predict(*unseen(data)[:2])
    assert (new - 0.5).abs().mean() < 0.9 * (known - 0.5).abs().mean()
    for number in (-1.0, float(GROUPS), 0.5, 1e6):
        other = data.x.clone()
        other[:, -1] = number
        assert torch.equal(model.predict(other, data.r), new)
    better = model.log_prob(data.x, data.r, data.y) - model.log_prob(*unseen(data)[:3])
    assert better.mean() > 0.1


def test_names_are_kept_and_shown(tmp_path: Path) -> None:
    model, data = learned(), rows(4, 5)[0]
    assert model.group_numbers(["shop 3", "kiosk", "shop 0"]).tolist() == [3.0, -1.0, 0.0]
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.groups == NAMES
    assert torch.equal(again.predict(data.x, data.r), model.predict(data.x, data.r))
    posterior = to_arviz(model, *data[:3], num_samples=20, progress=False).posterior
    labels = posterior["effect"].coords["effect_dim_0"].values.tolist()
    assert labels == [*NAMES, "(a group not seen)"]


def test_an_untrained_model_is_saved_and_rows_without_groups_are_refused(tmp_path: Path) -> None:
    model, data = HierarchicalGCM(2, 1, groups=[101, "b"], hidden=4), rows(20, 0)[0]
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.groups == ["101", "b"]
    assert again.group_numbers([101, "b", "c"]).tolist() == [0.0, 1.0, -1.0]
    with pytest.raises(ValueError, match="the last column of x must be the number of a group, 0"):
        fit(model, *unseen(data)[:3], epochs=1, progress=False)
