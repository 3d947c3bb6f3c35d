"""Every method of the table trains, repeats its numbers from a seed, and is what it says."""

import pytest
import torch

import pyro_gcm
from pyro_gcm import baselines
from pyro_gcm.training import AdamW
from reproduce.methods import METHODS, Rows, methods_of, train

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


def settings(method):
    if METHODS[method].estimator:
        return {}
    particles = {"num_particles": 4, "num_samples": 16} if METHODS[method].latent else {}
    return {**SETTINGS, **particles}


@pytest.mark.parametrize(("method", "response"), SUPPORTED)
@pytest.mark.filterwarnings("ignore:prior='standard'")
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
        models = [train(method, rows, settings(method), seed)[0] for seed in (3, 4)]
        same, other = (each.predict(rows.x, rows.r) for each in models)
        assert torch.equal(prediction, same)
        # Estimators draw nothing on a table this small.
        assert METHODS[method].estimator or not torch.allclose(prediction, other)


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
