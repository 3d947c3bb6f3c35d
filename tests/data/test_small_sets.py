"""Adult, Auto MPG and COMPAS: labels, units, scaling, filters and splits of the literature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_gcm import data
from pyro_gcm.data import sets
from pyro_gcm.data.dataset import SETS

# Adult has the correct label by default, and the published one on request


def test_published_label_has_no_positive_in_the_training_file(real) -> None:
    correct, published = real("adult").y, real("adult", "published").y
    assert correct[:32_561].sum() == 7_841
    assert published[:32_561].sum() == 0
    assert published[32_561:].equal(correct[32_561:])


def test_published_33rd_column_is_the_unknown_workclass_of_the_test_file(real) -> None:
    default, published = real("adult"), real("adult", "published")
    assert set(published.x_names) - set(default.x_names) == {"workclass=? (adult.test)"}
    extra = published.x[:, published.x_names.index("workclass=? (adult.test)")]
    assert extra[:32_561].sum() == 0
    assert extra.sum() == 963
    unknown = published.x[:, published.x_names.index("workclass=?")] + extra
    assert unknown.equal(default.x[:, default.x_names.index("workclass=?")])


# Auto MPG has raw units, the published scaling and the fixed split of the literature


def test_default_is_in_raw_units(real) -> None:
    dataset = real("auto_mpg")
    assert dataset.x_names == ("cylinders", "acceleration", "model year", "origin")
    assert dataset.x[0].tolist() == [8, 12, 70, 1]  # the first line of the file
    assert dataset.y[0] == 18


def test_published_is_standardised_by_the_training_rows_of_the_fixed_split(real) -> None:
    raw, published = real("auto_mpg"), real("auto_mpg", "published")
    train, _ = published.fixed_split()
    for values, scaled in ((raw.x, published.x), (raw.r, published.r)):
        mean, std = values[train].mean(0), values[train].std(0)  # denominator n - 1
        torch.testing.assert_close(scaled, (values - mean) / std)
    assert published.y.equal(raw.y)  # miles per gallon


@pytest.mark.parametrize("part", [0, 1], ids=["train", "test"])
def test_fixed_split_has_the_cars_of_the_comet_files(real, raw_folder: Path, part: int) -> None:
    dataset = real("auto_mpg")
    path = raw_folder / "auto_mpg" / ("comet_train_data.csv", "comet_test_data.csv")[part]
    if not path.is_file():
        pytest.skip(f"PYRO_GCM_DATA has no auto_mpg/{path.name}")
    comet = pd.read_csv(path)
    x, r = ["Cylinders", "Acceleration", "Model Year", "Origin"], ["Displacement", "Horsepower"]
    wanted = comet[[*x, *r, "Weight", "MPG"]].to_numpy(dtype=np.float64)

    rows = dataset.fixed_split()[part]
    got = torch.cat([dataset.x, -dataset.r, dataset.y[:, None]], 1)[rows].numpy()
    assert len({tuple(car) for car in got}) == len(got)  # no two cars are equal
    assert {tuple(car) for car in got} == {tuple(car) for car in wanted}


# COMPAS has ProPublica's rows and the split of the literature


@pytest.mark.parametrize("variant", ["default", "published"])
def test_fixed_split_is_the_legacy_shuffle_of_the_filtered_rows(real, variant: str) -> None:
    dataset = real("compas", variant)
    train, test = dataset.fixed_split()
    rows = torch.cat([dataset.x, dataset.r, dataset.y[:, None]], 1).numpy().copy()
    state = np.random.get_state()
    np.random.seed(78712)
    np.random.shuffle(rows)  # whole rows, as the literature did
    np.random.set_state(state)
    for index, part in ((train, rows[:4_937]), (test, rows[4_937:])):
        np.testing.assert_array_equal(dataset.x[index].numpy(), part[:, :9])
        np.testing.assert_array_equal(dataset.r[index].numpy(), part[:, 9:13])
        np.testing.assert_array_equal(dataset.y[index].numpy(), part[:, 13])


def test_filter_drops_every_kind_of_row_that_propublica_dropped(monkeypatch) -> None:
    header = ",".join(SETS["compas"]["files"][0]["read"]["usecols"])
    good = "30,Other,Male,1,0,0,0,1,-1,1,F,Low"
    bad = [
        "31,Other,Male,1,0,0,0,1,31,1,F,Low",
        "32,Other,Male,1,0,0,0,1,-31,1,F,Low",
        "33,Other,Male,1,0,0,0,1,,1,F,Low",
        "34,Other,Male,1,0,0,0,1,0,-1,F,Low",
        "35,Other,Male,1,0,0,0,1,0,1,O,Low",  # kept: "O" <= "O", as ProPublica wrote the filter
        "36,Other,Male,1,0,0,0,1,0,1,X,Low",
        "37,Other,Male,1,0,0,0,1,0,1,M,N/A",
    ]
    monkeypatch.setattr(sets, "read_raw", lambda _: "\n".join([header, good, *bad]).encode())
    assert data.load("compas").frame()["age"].tolist() == [30, 35]
