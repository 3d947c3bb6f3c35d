"""Sizes of the data sets and the open track."""

import argparse
import math

import pandas as pd
import pytest
import torch
from toys import REAL, load_as, options, toy

from reproduce import tasks
from reproduce.data import datasets
from reproduce.runs import Fit, as_json
from reproduce.scores import pit_calibration_error
from reproduce.searching import open_track

# The sizes of the data sets.


@REAL
@pytest.mark.parametrize("name", ["compas", "auto_mpg"])
def test_the_published_rows_are_exactly_those_of_the_paper(name, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(datasets, "TASKS", {name: tasks.TASKS[name]})
    datasets.main(options(datasets, tmp_path))
    table = pd.read_csv(tmp_path / "datasets.csv").set_index("variant")
    sizes = {"compas": (6172, 9, 4, "classification"), "auto_mpg": (392, 4, 3, "regression")}
    columns = ["paper examples", "paper x_dim", "paper r_dim", "paper target"]
    assert tuple(table.loc["published", columns]) == sizes[name]
    assert table.loc["published", "equal"]
    assert pd.isna(table.loc["default", "paper examples"])
    assert tasks.TASKS[name].title in capsys.readouterr().out


def test_every_data_set_is_compared_but_the_stand_in(monkeypatch):
    def made(name, variant):
        # One row fewer than the paper for COMPAS, its sizes for Auto MPG.
        if name == "auto_mpg":
            return toy(name, variant, x_dim=4, r_dim=3, rows=392)
        return toy(name, variant, "binary", rows=6171 if name == "compas" else 50)

    load_as(monkeypatch, made)
    found = datasets.table()
    lines = datasets.report(found).splitlines()
    assert len(lines) == 2 + 2 * len(tasks.TASKS)
    assert lines[3].startswith("| Adult | published | 50 | 9 | 4 | classification |")
    found = found.set_index(["dataset", "variant"])
    published = found.xs("published", level="variant")["equal"]
    assert published["Auto MPG"] is True
    assert published["COMPAS"] is False
    assert pd.isna(found.loc[("Loan (stand-in)", "published"), "paper examples"])
    assert found.loc[("Adult", "published"), "paper examples"] == 48_842
    assert found.xs("default", level="variant")["equal"].isna().all()


# The open track.


class Member:
    """A predictor whose density is normal around a constant."""

    def __init__(self, mean, spread):
        self.density = torch.distributions.Normal(mean, spread)

    def predict(self, x, r):
        return self.density.mean.expand(len(x))

    def log_prob(self, x, r, y):
        return self.density.log_prob(y)

    def predictive(self, x, r):
        return self.density


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
    load_as(monkeypatch, lambda name, variant: table)
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
    members.clear()
    binary = toy(response="binary")
    load_as(monkeypatch, lambda name, variant: binary)
    scores = open_track.run(open_fit(dataset="compas"))
    y, p = binary.y[binary.split(1)[1]], means.mean()
    expected = float((y * p.log() + (1 - y) * (1 - p).log()).mean())
    assert scores["log score"] == pytest.approx(expected, rel=1e-5)


def test_a_booster_is_one_with_a_normal_error_of_rows_it_did_not_see(monkeypatch):
    table, given = toy(), []

    def train(method, rows, settings, seed, **options):
        given.append(len(rows.y))
        return Member(torch.tensor(0.0), torch.tensor(1.0)), None

    load_as(monkeypatch, lambda name, variant: table)
    monkeypatch.setattr(open_track, "train", train)
    scores = open_track.run(open_fit("HistGradientBoosting"))
    learn, test = table.split(1)
    assert given == [80, 64]
    spread = table.y[learn[64:]].square().mean().sqrt()
    expected = torch.distributions.Normal(0.0, spread).log_prob(table.y[test]).mean()
    assert scores["log score"] == pytest.approx(float(expected), rel=1e-5)


def test_a_method_may_see_the_logarithms_of_the_covariates(monkeypatch):
    load_as(monkeypatch, lambda name, variant: toy())
    raw, logs = (
        tasks.rows_of_fit(open_fit(covariates=form))[0].x for form in ("raw", "signed log")
    )
    assert (raw < 0.0).any()
    torch.testing.assert_close(logs.sign() * (logs.abs().exp() - 1.0), raw)
    with pytest.raises(ValueError, match=r"covariates must be 'raw' or 'signed log', got 'log'"):
        tasks.rows_of_fit(open_fit(covariates="log"))
