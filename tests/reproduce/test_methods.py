"""Every method of the table trains, repeats its numbers from a seed, and is what it says."""

import pandas as pd
import pytest
import torch

import pyro_gcm
from pyro_gcm import audit_monotonicity, baselines
from pyro_gcm.baselines import Baseline
from pyro_gcm.training import Diverged
from reproduce import tasks
from reproduce.methods import GRID, METHODS, Rows, methods_of, train

SETTINGS = {
    "epochs": 1, "batch_size": 20, "learning_rate": 0.01, "hidden": 8, "optimizer": "adam",
    "schedule": "cosine", "validation": 0.1, "weight_decay": 1e-4,
}  # fmt: skip
#: Those that differ in more than what their experiment passes to them.
MAIN = [*methods_of("published"), "HistGradientBoosting", "XGBoost", "LightGBM", "Linear"]
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
        if method in ("XGBoost", "LightGBM"):
            pytest.importorskip(method.lower())
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


@pytest.mark.parametrize("method", ["MLP", "GCM"])
def test_the_seed_reaches_the_order_of_the_rows(method, monkeypatch):
    seeds = []
    for module in (baselines, pyro_gcm):
        monkeypatch.setattr(module, "fit", lambda *rows, seed, **options: seeds.append(seed))
    trained(method, 7)
    assert seeds == [7]


@pytest.mark.parametrize(
    ("method", "own"),
    [
        pytest.param(name, own, id=f"{name}-{place}")
        for name, entry in METHODS.items()
        if entry.strict and name in MAIN
        for place, own in enumerate(entry.own or [{}])
    ],
)
def test_strict_methods_are_monotone_at_every_level_of_their_setting(method, own):
    rows = toy(rows=300)  # enough for the largest leaves of boosting
    more = {} if METHODS[method].estimator else {"learning_rate": 0.05, "epochs": 3}
    model, _ = train(method, rows, {**settings(method), **more, **own}, 0)
    if isinstance(model, Baseline):
        model.double()
    audit = audit_monotonicity(
        model, rows.x.double(), rows.r.double(), pairs=400, searches=("random",), progress=False
    )
    assert audit.violations == 0
    columns = rows.x[:20], torch.zeros(20, 2), torch.ones(20, 2)
    kind = next(model.parameters()).dtype if isinstance(model, torch.nn.Module) else torch.float32
    x, low, high = (column.to(kind) for column in columns)
    assert (model.predict(x, high) > model.predict(x, low)).any()  # it is not a constant


@pytest.mark.parametrize("method", ["MM", "Hint", "GCM", "IGCM (paper loss)"])
def test_watch_sees_every_step_and_the_model(method):
    seen = []
    more = settings(method, epochs=2, validation=0.0)
    model, _ = train(method, toy(), more, 0, watch=lambda *each: seen.append(each))
    assert [step for step, _ in seen] == list(range(7))
    assert all(each is model for _, each in seen)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_one_step_is_that_of_the_optimiser_by_hand(optimizer, weight_decay):
    # One batch of all rows, so that their order does not matter.
    rows, rate = toy(), 0.02
    weights = []
    model, _ = train(
        "MLP",
        rows,
        {
            "epochs": 1, "batch_size": 60, "learning_rate": rate, "hidden": 4,
            "optimizer": optimizer, "weight_decay": weight_decay,
        },
        0,
        watch=lambda step, model: weights.append(
            {name: p.detach().clone() for name, p in model.named_parameters()}
        ),
    )  # fmt: skip
    model.load_state_dict({**model.state_dict(), **weights[0]})
    model.zero_grad()
    model.loss(rows.x, rows.r, rows.y).backward()
    for name, p in model.named_parameters():
        before, gradient = weights[0][name], p.grad
        if optimizer == "sgd":
            expected = before - rate * (gradient + weight_decay * before)
        else:  # the first step of AdamW, with its epsilon
            moved = gradient / (gradient.abs() + 1e-8)
            expected = before - rate * weight_decay * before - rate * moved
        torch.testing.assert_close(weights[1][name], expected, rtol=1e-4, atol=1e-6)


def test_without_a_schedule_the_rate_stays():
    rows = toy()
    for schedule, last in ((None, 0.01), ("cosine", 0.005)):
        more = {} if schedule is None else {"schedule": schedule}
        chosen = {k: v for k, v in SETTINGS.items() if k != "schedule"}
        history = train("MLP", rows, {**chosen, **more, "epochs": 2}, 0)[1].history
        assert history["learning_rate"].iloc[-1] == pytest.approx(last)


@pytest.mark.parametrize(
    ("method", "setting", "shape"),
    [
        ("GCM", {}, (2,)),
        ("GCM", {"form": "plain"}, (2,)),
        ("GCM", {"form": "alternatives"}, (3, 3)),
        ("GCM", {"form": "splines"}, (3, 3)),
        ("IGCM", {}, (2,)),
        ("IGCM", {"alternatives": 6}, (6, 3)),
        ("GCM, 3 alternatives", METHODS["GCM, 3 alternatives"].fixed, (3, 3)),
        ("IGCM, 3 alternatives", METHODS["IGCM, 3 alternatives"].fixed, (3, 3)),
    ],
)
def test_plain_forms_have_the_papers_costs_and_alternatives_three_each(method, setting, shape):
    model = METHODS[method].make(2, 2, response="binary", hidden=8, seed=0, **setting)
    assert model.cost_shape == shape


@pytest.mark.parametrize("method", ["MLP", "GCM"])
def test_a_diverged_fit_is_told_from_other_errors(method, monkeypatch):
    rows = toy("continuous")
    more = {**settings(method, epochs=3, learning_rate=1e30), "optimizer": "sgd"}
    with pytest.raises(Diverged, match="the loss is"):
        train(method, rows, more, 0)

    def fails(*rows, **options):
        raise RuntimeError("no gradient reached ['a'] in the first step")

    for module in (baselines, pyro_gcm):
        monkeypatch.setattr(module, "fit", fails)
    with pytest.raises(RuntimeError, match="no gradient") as raised:
        train(method, rows, more, 0)
    assert not isinstance(raised.value, Diverged)


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
    assert {METHODS[name].members for name in methods_of("open")} == {1, 5}
    assert methods_of("ablation") == ["GCM", "IGCM"]
    assert methods_of("timing") == ["MM", "CMNN", "PWL", "GCM"]
    assert {method.paper for method in METHODS.values()} - {None} == paper
    assert all(METHODS[name].paper == name for name in paper)
    assert all(METHODS[name].grid == GRID for name in published)
    assert [name for name, task in tasks.TASKS.items() if task.stand_in] == ["loan_psds"]
    assert "stand-in" in tasks.TASKS["loan_psds"].title
    assert tasks.TASKS["loan_psds"].paper == "Loan Defaulter"
