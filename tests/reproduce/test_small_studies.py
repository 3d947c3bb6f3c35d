"""Sizes of the data sets, checks, the ablation, prediction times and the open track."""

import argparse
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from toys import REAL, load_as, options, table, toy

from reproduce import ablation, checks, published, released, runs, tasks, timing
from reproduce.arguments import Refused
from reproduce.data import datasets
from reproduce.methods import methods_of
from reproduce.released_costs import DRAWS
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


# Linear models and boosting on the published rows.


def check(method, dataset="auto_mpg"):
    return checks.run(Fit("checks", dataset, "published", "published", "fixed", 0, method, "{}"))


@pytest.mark.parametrize("method", ["Linear", "Linear, revenues alone"])
def test_a_linear_check_is_least_squares(method, monkeypatch):
    table = toy()
    load_as(monkeypatch, lambda name, variant: table)
    order = np.random.RandomState(0).permutation(100)
    learn, test = order[:80], order[80:]
    inputs = table.r if "alone" in method else torch.cat([table.x, table.r], 1)
    inputs = inputs.float()  # as rows are read
    design = torch.cat([inputs, torch.ones(len(inputs), 1)], 1).double().numpy()
    y = table.y.double().numpy()
    weights, *_ = np.linalg.lstsq(design[learn], y[learn], rcond=None)
    errors = y[test] - design[test] @ weights
    assert check(method)["RMSE"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-6)


# The ablation.


PUBLISHED = ablation.fits(3, ["published", "default"], quick=False)
RELEASED = ablation.released_fits(10, quick=False)


@pytest.mark.parametrize(
    ("cells", "seeds", "draws"), [(PUBLISHED, 3, "num_particles"), (RELEASED, 10, "draws")]
)
def test_the_ablation_has_every_size_of_the_paper_for_each_method_and_label(cells, seeds, draws):
    assert len(cells) == len(set(cells))
    asked = pd.DataFrame([{**vars(cell), **cell.options} for cell in cells])
    counts = asked.groupby(["method", "variant", "z_dim", draws])["seed"].agg(list)
    assert set(map(tuple, counts)) == {tuple(range(seeds))}
    paper = pd.read_csv(tasks.PAPER / "ablation_adult.csv")
    sizes = {*zip(paper["latent_dim"].tolist(), paper["sample_number"].tolist(), strict=True)}
    for _, rows in asked.groupby(["method", "variant"]):
        assert {*zip(rows["z_dim"].tolist(), rows[draws].tolist(), strict=True)} == sizes
    found = ablation.with_sizes(asked.assign(metric="AUC"))
    assert {*zip(found["D"].tolist(), found["N"].tolist(), strict=True)} == sizes
    assert set(asked["dataset"]) == {"adult"}
    assert set(asked["method"]) == {"GCM", "IGCM"}
    if cells is PUBLISHED:
        assert set(asked["variant"]) == {"published", "default"}
        assert (asked["num_samples"] == asked["num_particles"]).all()
        # What is not varied is that of Table 5.
        assert asked[["hidden", "epochs", "batch_size"]].drop_duplicates().values.tolist() == [
            [16, 40, 256]
        ]
    else:  # the cell of Table 3 is the one with the code's own dimension and number of draws
        own = {**released.settings_of("adult", "GCM")[0], "z_dim": released.Z_DIM, "draws": DRAWS}
        assert own in [cell.options for cell in cells]


def test_the_sizes_of_the_ablation_reach_the_model(monkeypatch, tmp_path, capsys):
    seen = []

    def train(method, rows, settings, *arguments, **named):
        made = original(method, rows, settings, *arguments, **named)
        seen.append((method, made[0].z_dim, settings["num_particles"]))
        return made

    original = published.train
    monkeypatch.setattr(published, "train", train)
    load_as(monkeypatch, lambda name, variant: toy(name, variant, "binary"))
    ablation.main(options(ablation, tmp_path, "--jobs", "1", "--quick", "--variants", "default"))
    sizes = [(4, 8), (8, 16), (12, 24), (16, 32)]
    assert sorted(seen) == sorted((m, d, n) for m in methods_of("ablation") for d, n in sizes)
    printed = capsys.readouterr().out
    assert "AUC of GCM, label default" in printed
    assert "AUC of IGCM, label default" in printed


def test_the_effects_of_the_ablation_are_paired_by_seed():
    parts = []
    for seed, gain in enumerate((0.010, 0.012)):
        for d in (4, 8, 12, 16):
            for n in (8, 16, 24, 32):
                value = 0.78 + (gain if d >= 12 and n <= 16 else 0.0)
                settings = json.dumps({"z_dim": d, "num_particles": n})
                more = {"settings": settings, "variant": "published"}
                parts.append(table({("GCM", "AUC"): [value]}, **more).assign(seed=seed))
    found = ablation.with_sizes(pd.concat(parts))
    ours, gcm, _ = (line.split(" | ") for line in ablation.effects(found).splitlines()[2:])
    # Two seeds, 0.010 and 0.012: half of the interval is 12.706 x 0.001, and half the columns of
    # the largest D are inside.
    assert ours[:3] == ["| GCM, published label", "ours", "0.0110"]
    assert ours[4:] == ["0.0055 ± 0.0064", "0.0110 ± 0.0127 |"]
    assert gcm[1] == "paper"
    assert gcm[-1] == "0.0014 |"
    lines = ablation.report(found, "published", "GCM").splitlines()
    assert lines[2].startswith("| N = 8 | ours | 0.7800 ± 0.0000† |")
    assert lines[3].startswith("|  | paper | 0.7834 ± 0.0026 |")
    assert "paper" not in ablation.report(found.assign(variant="default"), "default", "GCM")


# Prediction times.


def test_every_way_of_predicting_gives_the_same_numbers(monkeypatch):
    load_as(monkeypatch, lambda name, variant: toy(name, variant, "binary"))
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


def test_a_quick_run_does_not_replace_a_table_of_more(monkeypatch, tmp_path):
    load_as(monkeypatch, lambda name, variant: toy(name, variant, "binary"))
    settings = as_json({"revenues": 128, "rows": 64, "x": "cached"})
    more = table({("GCM", "ms per batch"): [1.0]}, settings=settings)
    more.to_csv(tmp_path / "timing.csv", index=False)
    with pytest.raises(Refused, match="has more than --quick measures: pass another folder"):
        timing.main(options(timing, tmp_path, "--quick", "--devices", "cpu"))
    assert len(runs.read_results(tmp_path / "timing.csv")) == 1


def timed(revenues=1, **milliseconds):
    """Times of `method__way` for a number of revenues."""
    parts = []
    for side, ms in milliseconds.items():
        method, way = side.split("__")
        settings = json.dumps({"revenues": revenues, "rows": 64, "x": way.replace("_", " ")})
        parts.append(table({(method, "ms per batch"): [ms]}, settings=settings))
    return pd.concat(parts)


def test_the_times_of_the_paper_stand_below_ours():
    measured = timed(GCM__cached=2.0, MM__cached=1.0, MM__at_once=3.0)
    lines = timing.report(measured).splitlines()
    assert lines[0] == "Device: cpu"
    # Table 8 of the paper: MM 1.51 ms for one revenue.
    expected = ["| MM | at once | 3.00 |", "| MM | cached | 1.00 |", "| GCM | cached | 2.00 |"]
    assert lines[4:8] == [*expected, "| MM | paper | 1.51 |"]
    assert timing.milliseconds(measured, "MM", "at once", "1") == "3"
    assert timing.milliseconds(measured, "MM", "at once", "2") == "not run"


def test_gcm_is_faster_from_the_revenues_on_that_the_table_says():
    every = pd.concat(
        timed(n, MM__one_by_one=n, MM__at_once=n**0.1, GCM__cached=3.0 * n**0.1)
        for n in (1, 2, 4, 16)
    )
    assert timing.faster(every, "one by one") == "MM from R = 4 on"
    assert timing.faster(every, "at once") == "MM never"
    paper = "MM from R = 32 on, CMNN from R = 8 on, PWL from R = 64 on"
    assert timing.faster(every, "paper") == paper


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
