"""The public data sets: what is trained on, what is scored, and with which settings."""

import argparse
import json
import math
import os

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from pyro_gcm import audit_monotonicity, data
from reproduce import public, runs, tasks
from reproduce.methods import METHODS, Rows, train
from reproduce.public import HELD_OUT, PUBLISHED, held_out_settings, published_settings
from reproduce.runs import Fit, as_json
from reproduce.tuning import VALIDATION_LOSS

ROWS = 120
SMALL = {
    "epochs": 2, "batch_size": 16, "optimizer": "adam", "learning_rate": 0.02, "hidden": 4,
    "validation": 0.1,
}  # fmt: skip
#: Every step multiplies the weights by 1e19.
DIVERGING = {"optimizer": "sgd", "learning_rate": 0.1, "weight_decay": 1e20}


def dataset(response="binary", fixed=True, rows=ROWS):
    """A table whose first column of x is the row number."""
    g = torch.Generator().manual_seed(0)
    x = torch.stack([torch.arange(rows), torch.randn(rows, generator=g)], 1).double()
    r = torch.rand(rows, 2, generator=g).double()
    y = x[:, 1] + 2.0 * r.sum(1) + torch.randn(rows, generator=g)
    return data.Dataset(
        name="toy",
        variant="published",
        x=x,
        r=r,
        y=(y > 2.0).double() if response == "binary" else y,
        x_names=("a", "b"),
        r_names=("c", "d"),
        response=response,
        metric="accuracy" if response == "binary" else "rmse",
        fixed=(torch.arange(rows - 30), torch.arange(rows - 30, rows)) if fixed else None,
    )


@pytest.fixture
def toy(monkeypatch):
    """Every data set is a small one; the rows that `train` was given, by their numbers."""
    given = []

    def recorded(method, rows, *arguments, **options):
        given.append((method, rows.x[:, 0].long().tolist()))
        return train(method, rows, *arguments, **options)

    loaded = {kind: dataset(kind) for kind in ("binary", "continuous")}
    kinds = {"blog": "continuous", "auto_mpg": "continuous"}
    monkeypatch.setattr(public, "load", lambda name, variant: loaded[kinds.get(name, "binary")])
    monkeypatch.setattr(public, "train", recorded)
    monkeypatch.setattr(public, "AUDITED_PAIRS", 50)
    return given


def fit(protocol, method="MLP", name="compas", split="0", seed=0, **more):
    settings = {} if METHODS[method].boosting else {**SMALL, **more}
    return Fit("public", name, "published", protocol, split, seed, method, as_json(settings))


def options(tmp_path, *more):
    parser = argparse.ArgumentParser()
    public.add_arguments(parser)
    return parser.parse_args(["--jobs", "1", "--output", str(tmp_path), *more])


@pytest.mark.parametrize("method", ["MLP", "GCM", "HistGradientBoosting"])
def test_held_out_trains_on_the_training_rows_of_its_split_only(toy, method):
    more = {"num_particles": 2} if method == "GCM" else {}
    for split in ("0", "3"):
        toy.clear()
        scores = public.run(fit("held-out", method, split=split, **more))
        learn, test = dataset().split(int(split))
        assert toy == [(method, learn.tolist())]
        assert not set(toy[0][1]) & set(test.tolist())
        assert {"AUC", "accuracy", "log score", "calibration error", "violation rate"} <= {*scores}


@pytest.mark.parametrize("method", ["MLP", "GCM", "IGCM", "HistGradientBoosting"])
def test_every_method_is_audited_in_float64(toy, method, monkeypatch):
    audited = []

    def audit(model, x, r, **options):
        audited.append(model.predict(x, r).dtype)
        return audit_monotonicity(model, x, r, **options)

    monkeypatch.setattr(public, "audit_monotonicity", audit)
    more = {"num_particles": 2} if "GCM" in method else {}
    public.run(fit("held-out", method, **more))
    assert audited == [torch.float64]


def test_the_violation_rate_is_that_of_random_pairs(toy, monkeypatch):
    class Falls:
        def predict(self, x, r):
            return 1.0 - 0.1 * r.sum(1)

    monkeypatch.setattr(public, "train", lambda *arguments, **options: (Falls(), None))
    monkeypatch.setattr(public, "AUDITED_PAIRS", 2000)
    rate = public.run(fit("held-out", "MM"))["violation rate"]
    assert 0.6 < rate < 1.0  # the closest pairs fall by less than rounding


def test_quick_fits_see_few_rows(toy):
    public.run(fit("held-out", rows=30))
    learn, _ = dataset().split(0)
    assert toy == [("MLP", learn[:30].tolist())]


def test_only_the_held_out_fits_are_audited(toy):
    found, again = (public.run(fit(name, "MLP")) for name in ("held-out", "confirmation"))
    assert found.keys() - again.keys() == {"violation rate"}
    assert found["AUC"] == again["AUC"]


def test_all_methods_get_the_same_rows_for_the_same_split(toy):
    for method in ("MLP", "PWL", "MM", "HistGradientBoosting"):
        public.run(fit("held-out", method, split="7"))
    assert len({tuple(rows) for _, rows in toy}) == 1


def test_tuning_trains_and_scores_inside_the_training_part(toy, monkeypatch):
    scored, predict = [], public._predict

    def recorded(table, model, test, device):
        scored.extend(test.tolist())
        return predict(table, model, test, device)

    monkeypatch.setattr(public, "_predict", recorded)
    learn, test = dataset().split(0)
    assert {*public.run(fit("tuning"))} == {VALIDATION_LOSS, "seconds", "epochs"}
    ((_, rows),) = toy
    assert rows + scored == learn.tolist()
    assert len(rows) == len(learn) * 4 // 5
    assert not {*rows, *scored} & set(test.tolist())


def test_the_search_is_on_a_bounded_number_of_rows(toy, monkeypatch):
    monkeypatch.setattr(public, "SEARCH_ROWS", 50)
    public.run(fit("tuning"))
    assert toy[0][1] == dataset().split(0)[0].tolist()[:40]


@pytest.mark.parametrize(("name", "response"), [("compas", "binary"), ("blog", "continuous")])
def test_the_validation_loss_is_that_of_the_unseen_rows(toy, name, response):
    score = public.run(fit("tuning", name=name))[VALIDATION_LOSS]
    table = dataset(response)
    learn = table.split(0)[0]
    size = len(learn) * 4 // 5
    seen, unseen = learn[:size], learn[size:]
    rows = Rows(table.x[seen], table.r[seen], table.y[seen], response)
    model, _ = train("MLP", rows, dict(SMALL), 0)
    prediction, y = model.predict(table.x[unseen], table.r[unseen]).double(), table.y[unseen]
    if response == "binary":
        expected = -(y * prediction.log() + (1 - y) * (1 - prediction).log()).mean()
        assert float(expected) == pytest.approx(log_loss(y.numpy(), prediction.numpy()))
    else:
        expected = (prediction - y).square().mean()
    assert score == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize(("name", "response"), [("compas", "binary"), ("blog", "continuous")])
def test_the_best_epoch_is_that_of_a_loop_by_hand(toy, name, response):
    more = {"epochs": 4, "learning_rate": 0.1}
    settings = {k: v for k, v in {**SMALL, **more}.items() if k != "validation"}
    asked = Fit("public", name, "published", "published", "fixed", 0, "MLP", as_json(settings))
    scores = public.run(asked)
    table = dataset(response)
    learn, test = table.fixed_split()
    assert toy == [("MLP", learn.tolist())]
    metric = tasks.TASKS[name].metric
    curve = []

    def at(step, model):
        if step in (6, 12, 18, 24):  # 90 rows in batches of 16
            p, y = model.predict(table.x[test], table.r[test]).double(), table.y[test]
            if response == "binary":
                curve.append(accuracy_score(y, p > 0.5))
            else:
                curve.append(float((p - y).square().mean().sqrt()))

    rows = Rows(table.x[learn], table.r[learn], table.y[learn], response)
    train("MLP", rows, settings, 0, watch=at)
    assert len(set(curve)) > 1
    best = max(curve) if response == "binary" else min(curve)
    assert scores[metric] == pytest.approx(best)
    assert scores[f"{metric}, last epoch"] == pytest.approx(curve[-1])
    assert scores["epochs"] == curve.index(best) + 1


def test_the_metric_of_adult_is_the_area_under_the_curve(toy):
    asked = fit("held-out", name="adult")
    scores = public.run(asked)
    table = dataset()
    learn, test = table.split(0)
    rows = Rows(table.x[learn], table.r[learn], table.y[learn], "binary")
    prediction = train("MLP", rows, dict(SMALL), 0)[0].predict(table.x[test], table.r[test])
    assert scores["AUC"] == pytest.approx(roc_auc_score(table.y[test], prediction))
    assert public.TASKS["adult"].metric == "AUC"


@pytest.mark.parametrize("method", ["MLP", "GCM"])
@pytest.mark.parametrize("protocol", ["held-out", "tuning"])
@pytest.mark.filterwarnings("ignore:Encountered NaN")
def test_a_diverged_fit_is_nan(toy, protocol, method):
    more = {**DIVERGING, "validation": 0.0}
    scores = public.run(fit(protocol, method, name="blog", **more))
    metric = VALIDATION_LOSS if protocol == "tuning" else "RMSE"
    assert math.isnan(scores[metric])
    assert set(scores) == {metric, "seconds", "epochs"}


@pytest.mark.parametrize("name", ["blog", "compas"])
@pytest.mark.parametrize("method", ["MLP", "GCM"])
@pytest.mark.filterwarnings("ignore:Encountered NaN")
def test_a_diverged_fit_of_the_published_protocol_is_nan(toy, method, name):
    more = {**DIVERGING, "validation": 0.0}
    scores = public.run(fit("published", method, name=name, split="fixed", **more))
    assert math.isnan(scores[tasks.TASKS[name].metric])


def test_other_errors_are_not_taken_for_divergence(toy, monkeypatch):
    def fails(*arguments, **options):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(public, "train", fails)
    with pytest.raises(RuntimeError, match="out of memory"):
        public.run(fit("held-out"))


def test_published_fits_use_the_fixed_split_where_there_is_one(tmp_path, monkeypatch):
    tables = {"compas": dataset(), "adult": dataset(fixed=False)}
    monkeypatch.setattr(public, "load", lambda name, variant: tables[name])
    fits = public.published_fits(
        options(tmp_path, "--protocol", "published", "--datasets", "compas", "adult",
                "--methods", "MLP", "GCM", "--seeds", "3")
    )  # fmt: skip
    assert {(f.dataset, f.split) for f in fits} == {("compas", "fixed"), ("adult", "0")}
    assert {f.variant for f in fits} == {"published"}
    assert [f.seed for f in fits if f.dataset == "adult" and f.method == "GCM"] == [0, 1, 2]
    assert len(fits) == len(set(fits)) == 2 * 2 * 3


def test_held_out_fits_are_at_the_best_of_the_six_trials(tmp_path, monkeypatch):
    candidates = held_out_settings("compas", "MM", quick=False)
    assert len(candidates) == len(set(candidates)) >= 5
    ran = []

    def trial(path, fits, run, arguments):
        ran.extend(fits)
        losses = {"metric": VALIDATION_LOSS}
        rows = [{**vars(f), **losses, "value": abs(n - 3)} for n, f in enumerate(fits)]
        return pd.DataFrame(rows)

    monkeypatch.setattr(public, "run_fits", trial)
    monkeypatch.setattr(public, "RESULTS", tmp_path)
    few = ["--datasets", "compas", "--methods", "MM", "--seeds", "4"]
    fits = public.held_out_fits(options(tmp_path, *few, "--tune"))
    assert [f.settings for f in ran] == candidates
    assert {(f.protocol, f.split, f.seed) for f in ran} == {("tuning", "0", 0)}
    assert {f.settings for f in fits} == {candidates[3]}
    assert [(f.split, f.seed) for f in fits] == [("0", 0), ("1", 1), ("2", 2), ("3", 3)]
    fresh = public.held_out_fits(options(tmp_path, *few, "--tune", "--protocol", "confirmation"))
    assert {(f.protocol, f.settings) for f in fresh} == {("confirmation", candidates[3])}
    assert [(f.split, f.seed) for f in fresh] == [(str(n), n) for n in (10, 11, 12, 13)]
    with pytest.raises(ValueError, match="run with --tune"):
        public.held_out_fits(options(tmp_path, *few))


@pytest.mark.parametrize("name", list(tasks.TASKS))
def test_settings_of_table_5_are_those_of_the_paper(name):
    # Typed from the paper: hidden, N, D, epochs, optimiser, batch, learning rate.
    row = {
        "adult": (16, 32, 4, 40, "adam", 256, 0.001),
        "compas": (6, 32, 6, 200, "adam", 64, 0.01),
        "diabetes": (16, 32, 4, 20, "sgd", 256, 0.3),
        "blog": (16, 32, 4, 40, "adam", 256, 0.001),
        "loan_psds": (16, 32, 4, 20, "adam", 512, 0.003),
        "auto_mpg": (6, 32, 3, 120, "adam", 16, 0.01),
    }[name]
    names = "hidden", "num_particles", "z_dim", "epochs", "optimizer", "batch_size", "learning_rate"
    paper = dict(zip(names, row, strict=True))
    for method in ("GCM", "IGCM"):
        ours = json.loads(published_settings(name, method, False))
        squares = {"noise": "constant", "elbo": "elbo"} if name in ("blog", "auto_mpg") else {}
        assert ours == {**paper, "num_samples": 32, **squares}
    ours = json.loads(published_settings("blog", "IGCM (paper loss)", False))
    assert "elbo" not in ours  # a loss of its own
    del paper["num_particles"], paper["z_dim"]
    assert json.loads(published_settings(name, "MM", False)) == paper


def test_the_only_stand_in_says_so():
    assert [name for name, task in tasks.TASKS.items() if task.stand_in] == ["loan_psds"]
    assert "stand-in" in tasks.TASKS["loan_psds"].title


def test_both_protocols_have_the_methods_of_the_paper():
    paper = {"PosNN", "MM", "SMM", "CMNN", "SMNN", "Hint", "PWL", "GCM", "IGCM"}
    assert paper <= set(HELD_OUT)
    assert paper <= set(PUBLISHED)
    assert "HistGradientBoosting" in HELD_OUT
    assert not any(METHODS[name].boosting for name in PUBLISHED)
    assert {"GCM (literal)", "IGCM (paper loss)"} <= set(PUBLISHED) - set(HELD_OUT)


def test_the_commands_run_from_the_search_to_the_table(toy, tmp_path, capsys):
    few = ["--datasets", "compas", "auto_mpg", "--methods", "MM", "GCM", "--quick"]
    for protocol in ("held-out", "confirmation", "published"):
        public.main(options(tmp_path, "--protocol", protocol, *few))
        table = runs.read_results(tmp_path / f"public_{protocol}.csv")
        assert set(table["dataset"]) == {"compas", "auto_mpg"}
        assert set(table["method"]) == {"MM", "GCM"}
        assert np.isfinite(table["value"]).all()
        assert f"Means, protocol {protocol}" in capsys.readouterr().out
    assert len(runs.read_results(tmp_path / "public_tuning.csv")) == 4


@pytest.mark.skipif(not os.environ.get("PYRO_GCM_DATA"), reason="PYRO_GCM_DATA is not set")
def test_a_real_data_set_is_scored():
    asked = Fit("public", "auto_mpg", "published", "published", "fixed", 0, "MM",
                published_settings("auto_mpg", "MM", quick=True))  # fmt: skip
    scores = public.run(asked)
    assert 1.0 < scores["RMSE"] < 40.0
