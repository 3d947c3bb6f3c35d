"""COMPAS has ProPublica's rows and the split of the literature."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_gcm.data.loaders import compas


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
    header = ",".join(compas._COLUMNS)
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
    monkeypatch.setattr(compas, "read_raw", lambda _: "\n".join([header, good, *bad]).encode())
    monkeypatch.setattr(compas, "_ROWS", 2)
    assert compas._read()["age"].tolist() == [30, 35]
    monkeypatch.setattr(compas, "_ROWS", 3)
    with pytest.raises(ValueError, match="compas has 2 rows after the filter, expected 3"):
        compas._read()
