"""The loan stand-in has the columns of Loan Defaulter, and interest rates that repay the loan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pyro_gcm.data import load_loans
from pyro_gcm.data.credit import LOAN_DIRECTIONS

EMPTY = {
    *("home_ownership=ANY", "home_ownership=NONE"),
    *("purpose=educational", "purpose=renewable_energy"),
}


@pytest.fixture(scope="module")
def loans(real, raw_folder: Path) -> pd.DataFrame:
    """The rows of the file that the loader keeps."""
    real("loan_psds")  # skips without the file
    path = raw_folder / "loan" / "psds_loan_data.csv"
    table = pd.read_csv(path if path.is_file() else f"{path}.gz")
    return table[table["emp_length"] > 0]


def test_default_is_in_raw_units(real, loans) -> None:
    dataset = real("loan_psds")
    # 60 months, 2,500 dollars, sub-grade 4.8, a good record, under a year, 30,000 a year, dti 1
    assert dataset.r[0].tolist() == [-5, 0, -1, -30_000, 1]
    assert dataset.x[0, [0, 2]].tolist() == [2_500, 1]
    np.testing.assert_array_equal(dataset.r[:, 4], loans["dti"])
    np.testing.assert_array_equal(-dataset.r[:, 3], loans["annual_inc"])
    np.testing.assert_array_equal(dataset.y, loans["outcome"] == "default")
    grades = {f"{g / 5:.1f}": -((g - 1) // 5 + 1) for g in range(1, 36)}  # 0.2 to 1.0 is G (1)
    assert dataset.r[:, 0].tolist() == [grades[f"{g:.1f}"] for g in loans["grade"]]


def test_interest_rate_repays_the_loan(real, loans) -> None:
    dataset = real("loan_psds")
    rate = dataset.x[:, 1].numpy()
    assert rate.min() == 5.3
    assert np.mean(rate == 5.3) == pytest.approx(0.013, abs=5e-4)
    debt = loans["loan_amnt"].to_numpy(dtype=np.float64)
    payment = (loans["payment_inc_ratio"] / 100 * loans["annual_inc"] / 12).to_numpy()
    months = np.where(dataset.x[:, 2] == 1, 60, 36)
    for month in range(60):  # month by month, without the annuity formula
        debt = np.where(month < months, debt * (1 + rate / 1200) - payment, debt)
    paid = rate > 5.3
    assert np.abs(debt / loans["loan_amnt"])[paid].max() < 1e-9


def test_four_categories_are_absent_and_the_others_are_those_of_the_file(real, loans) -> None:
    dataset = real("loan_psds")
    empty = {name for name, top in zip(dataset.x_names, dataset.x.amax(0), strict=True) if not top}
    assert empty == EMPTY
    for column, category in (("home_ownership", "RENT"), ("purpose", "wedding")):
        got = dataset.x[:, dataset.x_names.index(f"{column}={category}")]
        np.testing.assert_array_equal(got, loans[column] == category)


def test_the_raw_loans_have_text_missing_values_and_both_outcomes(raw_folder):
    table, outcome = load_loans()
    assert table.shape == (45_342, 14)
    assert set(LOAN_DIRECTIONS) < set(table)
    assert table["emp_length"].isna().sum() == 1_776
    assert table.drop(columns="emp_length").notna().all().all()
    assert sorted(outcome.unique()) == ["default", "paid off"]
    assert (outcome == "default").mean() == 0.5
    assert [str(table[name].dtype) for name in ("term", "purpose")] == ["category"] * 2
