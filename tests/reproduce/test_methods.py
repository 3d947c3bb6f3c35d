"""Every method of the table trains, repeats its numbers from a seed, and is what it says."""

import pandas as pd
import pytest
import torch
from toys import DIVERGING

import pyro_gcm
from pyro_gcm import GCM, baselines
from pyro_gcm.baselines import Baseline
from pyro_gcm.training import AdamW, Diverged
from reproduce import tasks
from reproduce.methods import GRID, METHODS, Rows, methods_of, train

SETTINGS = {
    "epochs": 1, "batch_size": 20, "learning_rate": 0.01, "hidden": 8, "optimizer": "adam",
    "schedule": "cosine", "validation": 0.1, "weight_decay": 1e-4,
}  # fmt: skip
#: Those that differ in more than what their experiment passes to them.
MAIN = [*methods_of("published"), "HistGradientBoosting"]
SUPPORTED = [
    *((method, response) for method in MAIN for response in ("binary", "continuous")),
    *((method, "quantile") for method in methods_of("quantile")),
]


def toy(response="binary", rows=60):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 2, generator=g)
    r = torch.rand(rows, 1 if response == "quantile" else 2, generator=g).clamp(0.01, 0.99)
    y = x[:, 0] + 2.0 * r.sum(1) + 0.3 * torch.randn(rows, generator=g)
    return Rows(x, r, (y > y.median()).float() if response == "binary" else y, response)


def settings(method, **more):
    if METHODS[method].estimator:
        return {}
    particles = {"num_particles": 4, "num_samples": 16} if METHODS[method].latent else {}
    return {**SETTINGS, **particles, **more}


def trained(method, seed=0, rows=None, **more):
    rows = rows or toy()
    return train(method, rows, settings(method, **more), seed)[0], rows


@pytest.mark.parametrize(("method", "response"), SUPPORTED)
def test_every_method_trains_from_its_seed_on_every_response_it_supports(method, response):
    before = torch.get_rng_state()
    rows = toy(response)
    model, history = train(method, rows, settings(method), 3)
    prediction = model.predict(rows.x, rows.r)
    assert torch.equal(torch.get_rng_state(), before)
    assert prediction.shape == (60,)
    assert torch.isfinite(prediction).all()
    if response == "binary":
        assert ((prediction >= 0) & (prediction <= 1)).all()
    assert (history is None) == METHODS[method].estimator
    assert history is None or history.best_epoch == 1
    if response == "binary":  # the seed decides the numbers
        torch.manual_seed(6)
        same, other = (trained(method, seed, rows)[0].predict(rows.x, rows.r) for seed in (3, 4))
        assert torch.equal(prediction, same)
        # Estimators draw nothing on a table this small.
        assert METHODS[method].estimator or not torch.allclose(prediction, other)


@pytest.mark.parametrize("method", [name for name in MAIN if not METHODS[name].estimator])
def test_strict_methods_are_those_whose_class_promises_it(method):
    model = METHODS[method].make(2, 2, response="binary", hidden=8, seed=0)
    promised = model.strict if isinstance(model, Baseline) else isinstance(model, GCM)
    assert METHODS[method].strict == promised


@pytest.mark.parametrize("method", ["MM", "Hint", "GCM", "IGCM (paper loss)"])
def test_watch_sees_every_step_and_the_model(method):
    seen = []
    more = settings(method, epochs=2, validation=0.0)
    model, _ = train(method, toy(), more, 0, watch=lambda *each: seen.append(each))
    assert [step for step, _ in seen] == list(range(7))
    assert all(each is model for _, each in seen)


@pytest.mark.parametrize("method", ["MLP", "GCM"])
@pytest.mark.parametrize(("optimizer", "kind"), [("sgd", torch.optim.SGD), ("adam", AdamW)])
@pytest.mark.parametrize("schedule", [None, "cosine"])
def test_the_settings_of_the_training_reach_it(method, optimizer, kind, schedule, monkeypatch):
    given = {}
    for module in (baselines, pyro_gcm):
        monkeypatch.setattr(module, "fit", lambda *rows, **options: given.update(options))
    chosen = {k: v for k, v in settings(method).items() if k != "schedule"}
    chosen |= {"optimizer": optimizer, "weight_decay": 0.3}
    train(method, toy(), chosen if schedule is None else {**chosen, "schedule": schedule}, 7)
    own = vars(given["settings"]) if "settings" in given else given
    made = own["optimizer"]([torch.nn.Parameter(torch.zeros(1))], lr=0.02)
    assert type(made) is kind
    assert (made.defaults["weight_decay"], made.defaults["lr"]) == (0.3, 0.02)
    assert (given["seed"], own["schedule"], given["progress"]) == (7, schedule, False)
    shared = ("epochs", "batch_size", "learning_rate", "validation")
    assert all(given[name] == SETTINGS[name] for name in shared)


@pytest.mark.parametrize("method", ["MLP", "GCM"])
def test_a_fit_that_diverges_is_told(method):
    more = {**settings(method, epochs=3), **DIVERGING}
    with pytest.raises(Diverged, match=r"the loss is|is not finite"):
        train(method, toy("continuous"), more, 0)


def test_what_a_method_is_cannot_be_overruled():
    assert METHODS["GCM (literal)"].fixed == {"prior": "standard"}
    model, _ = trained("GCM (literal)", prior="conditional")
    assert not model.reads_x


def test_every_experiment_has_its_methods():
    paper = set(pd.read_csv(tasks.PAPER / "public_datasets.csv")["method"])
    held_out, published, quantile = map(methods_of, ("held-out", "published", "quantile"))
    assert paper <= set(held_out) & set(published)
    assert paper - {"IGCM"} <= set(quantile)
    assert not any(METHODS[name].estimator for name in (*published, *quantile))
    assert {"GCM (literal)", "IGCM (paper loss)"} == set(published) - set(held_out)
    assert set(held_out) - set(published) == {"HistGradientBoosting"}
    assert methods_of("timing") == ["MM", "CMNN", "PWL", "GCM"]
    assert {method.paper for method in METHODS.values()} - {None} == paper
    assert all(METHODS[name].paper == name for name in paper)
    assert all(METHODS[name].grid == GRID for name in published)
    assert [name for name, task in tasks.TASKS.items() if task.stand_in] == ["loan_psds"]
    assert "stand-in" in tasks.TASKS["loan_psds"].title
