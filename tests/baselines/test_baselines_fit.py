"""Training of a baseline: agreement with a hand-written loop, resumption and input checks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from baseline_checks import made, rows
from torch.nn import functional
from training_runs import goes_on, same, stop_at, weights

from pyro_gcm.baselines import MLP, MM, Baseline, fit

QUICK = {"batch_size": 64, "learning_rate": 0.02, "progress": False}


def test_losses_are_those_of_a_hand_written_loop() -> None:
    x, r, y = rows(200)
    x, r = 5.0 * x + 2.0, 100.0 * r - 30.0
    model, twin = made(MLP), made(MLP)
    history = fit(model, x, r, y, epochs=3, seed=7, **QUICK).history

    order = torch.Generator().manual_seed(7)
    shuffled = torch.randperm(200, generator=order)
    xs, rs = ((v - v.mean(0)) / v.std(0, unbiased=False) for v in (x, r))
    xs, rs, ys = xs[shuffled], rs[shuffled], y[shuffled]
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.02)
    steps, step, losses = 3 * 4, 0, []
    for _ in range(3):
        total = 0.0
        for batch in torch.randperm(200, generator=order).split(64):
            half_wave = torch.cos(torch.pi * torch.tensor(step / steps)).item()
            optimizer.param_groups[0]["lr"] = 0.01 * (1.0 + half_wave)
            optimizer.zero_grad()
            h = torch.tanh(twin.network.x_layer(xs[batch]) + twin.network.r_layer(rs[batch]))
            score = twin.network.output(torch.tanh(twin.network.hidden[0](h)))[:, 0]
            loss = (functional.softplus(score) - ys[batch] * score).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(twin.parameters(), 10.0)
            optimizer.step()
            step += 1
            total += loss.item() * len(batch)
        losses.append(total / 200)
    assert history.loss.tolist() == pytest.approx(losses, abs=1e-6)
    assert history.step.tolist() == [4, 8, 12]
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0.0, atol=1e-6)


def test_units_are_learned_from_the_training_part_or_not_at_all() -> None:
    x, r, y = rows(200)
    x = 5.0 * x + 2.0
    held_out, raw = made(MLP), made(MLP)
    fit(held_out, x, r, y, epochs=1, validation=0.25, **QUICK)
    shuffled = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(held_out.x_units.loc, x[shuffled[50:]].mean(0))
    fit(raw, x, r, y, epochs=1, standardize=False, **QUICK)
    assert torch.equal(raw.x_units.loc, torch.zeros(3).double())


def test_a_resumed_run_gives_the_same_numbers(tmp_path: Path) -> None:
    def run(**more: Any) -> tuple[Baseline, Any]:
        model = made(MLP)
        return model, fit(model, *rows(200), epochs=5, **QUICK, validation=0.3, **more)

    goes_on(run, tmp_path / "deep" / "run.pt", 9)


def test_checkpoint_of_another_run_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    data, path = rows(200), tmp_path / "run.pt"
    first = made(partial(MM, groups=2, units=3))
    with pytest.raises(KeyboardInterrupt):
        fit(first, *data, epochs=5, **QUICK, checkpoint=path, callback=stop_at(9))
    model = made(partial(MM, groups=3, units=2))
    before = weights(model)
    with pytest.raises(ValueError, match=r"another training: .*groups is 2 there, 3 here"):
        fit(model, *data, epochs=5, **QUICK, checkpoint=path)
    assert same(before, weights(model))


def test_quantile_levels_are_one_column_inside_the_unit_interval() -> None:
    with pytest.raises(ValueError, match=r"r_dim must be 1, the quantile level, .*, got 2"):
        MLP(1, 2, response="quantile")
    model = MLP(1, 1, response="quantile")
    x, level, y = torch.zeros(2, 1), torch.tensor([[0.2], [1.0]]), torch.zeros(2)
    message = "must lie strictly between 0 and 1 for response='quantile', got values from 0.2 to 1"
    with pytest.raises(ValueError, match=f"^r {message}"):
        fit(model, x, level, y, progress=False)
    with pytest.raises(ValueError, match=f"^r {message}"):
        model.predict(x, level)
    with pytest.raises(ValueError, match=f"^revenues {message}"):
        model.surface(x, level)


@pytest.mark.parametrize("response", ["binary", "continuous"])
def test_a_training_that_ends_worse_than_a_constant_says_so(response: str) -> None:
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(80, 2, generator=g), torch.rand(80, 1, generator=g)
    y = (r[:, 0] > 0.5).float() if response == "binary" else 100.0 * r[:, 0]
    options = {"epochs": 3, "progress": False}
    fit(MLP(2, 1, response=response), x, r, y, **options)
    with pytest.warns(UserWarning, match="training ended with a loss of .*: try a lower learning"):
        fit(MLP(2, 1, response=response), x, r, y, learning_rate=3e3, **options)
