"""Loan stand-in: does the borrower default? This is not the data set of the published tables.

The published Loan Defaulter is :mod:`pyro_gcm.data.loaders.loan`. This is a smaller table of real
LendingClub loans with the same 23 + 5 columns, for work without that download. Numbers on it must
not be reported as results on Loan Defaulter.

Source: Bruce, P., Bruce, A. and Gedeck, P., Practical Statistics for Data Scientists,
https://github.com/gedeck/practical-statistics-for-data-scientists, data/loan_data.csv.gz, licence
GPL-3.0 (repository); LendingClub published the loans openly. The file contains all defaults and as
many loans that were paid off; those without a length of employment are excluded, which leaves
43,566 of 45,342 rows, in the order of the file.

    x   loan_amnt [dollars], int_rate [percent a year], one column for a term of 60 months,
        one-hot of home_ownership (6) and purpose (14). Four of these categories do not occur, and
        their columns are zero: home ANY and NONE, purposes educational and renewable_energy
    r   -grade [A is 7, G is 1], pub_rec [1 if there is a derogatory public record, in place of
        bankruptcies, which the file lacks], -emp_length [1 is under a year, 11 is ten years or
        more], -annual_inc [dollars], dti [percent]; all increasing
    y   1 for a default (49.58 % of the rows, by the selection of rows)

The file has no interest rate. The loader solves for it from the monthly payment (payment_inc_ratio
percent of the monthly income), the amount and the term. For loans that were funded in part the
result is too low; it is clipped at 5.3 percent from below, which changes 1.3 % of the rows.
"""

from __future__ import annotations

import io

import numpy as np
import pandas as pd

from pyro_gcm.data.dataset import Dataset
from pyro_gcm.data.frames import check_count, from_frames, min_max, one_hot
from pyro_gcm.data.loaders.loan import X_NAMES
from pyro_gcm.data.source import RawFile, read_raw

_LOANS = RawFile(
    path="loan/psds_loan_data.csv",
    sha256="64843c6c59ed58002464cd59d62ba89017e7e68d4aca4a902c5197e37c7d4f3d",
    url=(
        "https://raw.githubusercontent.com/gedeck/practical-statistics-for-data-scientists/"
        "62bfedf0dd3b0905513e1639754626a6b625d64d/data/loan_data.csv.gz"
    ),
)
_FILE_ROWS, _ROWS, _POSITIVES = 45_342, 43_566, 21_599
_LOWEST_RATE = 5.3  # percent a year

#: Of the table of `load_loans`: directions in which a default is expected to become more likely.
DIRECTIONS = {
    "annual_inc": -1,
    "dti": 1,
    "payment_inc_ratio": 1,
    "revol_util": 1,
    "grade": -1,
    "emp_length": -1,
    "delinq_2yrs_zero": -1,
    "pub_rec_zero": -1,
}
_FREE = ["loan_amnt", "term", "purpose", "home_ownership", "revol_bal", "open_acc"]
_CATEGORIES = ["home_ownership", "purpose"]
_COLUMNS = [
    *("loan_amnt", "term", "annual_inc", "dti", "payment_inc_ratio", *_CATEGORIES),
    *("pub_rec_zero", "grade", "outcome", "emp_length"),
]


def default() -> Dataset:
    """The stand-in in raw units: x [43566, 23], r [43566, 5], 21,599 positives."""
    table = _read()
    return _build("default", _free_inputs(table), _revenues(table), table)


def table() -> tuple[pd.DataFrame, pd.Series]:
    """Return the table of `data.load_loans`."""
    columns = [*_FREE, *DIRECTIONS]
    loans = pd.read_csv(io.BytesIO(read_raw(_LOANS)), usecols=[*columns, "outcome"])
    check_count("loan_psds", "rows", len(loans), _FILE_ROWS)
    loans["emp_length"] = loans["emp_length"].astype("float64").replace(0.0, np.nan)
    categories = dict.fromkeys(["term", "purpose", "home_ownership"], "category")
    return loans[columns].astype(categories), loans["outcome"]


def published() -> Dataset:
    """The stand-in, scaled like the published Loan Defaulter.

    The same rows and columns, with loan_amnt, int_rate and r scaled to [0, 1] by the minimum and
    maximum over all rows, test rows included (a flipped column is 1 minus the scaled one).
    """
    table = _read()
    x = _free_inputs(table)
    numbers = ["loan_amnt", "int_rate"]
    x[numbers] = min_max(x[numbers])
    return _build("published", x, min_max(_revenues(table)), table)


def _read() -> pd.DataFrame:
    table = pd.read_csv(io.BytesIO(read_raw(_LOANS)), usecols=_COLUMNS)
    check_count("loan_psds", "rows", len(table), _FILE_ROWS)
    table = table[table["emp_length"] != 0].reset_index(drop=True)
    check_count("loan_psds", "rows with a length of employment", len(table), _ROWS)
    return table


def _free_inputs(table: pd.DataFrame) -> pd.DataFrame:
    numbers = pd.DataFrame(
        {
            "loan_amnt": table["loan_amnt"].astype("float64"),
            "int_rate": _interest_rate(table).clip(_LOWEST_RATE),
            "term=60 months": (table["term"] == "60 months").astype("float64"),
        }
    )
    x = pd.concat([numbers, one_hot(table[_CATEGORIES])], axis="columns")
    return x.reindex(columns=list(X_NAMES), fill_value=0.0)  # absent categories


def _revenues(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "-grade": -np.ceil(table["grade"]),  # the decimals are the sub-grade
            "pub_rec": 1 - table["pub_rec_zero"],
            "-emp_length": -table["emp_length"],
            "-annual_inc": -table["annual_inc"],
            "dti": table["dti"],
        }
    )


def _interest_rate(table: pd.DataFrame) -> pd.Series:
    """Solve the payment of an annuity for its interest rate, in percent a year."""
    payment = table["payment_inc_ratio"] / 100 * table["annual_inc"] / 12
    months = table["term"].map({"36 months": 36, "60 months": 60})
    # After 50 halvings the interval of 10 percent a month has a width of 1e-16.
    low, high = np.full(len(table), 1e-9), np.full(len(table), 0.1)
    for _ in range(50):
        middle = (low + high) / 2
        is_low = table["loan_amnt"] * middle / (1 - (1 + middle) ** -months) < payment
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return pd.Series(1200 * (low + high) / 2, index=table.index)


def _build(variant: str, x: pd.DataFrame, r: pd.DataFrame, table: pd.DataFrame) -> Dataset:
    y = table["outcome"] == "default"
    return from_frames("loan_psds", variant, x, r, y, metric="accuracy", positives=_POSITIVES)
