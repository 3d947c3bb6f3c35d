"""Training: it trains everything it should, touches nothing else, and says no in plain words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyro
import pytest
import torch
import zoo
from torch import nn
from training_runs import QUICK, same, weights

from pyro_gcm import GCM, fit
from pyro_gcm.baselines import MLP

# Options


def test_history_has_a_row_for_each_epoch_and_the_callback_hears_of_every_step(
    toy: zoo.Rows, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {**QUICK, "epochs": 4, "learning_rate": 0.02}
    steps: list[int] = []
    result = fit(GCM(3, 2), *toy, **options, callback=steps.append)
    history = result.history
    assert list(history) == ["epoch", "step", "loss", "learning_rate", "seconds"]
    assert history.epoch.tolist() == [1, 2, 3, 4]
    assert history.step.tolist() == [4, 8, 12, 16]
    assert steps == list(range(17))
    assert (history.seconds > 0).all()
    assert (result.best_epoch, result.stopped_early) == (4, False)
    falling = [0.01 * (1.0 + math.cos(math.pi * k / 4)) for k in range(4)]
    assert history.learning_rate.tolist() == pytest.approx(falling)
    assert capsys.readouterr() == ("", "")
    fit(GCM(3, 2), *toy, **{**options, "progress": True})
    out, err = capsys.readouterr()
    assert out == ""
    assert "fit" in err
    assert "loss" in err


def test_learning_rate_stays_without_a_schedule_and_follows_that_of_the_user(toy: zoo.Rows) -> None:
    asked = []

    def halve(optimizer: torch.optim.Optimizer, steps: int) -> Any:
        asked.append(steps)
        return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    rates = [
        fit(GCM(3, 2), *toy, **QUICK, learning_rate=0.02, schedule=schedule).history.learning_rate
        for schedule in (None, halve, "flat")
    ]
    assert rates[0].tolist() == [0.02] * 3
    assert asked == [12]
    assert rates[1].tolist() == pytest.approx([0.02, 0.02 / 2**4, 0.02 / 2**8])
    assert rates[2].tolist() == pytest.approx([0.02, 0.02, 0.02 * (1.0 - 8 / 12) / 0.4])


def largest_step(toy: zoo.Rows, clip_norm: float | None) -> float:
    """Length of the first step of plain gradient descent with learning rate 1."""
    model = GCM(3, 2)
    parameters = model.trained_parameters()
    start = {name: p.detach().clone() for name, p in parameters.items()}
    options: Any = {**QUICK, "epochs": 1, "batch_size": 200, "learning_rate": 1.0}
    options |= {"optimizer": torch.optim.SGD, "schedule": None, "clip_norm": clip_norm}
    fit(model, *toy, **options)
    return math.sqrt(sum((p - start[n]).square().sum().item() for n, p in parameters.items()))


def test_gradient_is_clipped_to_the_norm_and_left_alone_without_one(toy: zoo.Rows) -> None:
    free = largest_step(toy, None)
    assert free > 0.02
    assert largest_step(toy, 0.01) == pytest.approx(0.01, rel=1e-3)
    assert largest_step(toy, 100.0) == free


def test_units_are_learned_from_the_training_rows_or_not_at_all(toy: zoo.Rows) -> None:
    model = GCM(3, 2, response="continuous")
    y = 1000.0 + 100.0 * toy.x[:, 0]
    fit(model, toy.x, toy.r, y, **QUICK)
    torch.testing.assert_close(model.r_standardizer.loc, toy.r.mean(0))
    torch.testing.assert_close(model.r_standardizer.scale, toy.r.std(0, correction=0))
    torch.testing.assert_close(model.response.standardizer.loc, y.mean(0, keepdim=True))
    held_out = GCM(3, 2)
    fit(held_out, *toy, **QUICK, validation=0.5)
    assert not torch.allclose(held_out.r_standardizer.loc, toy.r.mean(0))
    raw = GCM(3, 2, response="continuous")
    with pytest.warns(UserWarning, match="training ended with a loss of"):
        fit(raw, toy.x, toy.r, y, **QUICK, standardize=False)
    for part in (raw.x_standardizer, raw.r_standardizer, raw.response.standardizer):
        assert (part.loc == 0).all()
        assert (part.scale == 1).all()


def test_best_weights_on_the_validation_part_are_kept(toy: zoo.Rows) -> None:
    model = GCM(3, 2)
    kept = []

    def remember(step: int) -> None:
        if step > 16:  # costs beyond all revenues: the last epochs are not the best
            list(model.cost_net.parameters())[-1].data.fill_(1e3)
        if step and step % 2 == 0:
            kept.append(weights(model))

    result = fit(
        model, *toy, epochs=12, batch_size=64, num_particles=8, progress=False, validation=0.4,
        learning_rate=0.05, schedule=None, callback=remember,
    )  # fmt: skip
    losses = result.history.validation_loss
    best = int(losses.idxmin())
    assert best < 11
    assert result.best_epoch == best + 1
    assert same(kept[best], weights(model))
    assert not same(kept[-1], weights(model))


def test_training_stops_when_patience_runs_out(toy: zoo.Rows) -> None:
    x, r, y = toy
    opposite = x, r, 1.0 - y  # on which training makes the model worse
    options = {**QUICK, "epochs": 60, "schedule": None, "patience": 2}
    result = fit(GCM(3, 2), *toy, **options, validation=opposite)
    assert result.stopped_early
    assert len(result.history) == result.best_epoch + 2 < 60


def test_validation_loss_repeats_its_draws(toy: zoo.Rows) -> None:
    """A model that no longer moves has the same validation loss in every epoch."""
    result = fit(GCM(3, 2), *toy, **QUICK, validation=0.4, learning_rate=1e-12)
    assert result.history.validation_loss.nunique() == 1
    assert result.history.loss.nunique() == 3


def test_what_is_no_order_event_model_is_refused(toy: zoo.Rows) -> None:
    for model in (GCM, MLP(3, 2)):
        with pytest.raises(TypeError, match=r"must be a GCM or an IGCM, got (the class GCM|MLP);"):
            fit(model, *toy)


# What must not happen in silence


def test_parameter_that_gets_no_gradient_is_named(toy: zoo.Rows) -> None:
    model = GCM(3, 2)
    model.z_prior.forgotten = nn.Parameter(torch.zeros(1))
    with pytest.raises(RuntimeError, match=r"no gradient reached \['z_prior.forgotten'\]"):
        fit(model, *toy, **QUICK)
    model.z_prior.forgotten.requires_grad_(False)
    fit(model, *toy, **QUICK)


# Nothing stays behind


def test_training_leaves_generators_the_parameter_store_and_the_rows_alone(toy: zoo.Rows) -> None:
    pyro.param("mine", torch.tensor(3.0))
    torch.manual_seed(11)
    np_state = np.random.get_state()[1].copy()
    state, store = torch.get_rng_state(), dict(pyro.get_param_store().items())
    before = [column.clone() for column in toy]
    for elbo in ("iwae", "renyi"):
        fit(GCM(3, 2), *toy, **QUICK, elbo=elbo, validation=0.2)
    assert torch.equal(torch.get_rng_state(), state)
    assert dict(pyro.get_param_store().items()).keys() == store.keys() == {"mine"}
    assert (np.random.get_state()[1] == np_state).all()
    assert all(map(torch.equal, before, toy))


def test_bound_that_suits_the_response_is_the_default(toy: zoo.Rows) -> None:
    for response, elbo in (("binary", "iwae"), ("continuous", "iwae"), ("quantile", "elbo")):
        r = torch.rand(200, 1) if response == "quantile" else toy.r
        found = []
        for bound in (None, elbo, "elbo" if elbo == "iwae" else "iwae"):
            fit(
                model := GCM(3, r.shape[1], response=response), toy.x, r, toy.y, **QUICK, elbo=bound
            )
            found.append(weights(model))
        assert same(found[0], found[1])
        assert not same(found[0], found[2])


@pytest.mark.parametrize("kind", ["plain", "continuous", "ordinal", "distribution", "survival"])
def test_a_training_that_ends_worse_than_a_constant_says_so(kind: str) -> None:
    """And one that does not is silent, here as in all other tests."""
    x, r, y = zoo.rows_of(kind, 80)
    options: Any = {"epochs": 3, "num_particles": 4, "progress": False}
    fit(model := zoo.build(kind), x, r, y, **options)
    options["sample_weight"] = torch.linspace(0.1, 1.0, 80)
    fit(model, x, r, y, **options)

    @torch.no_grad()
    def far_off(_: int) -> None:
        model.cost_net.loc_bias.fill_(1e3)

    with pytest.warns(UserWarning, match="training ended with a loss of .*: try a lower learning"):
        fit(model, x, r, y, callback=far_off, **options)
