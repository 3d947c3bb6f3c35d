"""Sizes of the data sets, checks, the ablation, prediction times and the open track."""

import argparse
import dataclasses
import json
import math
import os
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_gcm import data
from reproduce import ablation, checks, datasets, open_track, public, runs, tasks, timing
from reproduce.arguments import Refused
from reproduce.runs import Fit, as_json
from reproduce.scores import pit_calibration_error

REAL = pytest.mark.skipif(not os.environ.get("PYRO_GCM_DATA"), reason="PYRO_GCM_DATA is not set")


def toy(name="toy", variant="default", response="continuous", x_dim=9, r_dim=4, rows=100):
    g = torch.Generator().manual_seed(0)
    x, r = (torch.randn(rows, size, generator=g).double() for size in (x_dim, r_dim))
    y = x[:, 0] + r.sum(1) + torch.randn(rows, generator=g)
    return data.Dataset(
        name=name,
        variant=variant,
        x=x,
        r=r,
        y=(y > 0).double() if response == "binary" else y,
        x_names=tuple(f"x{i}" for i in range(x_dim)),
        r_names=tuple(f"r{i}" for i in range(r_dim)),
        response=response,
        metric="accuracy" if response == "binary" else "rmse",
    )


def options(module, tmp_path, *more):
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args(["--output", str(tmp_path), *more])


# The sizes of the data sets.


@REAL
@pytest.mark.parametrize("name", ["compas", "auto_mpg"])
def test_the_published_rows_are_exactly_those_of_the_paper(name, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(datasets, "TASKS", {name: tasks.TASKS[name]})
    datasets.main(options(datasets, tmp_path))
    table = pd.read_csv(tmp_path / "datasets.csv").set_index("variant")
    row = {
        "compas": (6172, 9, 4, "classification"),
        "auto_mpg": (392, 4, 3, "regression"),
    }[name]
    columns = ["examples", "x_dim", "r_dim", "target"]
    assert tuple(table.loc["published", columns]) == row
    assert tuple(table.loc["published", [f"paper {column}" for column in columns]]) == row
    assert table.loc["published", "equal"]
    assert pd.isna(table.loc["default", "paper examples"])
    assert tasks.TASKS[name].title in capsys.readouterr().out


def test_every_data_set_is_compared_but_the_stand_in(monkeypatch):
    def load(name, variant):
        # One row fewer than the paper for COMPAS, its sizes for Auto MPG.
        if name == "auto_mpg":
            return toy(name, variant, x_dim=4, r_dim=3, rows=392)
        return toy(name, variant, "binary", rows=6171 if name == "compas" else 50)

    monkeypatch.setattr(datasets, "load", load)
    table = datasets.table().set_index(["dataset", "variant"])
    assert len(table) == 2 * len(tasks.TASKS)
    published = table.xs("published", level="variant")["equal"]
    assert published["Auto MPG"] is True
    assert published["COMPAS"] is False
    assert pd.isna(table.loc[("Loan (stand-in)", "published"), "paper examples"])
    assert table.loc[("Adult", "published"), "paper examples"] == 48_842
    assert table.xs("default", level="variant")["equal"].isna().all()


# Linear models and boosting on the published splits.


def check(method, dataset="blog"):
    return checks.run(Fit("checks", dataset, "published", "published", "0", 0, method, "{}"))


@pytest.mark.parametrize("method", ["Linear", "Linear, revenues alone"])
def test_a_linear_check_is_least_squares(method, monkeypatch):
    table = toy()
    monkeypatch.setattr(checks, "load", lambda name, variant: table)
    learn, test = table.split(0)
    inputs = table.r if "alone" in method else torch.cat([table.x, table.r], 1)
    design = torch.cat([inputs, torch.ones(len(inputs), 1)], 1).double().numpy()
    weights, *_ = np.linalg.lstsq(design[learn], table.y[learn].numpy(), rcond=None)
    errors = table.y[test].numpy() - design[test] @ weights
    assert check(method)["RMSE"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)


@pytest.mark.parametrize("method", ["Linear", "Boosting"])
@pytest.mark.parametrize("response", ["binary", "continuous"])
def test_a_check_of_the_revenues_alone_does_not_see_x(method, response, monkeypatch):
    table = toy(response=response, rows=1000)
    other = dataclasses.replace(table, x=table.x.flip(0))
    metric = "AUC" if response == "binary" else "RMSE"
    found = {}
    for name, each in (("table", table), ("other", other)):
        monkeypatch.setattr(checks, "load", lambda name, variant, each=each: each)
        for seen in (method, f"{method}, revenues alone"):
            found[name, seen] = check(seen)[metric]
    alone = f"{method}, revenues alone"
    assert found["table", alone] == found["other", alone]
    assert found["table", method] != found["other", method]
    # x matters here.
    gain = found["table", method] - found["table", alone]
    assert (gain if response == "binary" else -gain) > 0.01


def test_the_checks_resume(monkeypatch, tmp_path, capsys):
    for module in (public, checks):
        monkeypatch.setattr(module, "load", lambda name, variant: toy(name, variant, rows=250))
    arguments = options(checks, tmp_path, "--jobs", "1", "--seeds", "2", "--datasets", "blog")
    checks.main(arguments)
    first = (tmp_path / "checks.csv").read_bytes()
    checks.main(arguments)
    assert (tmp_path / "checks.csv").read_bytes() == first
    assert "checks.csv: 6 of 6 fits are there already" in capsys.readouterr().out


# The ablation.


def test_the_ablation_has_every_size_of_the_paper_for_each_method_and_label():
    cells = ablation.fits(3, ["published", "default"], quick=False)
    assert len(cells) == len(set(cells)) == 16 * 2 * 2 * 3
    counts = Counter((cell.method, cell.variant, cell.seed) for cell in cells)
    assert set(counts.values()) == {16}
    paper = pd.read_csv(tasks.PAPER / "ablation_adult.csv")
    asked = [json.loads(cell.settings) for cell in cells if cell.method == "GCM"]
    assert {(each["z_dim"], each["num_particles"]) for each in asked} == {
        *zip(paper["latent_dim"].tolist(), paper["sample_number"].tolist(), strict=True)
    }
    assert all(each["num_samples"] == each["num_particles"] for each in asked)
    # What is not varied is that of Table 5.
    assert {(each["hidden"], each["epochs"], each["batch_size"]) for each in asked} == {
        (16, 40, 256)
    }
    assert {(cell.dataset, cell.protocol) for cell in cells} == {("adult", "published")}


def test_the_sizes_of_the_ablation_reach_the_model(monkeypatch, tmp_path, capsys):
    seen = []

    def train(method, rows, settings, *arguments, **named):
        made = original(method, rows, settings, *arguments, **named)
        seen.append((method, made[0].z_dim, settings["num_particles"]))
        return made

    original = public.train
    monkeypatch.setattr(public, "train", train)
    monkeypatch.setattr(public, "load", lambda name, variant: toy(name, variant, "binary"))
    ablation.main(options(ablation, tmp_path, "--jobs", "1", "--quick", "--variants", "default"))
    sizes = [(4, 8), (8, 16), (12, 24), (16, 32)]
    assert sorted(seen) == sorted((m, d, n) for m in ablation.METHODS for d, n in sizes)
    printed = capsys.readouterr().out
    assert "AUC of GCM, label default" in printed
    assert "AUC of IGCM, label default" in printed


# Prediction times.


def test_every_way_of_predicting_gives_the_same_numbers(monkeypatch):
    monkeypatch.setattr(timing, "load", lambda name, variant: toy(name, variant, "binary"))
    table = toy()
    x, revenues = table.x[:64].float(), table.r[:7].float()
    with torch.no_grad():
        found = {side: call(revenues) for side, call in timing.calls("cpu", x).items()}
    ways = {method: {way for m, way in found if m == method} for method in timing.TIMED}
    for method in timing.TIMED:
        expected = found[method, "one by one"]
        assert expected.shape == (64, 7)
        assert expected.std() > 1e-4
        for way in ways[method]:
            torch.testing.assert_close(found[method, way], expected, atol=1e-5, rtol=0.0)
    assert ways.pop("GCM") == {"one by one", "cached"}
    assert all(way == {"one by one", "at once", "cached"} for way in ways.values())


def test_the_timing_table_has_every_side_and_size(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(timing, "load", lambda name, variant: toy(name, variant, "binary"))
    timing.main(options(timing, tmp_path, "--quick", "--devices", "cpu"))
    path = tmp_path / "timing.csv"
    table = runs.read_results(path)
    wide = timing.by_revenues(table)
    assert wide.shape == (3 * 3 + 2, 2)
    assert wide.columns.tolist() == [1, 64]
    assert (table["value"] > 0).all()
    assert "Ratio to GCM" in capsys.readouterr().out
    more = table.assign(settings=table["settings"].str.replace('"revenues":64', '"revenues":128'))
    more.to_csv(path, index=False)
    with pytest.raises(Refused, match="has more than --quick measures: pass another folder"):
        timing.main(options(timing, tmp_path, "--quick", "--devices", "cpu"))
    assert len(runs.read_results(path)) == len(more)


# The open track.


class Member:
    """A predictor whose density is normal around a constant."""

    def __init__(self, mean, spread):
        self.density = torch.distributions.Normal(mean, spread)

    def predict(self, x, r):
        return self.density.mean.expand(len(x))

    def log_prob(self, x, r, y):
        return self.density.log_prob(y)

    def cdf(self, x, r, y):
        return self.density.cdf(y)


@pytest.fixture
def members(monkeypatch):
    """Five members that differ, and the seeds that they were made from."""
    seeds = []

    def train(method, rows, settings, seed, **options):
        seeds.append(seed)
        place = float(len(seeds))
        history = argparse.Namespace(best_epoch=2)
        return Member(torch.tensor(place / 10), torch.tensor(0.5 + place / 5)), history

    monkeypatch.setattr(open_track, "train", train)
    return seeds


def open_fit(method="GCM ensemble", dataset="blog", seed=2, split="1", **settings):
    return Fit("open", dataset, "default", "held-out", split, seed, method, as_json(settings))


def test_an_ensemble_predicts_the_mean_and_scores_the_mixture(members, monkeypatch):
    table = toy()
    monkeypatch.setattr(open_track, "load", lambda name, variant: table)
    scores = open_track.run(open_fit())
    assert members == [200, 201, 202, 203, 204]
    assert scores["epochs"] == 10
    y = table.y[table.split(1)[1]]
    means, spreads = torch.arange(1, 6) / 10, 0.5 + torch.arange(1, 6) / 5
    assert scores["RMSE"] == pytest.approx(float((y - means.mean()).square().mean().sqrt()))
    z = (y[:, None] - means) / spreads
    density = (-0.5 * z.square()).exp() / (spreads * math.sqrt(2.0 * math.pi))
    assert scores["log score"] == pytest.approx(float(density.mean(1).log().mean()), rel=1e-5)
    pit = 0.5 * (1.0 + torch.erf(z / math.sqrt(2.0))).mean(1)
    wanted = pit_calibration_error(pit.double().numpy())
    assert scores["calibration error"] == pytest.approx(wanted, abs=1e-6)


def test_a_binary_ensemble_predicts_the_mean_probability(members, monkeypatch):
    table = toy(response="binary")
    monkeypatch.setattr(open_track, "load", lambda name, variant: table)
    scores = open_track.run(open_fit(dataset="compas"))
    y = table.y[table.split(1)[1]]
    p = torch.tensor(0.3)  # the mean of 0.1, ..., 0.5
    expected = float((y * p.log() + (1 - y) * (1 - p).log()).mean())
    assert scores["log score"] == pytest.approx(expected, rel=1e-5)


def test_a_booster_is_one_with_a_normal_error_of_rows_it_did_not_see(monkeypatch):
    table, given = toy(), []

    def train(method, rows, settings, seed, **options):
        given.append(len(rows.y))
        return Member(torch.tensor(0.0), torch.tensor(1.0)), None

    monkeypatch.setattr(open_track, "load", lambda name, variant: table)
    monkeypatch.setattr(open_track, "train", train)
    scores = open_track.run(open_fit("HistGradientBoosting"))
    learn, test = table.split(1)
    assert given == [80, 64]
    spread = table.y[learn[64:]].square().mean().sqrt()
    expected = torch.distributions.Normal(0.0, spread).log_prob(table.y[test]).mean()
    assert scores["log score"] == pytest.approx(float(expected), rel=1e-5)


def test_an_ensemble_that_diverged_is_nan(monkeypatch):
    monkeypatch.setattr(open_track, "load", lambda name, variant: toy())
    settings = {"epochs": 1, "batch_size": 20, "optimizer": "sgd"}
    settings |= {"learning_rate": 0.1, "weight_decay": 1e20, "hidden": 8}
    scores = open_track.run(open_fit(**settings, num_particles=2))
    assert math.isnan(scores["RMSE"])


def test_the_search_of_the_open_track_is_over_wider_members():
    found = [
        json.loads(settings) for settings in open_track.candidates("blog", "GCM ensemble", False)
    ]
    assert len(found) == 6
    assert [each["hidden"] for each in found] == [64, 32, 32, 128, 128, 64]
    forms = [("splines", None), ("alternatives", None), ("splines", "signed log")]
    assert [(each["form"], each.get("covariates")) for each in found] == [*forms, *forms]
    assert {each["num_particles"] for each in found} == {16}
    boosting = [json.loads(s) for s in open_track.candidates("blog", "LightGBM", False)]
    assert boosting[0] == {
        "learning_rate": 0.1, "num_leaves": 31, "reg_lambda": 0.0, "min_child_samples": 20
    }  # fmt: skip


@pytest.mark.parametrize("module", [public, open_track])
def test_a_method_may_see_the_logarithms_of_the_covariates(module, monkeypatch):
    table, given = toy(), []
    monkeypatch.setattr(module, "load", lambda name, variant: table)

    def train(method, rows, *arguments, **options):
        given.append(rows.x)
        raise RuntimeError("the loss is not finite")  # there is nothing more to see

    monkeypatch.setattr(module, "train", train)
    method = "GCM ensemble" if module is open_track else "GCM"
    for form in ("raw", "signed log"):
        module.run(open_fit(method, covariates=form))
    raw, logs = given
    assert (raw < 0.0).any()
    torch.testing.assert_close(logs.sign() * (logs.abs().exp() - 1.0), raw)
    with pytest.raises(ValueError, match=r"covariates must be 'raw' or 'signed log', got 'log'"):
        module.run(open_fit(method, covariates="log"))


def test_the_open_track_runs_from_the_search_to_the_table(monkeypatch, tmp_path, capsys):
    for module in (public, open_track):
        monkeypatch.setattr(module, "load", lambda name, variant: toy())
    methods = ["--methods", "GCM ensemble", "HistGradientBoosting"]
    open_track.main(
        options(open_track, tmp_path, "--jobs", "1", "--quick", "--datasets", "blog", *methods)
    )
    tuned, table = (runs.read_results(tmp_path / f"{name}.csv") for name in ("open_tuning", "open"))
    assert set(tuned["method"]) == set(table["method"]) == {"GCM ensemble", "HistGradientBoosting"}
    assert set(table["metric"]) == {"RMSE", "log score", "calibration error"}
    assert table["value"].notna().all()
    assert "Blog Feedback, means" in capsys.readouterr().out
