"""Auto MPG has raw units, the published scaling and the fixed split of the literature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch


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
