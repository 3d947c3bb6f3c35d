"""Auto MPG has increasing revenues and the fixed split of the literature, car by car."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_gcm.data import auto_mpg


@pytest.mark.parametrize("variant", ["default", "published"])
def test_counts(real, variant: str) -> None:
    dataset = real("auto_mpg", variant)
    assert dataset.x.shape == (392, 4)
    assert dataset.r.shape == (392, 3)
    assert dataset.x_names == ("cylinders", "acceleration", "model year", "origin")
    assert dataset.r_names == ("-displacement", "-horsepower", "-weight")
    assert (dataset.response, dataset.metric) == ("continuous", "rmse")


@pytest.mark.parametrize("variant", ["default", "published"])
def test_mileage_rises_with_every_revenue(real, variant: str) -> None:
    dataset = real("auto_mpg", variant)
    table = torch.cat([dataset.y[:, None], dataset.r], 1)
    assert (torch.corrcoef(table.T)[0, 1:] > 0.7).all()


def test_default_is_in_raw_units(real) -> None:
    dataset = real("auto_mpg")
    assert dataset.x[0].tolist() == [8, 12, 70, 1]  # the first line of the file
    assert dataset.r[0].tolist() == [-307, -130, -3504]
    assert dataset.y[0] == 18


def test_published_is_standardised_by_the_training_rows_of_the_fixed_split(real) -> None:
    raw, published = real("auto_mpg"), real("auto_mpg", "published")
    train, _ = published.fixed_split()
    for values, scaled in ((raw.x, published.x), (raw.r, published.r)):
        mean, std = values[train].mean(0), values[train].std(0)  # n - 1 in its denominator
        torch.testing.assert_close(scaled, (values - mean) / std)
    assert published.y.equal(raw.y)  # miles per gallon


def test_fixed_split_holds_every_row_once(real) -> None:
    train, test = real("auto_mpg").fixed_split()
    assert (len(train), len(test)) == (314, 78)
    assert torch.cat([train, test]).sort().values.equal(torch.arange(392))


@pytest.mark.parametrize("part", [0, 1], ids=["train", "test"])
def test_fixed_split_has_the_cars_of_the_comet_files(real, raw_folder: Path, part: int) -> None:
    dataset = real("auto_mpg")
    path = raw_folder / "auto_mpg" / ("comet_train_data.csv", "comet_test_data.csv")[part]
    if not path.is_file():
        pytest.skip(f"PYRO_GCM_DATA holds no auto_mpg/{path.name}")
    comet = pd.read_csv(path)
    x, r = ["Cylinders", "Acceleration", "Model Year", "Origin"], ["Displacement", "Horsepower"]
    wanted = comet[[*x, *r, "Weight", "MPG"]].to_numpy(dtype=np.float64)

    rows = dataset.fixed_split()[part]
    got = torch.cat([dataset.x, -dataset.r, dataset.y[:, None]], 1)[rows].numpy()
    assert len({tuple(car) for car in got}) == len(got)  # no two cars alike
    assert {tuple(car) for car in got} == {tuple(car) for car in wanted}


def test_file_that_lost_a_row_is_refused(real, monkeypatch) -> None:
    real("auto_mpg")  # skips without the file
    whole = auto_mpg.read_raw
    monkeypatch.setattr(auto_mpg, "read_raw", lambda file: whole(file).split(b"\n", 1)[1])
    with pytest.raises(ValueError, match=r"auto-mpg\.data has 397 rows, expected 398"):
        auto_mpg.default()
