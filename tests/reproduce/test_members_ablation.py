"""The ablation of members: one change at a time, its resolved settings, and what it gains."""

import dataclasses
import json

import pandas as pd
import pytest
import torch
from toys import options, table, toy

from pyro_gcm import fit_members
from pyro_gcm.models.member_settings import MemberSettings
from reproduce import members_ablation, tasks
from reproduce.members_ablation import DEFAULT, LEVELS
from reproduce.runs import Fit, read_results
from reproduce.scores import distribution_scores

SMALL = {"members": 2, "width": 4, "alternatives": 1, "costs": 1, "epochs": 1}


@pytest.fixture
def tables(monkeypatch):
    """Adult is binary and Auto MPG continuous, of 100 rows."""
    kinds = {"adult": "binary", "auto_mpg": "continuous"}
    made = {name: toy(name, response=kind) for name, kind in kinds.items()}
    monkeypatch.setattr(tasks, "load", lambda name, variant: made[name])
    return made


def settings_of(cells, split=0):
    """Method -> settings, of one data set and split."""
    return {cell.method: cell.options for cell in cells if cell.seed == split}


def small(name, *, fits=1, seed=0, **changes):
    """A cell that takes a fraction of a second."""
    settings = dataclasses.replace(MemberSettings.for_table(80, 9, 4), **{**SMALL, **changes})
    text = json.dumps({**dataclasses.asdict(settings), "fits": fits})
    return Fit("members_ablation", name, "default", "held-out", "1", seed, "any", text)


def test_a_cell_differs_from_the_default_in_its_own_settings_alone(tables):
    cells = members_ablation.fits(["adult"], seeds=2, quick=False)
    assert len(cells) == len(set(cells))
    found = settings_of(cells)
    default = found.pop(DEFAULT)
    rows = len(tables["adult"].split(0)[0])
    assert default == {**dataclasses.asdict(MemberSettings.for_table(rows, 9, 4)), "fits": 1}
    levels = {level.name: level for level in LEVELS}
    for method, settings in found.items():
        changed = {name: value for name, value in settings.items() if value != default[name]}
        level = levels[method]
        separate = {"members": 1, "fits": default["members"]} if level.separate else {}
        wanted = {name: value for name, value in level.changes.items() if value != default[name]}
        assert changed == {**wanted, **separate}
        assert changed


def test_every_level_is_there_but_those_of_the_default(tables):
    found = settings_of(members_ablation.fits(["adult"], seeds=1, quick=False))
    default = found[DEFAULT]
    left_out = {level.name for level in LEVELS} - set(found)
    assert left_out == {
        "objective: mean of logs", "members: K = 8", "encoder: signs on the input", "costs: 3x3",
    }  # fmt: skip
    assert {each["pooling"] for each in found.values()} == {0.0, 0.5, 1.0}
    assert {each["members"] for each in found.values()} == {1, 4, 8, 16, 32}
    assert default["scaling"] == "input"


def test_another_default_is_not_taken_for_this_one(tables, monkeypatch):
    before = members_ablation.fits(["adult"], seeds=1, quick=False)
    rule = MemberSettings.for_table
    monkeypatch.setattr(
        MemberSettings,
        "for_table",
        lambda *sizes: dataclasses.replace(rule(*sizes), map_rate=3.0, members=16),
    )
    after = members_ablation.fits(["adult"], seeds=1, quick=False)
    assert not set(before) & set(after)
    found = settings_of(after)
    assert "members: K = 16" not in found
    assert "members: K = 8" in found
    assert found["encoder: separate networks"]["fits"] == 16


@pytest.mark.parametrize(("name", "fits"), [("adult", 1), ("auto_mpg", 3)])
def test_a_cell_is_scored_on_rows_that_its_fits_did_not_see(name, fits, tables):
    cell = small(name, fits=fits, seed=3, members=2 if fits == 1 else 1)
    scores = members_ablation.run(cell)
    rows, settings = tables[name], cell.options
    learn, test = rows.split(1)
    assert settings.pop("fits") == fits
    columns = rows.x[learn], rows.r[learn], rows.y[learn]
    more = {"response": rows.response, "device": "cpu", "progress": False}
    fitted = [
        fit_members(*columns, settings=MemberSettings(**settings), seed=3 * fits + at, **more)
        for at in range(fits)
    ]
    expected = distribution_scores(rows, [each.model for each in fitted], test)
    assert {metric: scores[metric] for metric in expected} == pytest.approx(expected)
    assert set(scores) == {*expected, "seconds", "epochs"}
    assert scores["epochs"] == sum(each.settings.epochs for each in fitted)
    if fits > 1:  # networks of their own, whose predictions are averaged
        each = torch.stack([f.model.predict(rows.x[test], rows.r[test]) for f in fitted])
        assert each.std(0).min() > 0.0
        rmse = (each.double().mean(0) - rows.y[test]).square().mean().sqrt()
        assert scores["RMSE"] == pytest.approx(float(rmse), rel=1e-6)


def test_the_linear_map_has_no_bend_between_its_ends(tables):
    rows = tables["adult"]
    (level,) = (level for level in LEVELS if level.title == "linear")
    settings = dataclasses.replace(MemberSettings(**SMALL), **level.changes)
    model = fit_members(rows.x, rows.r, rows.y, settings=settings, progress=False).model
    # In standardised units; 20 rows reach the last knot.
    knots = model.revenue_map.knots
    low, high = knots[:, 0], knots[:, -1]
    shares = torch.linspace(0.0, 1.0, 9)[:, None]
    mapped = model.revenue_map(low + shares * (high - low)).flatten(1)
    steps = mapped.diff(dim=0)
    assert (steps > 0.0).all()
    torch.testing.assert_close(steps, steps[:1].expand_as(steps), rtol=1e-3, atol=1e-6)


def results(dataset="adult", metric="AUC", more=0.0):
    """The default, .80 and .81, and K = 4, .002 and .004 above it."""
    values = {DEFAULT: (0.80, 0.81), "members: K = 4": (0.802 + more, 0.814 + more)}
    cells = {(m, name): both for m, both in values.items() for name in (metric, "log score")}
    return table(cells, dataset=dataset).assign(seconds=2.0)


def test_the_gains_are_paired_and_positive_where_better():
    adult, cars = results(), results("auto_mpg", "RMSE")
    assert members_ablation.gains(adult, "AUC").squeeze().tolist() == pytest.approx([0.002, 0.004])
    assert members_ablation.gains(cars, "RMSE").squeeze().tolist() == pytest.approx(
        [-0.002, -0.004]
    )
    both = pd.concat([adult, cars])
    lines = members_ablation.report(both, "auto_mpg").splitlines()
    assert lines[0].startswith("| Part | Change | RMSE: gain | log score: gain |")
    assert lines[2].startswith("|  | default | 0.8050 ±")
    # Half of the interval is 12.706 sqrt(2e-6 (1/2 + 1/4)).
    assert lines[3] == "| members | K = 4 | -0.0030 ± 0.0156 | 0.0030 ± 0.0156 | 2.0 |"
    same = results(more=0.002)
    same.loc[same["split"] == "1", "value"] -= 0.002 * (same["method"] != DEFAULT)
    assert "| 0.0040 ± 0.0000* |" in members_ablation.report(same, "adult")


def test_the_ablation_draws_its_figure_where_it_is_asked_for(tables, monkeypatch, tmp_path, capsys):
    some = tuple(level for level in LEVELS if level.title in ("K = 4", "1x1"))
    monkeypatch.setattr(members_ablation, "LEVELS", some)
    scores = {"AUC": 0.8, "RMSE": 2.0, "log score": -1.0, "seconds": 0.1, "epochs": 1}
    monkeypatch.setattr(members_ablation, "run", lambda fit, device="cpu": scores)
    figure = tmp_path / "elsewhere" / "figure.png"
    asked = ["--quick", "--jobs", "1", "--figure", str(figure)]
    members_ablation.main(options(members_ablation, tmp_path, *asked))
    found = set(read_results(tmp_path / "members_ablation.csv")["method"])
    assert found == {DEFAULT, *(level.name for level in some)}
    assert figure.stat().st_size > 10_000
    assert "| costs | 1x1 |" in capsys.readouterr().out
