"""Loan Defaulter: does the borrower of a LendingClub loan default?

Source: Runje, D. and Shankaranarayana, S. M. (2023), data sets of "Constrained Monotonic Neural
Networks" (ICML), https://zenodo.org/records/7968969, licence CC BY 4.0: train_loan.csv (418,697
rows) and test_loan.csv (70,212), which is the fixed split.

This loader follows public descriptions of the two files and of the meaning of their columns
(https://github.com/airtai/monotonic-nn, nbs/experiments/Loan.ipynb, which prints the columns and
five rows that agree with the names below). It has not been run on the files, and their SHA-256
digests are not known; the loader checks rows, columns and labels.

    x   loan_amnt, int_rate, one column for a term of 60 months, one-hot of home_ownership (6)
        and purpose (14)
    r   -grade (A is the highest), pub_rec_bankruptcies, -emp_length, -annual_inc, dti; the risk of
        a default decreases in three of them, so their signs are flipped
    y   1 for a default

The files do not contain raw units: every column is scaled to [0, 1], apparently by the minimum and
maximum over training and test rows.
"""

from __future__ import annotations

import io

import pandas as pd
import torch

from pyro_gcm.data.dataset import Dataset
from pyro_gcm.data.frames import check_count, from_frames
from pyro_gcm.data.source import RawFile, read_raw

_URL = "https://zenodo.org/records/7968969/files"
# The digests are not known, since the files were not available.
_TRAIN = RawFile("loan/train_loan.csv", sha256=None, url=f"{_URL}/train_loan.csv")
_TEST = RawFile("loan/test_loan.csv", sha256=None, url=f"{_URL}/test_loan.csv")
_TRAIN_ROWS, _TEST_ROWS = 418_697, 70_212

_HOMES = ("ANY", "MORTGAGE", "NONE", "OTHER", "OWN", "RENT")
_PURPOSES = (
    *("car", "credit_card", "debt_consolidation", "educational", "home_improvement", "house"),
    *("major_purchase", "medical", "moving", "other", "renewable_energy", "small_business"),
    *("vacation", "wedding"),
)
X_NAMES = (
    *("loan_amnt", "int_rate", "term=60 months"),
    *(f"home_ownership={home}" for home in _HOMES),
    *(f"purpose={purpose}" for purpose in _PURPOSES),
)
_R_NAMES = ("-grade", "pub_rec_bankruptcies", "-emp_length", "-annual_inc", "dti")
_Y = "ground_truth"
_COLUMNS = [*(f"feature_{i}" for i in range(len(_R_NAMES) + len(X_NAMES))), _Y]


def default() -> Dataset:
    """Loan Defaulter as in the files, but for the signs: x [488909, 23], r [488909, 5]."""
    return _build("default", flip=0.0)


def published() -> Dataset:
    """Loan Defaulter with all of r in [0, 1]: flipped columns are 1 minus those of the files."""
    return _build("published", flip=1.0)


def _build(variant: str, *, flip: float) -> Dataset:
    table = pd.concat([_read(_TRAIN, _TRAIN_ROWS), _read(_TEST, _TEST_ROWS)], ignore_index=True)
    r = table[_COLUMNS[: len(_R_NAMES)]].set_axis(list(_R_NAMES), axis="columns")
    for name in _R_NAMES:
        if name.startswith("-"):
            r[name] = flip - r[name]
    return from_frames(
        "loan",
        variant,
        table[_COLUMNS[len(_R_NAMES) : -1]].set_axis(list(X_NAMES), axis="columns"),
        r,
        table[_Y],
        metric="accuracy",
        fixed=(torch.arange(_TRAIN_ROWS), torch.arange(_TRAIN_ROWS, len(table))),
    )


def _read(file: RawFile, rows: int) -> pd.DataFrame:
    content = read_raw(file)
    try:
        table = pd.read_csv(io.BytesIO(content))
        if list(table.columns) != _COLUMNS:
            raise ValueError(
                f"columns are {list(table.columns)}, expected feature_0 to feature_27 and {_Y}"
            )
        check_count(file.path, "rows", len(table), rows)
        table = table.astype("float64")
        if not table[_Y].isin([0, 1]).all():
            raise ValueError("labels are not 0 and 1")
    except ValueError as error:
        raise ValueError(
            f"{file.path} does not match its description: {error}. The loader of 'loan' was "
            f"written from the published description of {file.url} and has not been run on the "
            "file. Either the copy is damaged (remove it, also from pooch's cache), or the "
            "description is wrong"
        ) from error
    return table
