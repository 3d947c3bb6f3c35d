"""HELOC has three kinds of missing values, Taiwan months in arrears; directions name columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pyro_gcm.data import credit, load_heloc, load_loans, load_taiwan
from pyro_gcm.data.dataset import SETS

ALL = [*credit.HELOC_REASONS, *SETS["heloc"]["free"]]


@pytest.fixture(scope="module")
def heloc(raw_folder: Path):
    path = raw_folder / "credit" / "heloc.csv.gz"
    if not path.is_file():
        pytest.skip(f"PYRO_GCM_DATA has no {path.name}")
    return load_heloc(path)


@pytest.fixture(scope="module")
def taiwan(raw_folder: Path):
    try:
        return load_taiwan()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_heloc_has_its_rows_and_no_codes(heloc) -> None:
    table, y = heloc
    assert table.shape == (10_459, 23 + 9)
    assert y.sum() == 5_459
    numbers = table[ALL]
    assert (numbers.min() >= 0).all()
    assert numbers["ExternalRiskEstimate"].isna().sum() == 598
    assert numbers["NetFractionInstallBurden"].isna().sum() == 588 + 3_419
    kinds = table["MSinceMostRecentDelq missing"].value_counts()
    assert kinds["condition not met"] == 4_664
    assert kinds["no usable record"] == 176
    assert kinds["no bureau record"] == 588
    assert (table["MSinceMostRecentDelq"].notna() == (
        table["MSinceMostRecentDelq missing"] == "given"
    )).all()  # fmt: skip
    assert "AverageMInFile missing" not in table  # where only -9 occurs


def test_heloc_reads_the_words_of_fico_and_refuses_another_table(tmp_path, monkeypatch) -> None:
    rows = pd.DataFrame({name: [7, -8, 9] for name in ALL})
    rows.insert(0, "RiskPerformance", ["Bad", "Good", "Bad"])
    path = tmp_path / "heloc.csv"
    rows.to_csv(path, index=False)
    with pytest.raises(ValueError, match="heloc has 3 rows, expected 10459"):
        load_heloc(path)
    monkeypatch.setitem(SETS["heloc"], "rows", 3)
    table, y = load_heloc(path)
    assert y.tolist() == [1, 0, 1]
    delinquent = table["MaxDelq2PublicRecLast12M"].to_numpy()
    np.testing.assert_array_equal(delinquent, [7, np.nan, np.nan])  # 9 is "all other"
    assert table["NumTotalTrades missing"].tolist() == ["given", "no usable record", "given"]
    rows.drop(columns="AverageMInFile").to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"lacks \['AverageMInFile'\]"):
        load_heloc(path)


def test_taiwan_has_months_in_arrears_and_a_status(taiwan) -> None:
    table, y = taiwan
    assert table.shape == (30_000, 23 + 6)
    assert y.sum() == 6_636
    assert sorted(table["PAY_0"].unique()) == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    status = table["PAY_0 status"].value_counts()
    assert status["no consumption"] == 2_759
    assert status["paid in full"] == 5_686
    # Whoever is late has a balance: one that is a month later differs in nothing else.
    assert set(table.loc[table["PAY_0"] > 0, "PAY_0 status"]) == {"balance"}
    assert table["EDUCATION"].isna().sum() == 14 + 280 + 51
    assert table["MARRIAGE"].isna().sum() == 54
    assert table["AGE"].isna().sum() == 2


def test_directions_name_numbers_and_have_reasons(heloc, taiwan) -> None:
    for (table, _), reasons, count in (
        (heloc, credit.HELOC_REASONS, 18),
        (taiwan, credit.TAIWAN_REASONS, 13),
    ):
        assert len(reasons) == count
        assert set(reasons) <= set(table.select_dtypes("number"))
        assert all(sign in (-1, 1) and len(why) > 20 for sign, why in reasons.values())


def test_the_raw_loans_have_text_missing_values_and_both_outcomes(raw_folder):
    table, outcome = load_loans()
    assert table.shape == (45_342, 14)
    assert set(credit.LOAN_DIRECTIONS) < set(table)
    assert table["emp_length"].isna().sum() == 1_776
    assert table.drop(columns="emp_length").notna().all().all()
    assert sorted(outcome.unique()) == ["default", "paid off"]
    assert (outcome == "default").mean() == 0.5
    assert [str(table[name].dtype) for name in ("term", "purpose")] == ["category"] * 2
