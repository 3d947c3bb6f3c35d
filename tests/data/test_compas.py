"""COMPAS has ProPublica's rows, the split of the literature, and reads no personal column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_gcm.data import compas


@pytest.mark.parametrize("variant", ["default", "published"])
def test_counts(real, variant: str) -> None:
    dataset = real("compas", variant)
    assert dataset.x.shape == (6_172, 9)
    assert dataset.r.shape == (6_172, 4)
    assert dataset.y.sum() == 2_809
    assert dataset.y.mean().item() == pytest.approx(0.4551, abs=5e-5)
    assert dataset.r_names == ("priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count")
    assert (dataset.response, dataset.metric) == ("binary", "accuracy")


def test_default_is_in_raw_units(real) -> None:
    dataset = real("compas")
    assert dataset.x_names[0] == "age"
    assert (dataset.x[:, 0].min(), dataset.x[:, 0].max()) == (18, 96)
    assert dataset.r.amin(0).tolist() == [0, 0, 0, 0]
    assert dataset.r.amax(0).tolist() == [38, 20, 13, 9]


def test_published_scales_age_and_counts_over_all_rows(real) -> None:
    raw, published = real("compas"), real("compas", "published")
    torch.testing.assert_close(published.r, raw.r / torch.tensor([38.0, 20, 13, 9]).double())
    torch.testing.assert_close(published.x[:, 0], (raw.x[:, 0] - 18) / 78)
    assert published.x[:, 1:].equal(raw.x[:, 1:])
    assert published.y.equal(raw.y)


def test_every_row_has_one_race_and_one_sex(real) -> None:
    dataset = real("compas")
    assert [name.split("=")[0] for name in dataset.x_names] == ["age"] + ["race"] * 6 + ["sex"] * 2
    assert (dataset.x[:, 1:7].sum(1) == 1).all()
    assert (dataset.x[:, 7:].sum(1) == 1).all()


@pytest.mark.parametrize("variant", ["default", "published"])
def test_fixed_split_is_the_legacy_shuffle_of_the_filtered_rows(real, variant: str) -> None:
    dataset = real("compas", variant)
    train, test = dataset.fixed_split()
    assert (len(train), len(test)) == (4_937, 1_235)

    rows = torch.cat([dataset.x, dataset.r, dataset.y[:, None]], 1).numpy().copy()
    state = np.random.get_state()
    np.random.seed(78712)
    np.random.shuffle(rows)  # whole rows, as the literature did
    np.random.set_state(state)
    for index, part in ((train, rows[:4_937]), (test, rows[4_937:])):
        np.testing.assert_array_equal(dataset.x[index].numpy(), part[:, :9])
        np.testing.assert_array_equal(dataset.r[index].numpy(), part[:, 9:13])
        np.testing.assert_array_equal(dataset.y[index].numpy(), part[:, 13])


def test_only_the_needed_columns_are_read(real, monkeypatch: pytest.MonkeyPatch) -> None:
    real("compas")  # skips without the file
    seen: list[pd.DataFrame] = []

    def read_csv(*args: Any, **options: Any) -> pd.DataFrame:
        seen.append(parse(*args, **options))
        return seen[-1]

    parse = pd.read_csv
    monkeypatch.setattr(compas.pd, "read_csv", read_csv)
    compas.default()
    assert set(seen[0].columns) == {
        *("age", "race", "sex", "two_year_recid"),
        *("priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count"),
        *("days_b_screening_arrest", "is_recid", "c_charge_degree", "score_text"),
    }


def test_filter_drops_each_kind_of_row_that_propublica_dropped(monkeypatch) -> None:
    header = ",".join(compas._COLUMNS)
    good = "30,Other,Male,1,0,0,0,1,-1,1,F,Low"
    bad = [
        "31,Other,Male,1,0,0,0,1,31,1,F,Low",
        "32,Other,Male,1,0,0,0,1,-31,1,F,Low",
        "33,Other,Male,1,0,0,0,1,,1,F,Low",
        "34,Other,Male,1,0,0,0,1,0,-1,F,Low",
        "35,Other,Male,1,0,0,0,1,0,1,O,Low",  # kept: "O" <= "O", as ProPublica wrote it
        "36,Other,Male,1,0,0,0,1,0,1,X,Low",
        "37,Other,Male,1,0,0,0,1,0,1,M,N/A",
    ]
    monkeypatch.setattr(compas, "read_raw", lambda _: "\n".join([header, good, *bad]).encode())
    monkeypatch.setattr(compas, "_ROWS", 2)
    monkeypatch.setattr(compas, "_POSITIVES", 2)
    assert compas._read()["age"].tolist() == [30, 35]
    monkeypatch.setattr(compas, "_ROWS", 3)
    with pytest.raises(ValueError, match="compas has 2 rows after the filter, expected 3"):
        compas._read()
