"""Copies that are trained side by side are those that are trained alone."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from baseline_checks import ALL, Make, rows
from torch import Tensor, nn

import pyro_gcm
from pyro_gcm import GCM, IGCM, baselines
from pyro_gcm.baselines import MLP, Baseline, Hint, fit
from pyro_gcm.inference.scored import Scored
from pyro_gcm.training import AdamW, Diverged
from reproduce.ablations.stories import Factor, Modes
from reproduce.methods.together import fit_together

SEEDS = (3, 0, 8)
#: Four batches an epoch, the last one with fewer rows; every other step is clipped.
OPTIONS: Any = {
    "epochs": 2, "batch_size": 20, "learning_rate": 0.02, "clip_norm": 0.3,
    "optimizer": partial(AdamW, weight_decay=0.1),
}  # fmt: skip
CASES: dict[str, tuple[Make, torch.dtype, dict[str, Any]]] = {
    **{name: (make, torch.float64, {}) for name, make in ALL.items()},
    **{f"{name}, float32": (ALL[name], torch.float32, {}) for name in ("MLP", "SMM", "PWL")},
    "quantile": (partial(MLP, response="quantile"), torch.float64, {"schedule": None}),
    "continuous": (
        partial(MLP, response="continuous"),
        torch.float64,
        {"optimizer": torch.optim.SGD, "standardize": False, "clip_norm": None},
    ),
}


def copies(make: Make, dtype: torch.dtype = torch.float64, r_dim: int = 2) -> list[Baseline]:
    """Baselines that differ in their weights."""
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(make(3, r_dim, hidden=6).to(dtype))
    return models


def columns(dtype: torch.dtype = torch.float64, r_dim: int = 2) -> list[list[Tensor]]:
    """x, r and y of every copy, each in other units, and so that every response can take them."""
    parts = []
    for seed in range(3):
        x, r, y = rows(70, seed)
        of_copy = [(1 + seed) * x + seed, r[:, :r_dim].sigmoid(), y]
        parts.append([column.to(dtype) for column in of_copy])
    return parts


def weights(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


# One of each kind of network, penalty and type: recording a step takes seconds.
KEPT = ("SMM", "Hint, comparable", "PWL", "MLP, float32")


@pytest.mark.long(keep=KEPT)
@pytest.mark.parametrize("name", CASES)
def test_every_copy_has_the_weights_that_it_has_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What `Hint` draws is not the same alone: here it draws nothing.
    monkeypatch.setattr(torch, "rand_like", lambda r: 0.5 + 0.0 * r)
    make, dtype, more = CASES[name]
    if "Hint" in name:
        monkeypatch.setattr(torch, "randperm", _rolled_or_shuffled(torch.randperm))
    r_dim = 1 if name == "quantile" else 2
    alone, together = copies(make, dtype, r_dim), copies(make, dtype, r_dim)
    data, options = columns(dtype, r_dim), {**OPTIONS, **more}
    for model, of_copy, seed in zip(alone, data, SEEDS, strict=True):
        fit(model, *of_copy, seed=seed, progress=False, **options)
    start = [weights(model) for model in together]
    assert fit_together(together, data, SEEDS, **options) == [[]] * 3
    close = {"rtol": 0.0, "atol": 1e-10 if dtype == torch.float64 else 2e-4}
    for mine, theirs, before in zip(together, alone, start, strict=True):
        torch.testing.assert_close(weights(mine), weights(theirs), **close)
        assert (weights(mine) - before).abs().max() > 0.01
        for unit in ("x_units.loc", "r_units.scale", "y_units.loc"):
            assert torch.equal(mine.get_buffer(unit), theirs.get_buffer(unit))


STORIES: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "quantile": (GCM, {"response": "quantile"}, {"schedule": None}),
    "alternatives": (GCM, {"alternatives": 2, "costs": 2}, {}),
    "continuous": (GCM, {"response": "continuous"}, {"elbo": "elbo"}),
    "implicit": (IGCM, {}, {}),
    "paper": (IGCM, {"kernel_guide": "amortised"}, {"objective": "paper"}),
    "factor": (Factor, {}, {}),
    "modes": (Modes, {}, {}),
}


def mean_of_a_site(self: Scored, name: str, q: Any, **_: Any) -> Tensor:
    return q.mean.expand(*self.shape, *q.event_shape)


@pytest.mark.long(keep=("alternatives", "implicit", "modes"))
@pytest.mark.parametrize("name", STORIES)
def test_copies_of_a_story_have_the_weights_that_they_have_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The mean of z and k in the place of their draws, which are not the same alone.
    monkeypatch.setattr(Scored, "draw", mean_of_a_site)
    make, sizes, more = STORIES[name]
    r_dim, options = 1 if name == "quantile" else 2, OPTIONS | {"num_particles": 3} | more
    alone, side_by_side = (
        [make(3, r_dim, hidden=6, seed=seed, **sizes).double() for seed in range(3)]
        for _ in range(2)
    )
    data = columns(r_dim=r_dim)
    for model, of_copy, seed in zip(alone, data, SEEDS, strict=True):
        pyro_gcm.fit(model, *of_copy, seed=seed, progress=False, **options)
    assert fit_together(side_by_side, data, SEEDS, **options) == [[]] * 3
    for mine, theirs in zip(side_by_side, alone, strict=True):
        torch.testing.assert_close(weights(mine), weights(theirs), rtol=0.0, atol=1e-10)
        x, r, _ = data[0]
        torch.testing.assert_close(mine.predict(x, r), theirs.predict(x, r))
    assert not torch.equal(weights(alone[0]), weights(alone[1]))


def _rolled_or_shuffled(randperm: Any) -> Any:
    """Rows of a batch, which a loss asks for with a device, are rolled in place of shuffled."""
    return lambda n, **given: torch.arange(n).roll(1) if "device" in given else randperm(n, **given)


def test_a_loss_draws_for_every_copy_from_the_first_seed() -> None:
    def trained(make: Make) -> Tensor:
        models, before = [copies(make)[0] for _ in range(2)], torch.get_rng_state()
        # The same rows in the same order: only draws tell the copies apart.
        assert fit_together(models, columns()[:1] * 2, (1, 1), **OPTIONS) == [[]] * 2
        assert torch.equal(torch.get_rng_state(), before)
        return torch.stack([weights(model) for model in models])

    drawn = trained(partial(Hint, weight=1e3, max_shift=3.0))
    assert (drawn[0] - drawn[1]).abs().max() > 1e-3
    assert torch.equal(trained(partial(Hint, weight=1e3, max_shift=3.0)), drawn)
    constant = trained(MLP)
    torch.testing.assert_close(*constant, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("step", [0, 5])
def test_a_copy_that_diverges_stops_no_other(step: int) -> None:
    models, alone, data = copies(MLP), copies(MLP), columns()
    options, seen = {**OPTIONS, "schedule": None}, []

    def poison(done: int) -> None:
        seen.append(weights(models[2]))
        if done == step:
            with torch.no_grad():
                models[1].network.output.bias.fill_(torch.inf)

    first, error, last = fit_together(models, data, SEEDS, callback=poison, **options)
    assert isinstance(error, Diverged)
    assert first == last == []
    for at in (0, 2):
        fit(alone[at], *data[at], seed=SEEDS[at], progress=False, **options)
        torch.testing.assert_close(weights(models[at]), weights(alone[at]), rtol=0.0, atol=1e-10)
    # The callback meets the weights of its step.
    assert len(seen) == 9
    assert all((a - b).abs().max() > 1e-3 for a, b in pairwise(seen))


def test_every_public_baseline_is_among_those_that_are_compared() -> None:
    classes = {type(made(3, 2)) for made in ALL.values()}
    public = {getattr(baselines, name) for name in baselines.__all__}
    assert classes == {c for c in public if isinstance(c, type) and issubclass(c, Baseline)} - {
        Baseline
    }
