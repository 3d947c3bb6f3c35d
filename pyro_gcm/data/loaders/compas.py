"""COMPAS: is a defendant charged again within two years?

Source: ProPublica, "How We Analyzed the COMPAS Recidivism Algorithm" (2016), the file
compas-scores-two-years.csv of https://github.com/propublica/compas-analysis. It has no licence
file; ProPublica published it for re-analysis. It contains names and birth dates of real people, so
this loader reads only the twelve columns that it needs.

The rows are those that ProPublica kept (screened within 30 days of the arrest, with a known
outcome, a charge of degree F or M, and a score): 6,172 of 7,214, in the order of the file.

    x   age [years], one-hot of race (6) and sex (2)
    r   priors_count, juv_fel_count, juv_misd_count, juv_other_count [counts]; all increasing
    y   1 if two_year_recid is 1 (45.51 % of the rows)
"""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_gcm.data.dataset import Dataset
from pyro_gcm.data.frames import check_count, from_frames, min_max, one_hot
from pyro_gcm.data.source import RawFile, read_raw

_SCORES = RawFile(
    path="compas/compas-scores-two-years.csv",
    sha256="c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
    url=(
        "https://raw.githubusercontent.com/propublica/compas-analysis/"
        "bafff5da3f2e45eca6c2d5055faad269defd135a/compas-scores-two-years.csv"
    ),
)
_ROWS, _POSITIVES, _X_DIM, _TRAIN_ROWS = 6_172, 2_809, 9, 4_937

_CATEGORIES = ["race", "sex"]
_R = ["priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count"]
_FILTER = ["days_b_screening_arrest", "is_recid", "c_charge_degree", "score_text"]
_COLUMNS = ["age", *_CATEGORIES, *_R, "two_year_recid", *_FILTER]


def default() -> Dataset:
    """COMPAS in raw units: x [6172, 9], r [6172, 4], 2,809 positives, with the fixed split."""
    table = _read()
    return _build("default", table[["age"]], table[_R], table)


def published() -> Dataset:
    """COMPAS as in the published tables.

    The same rows and columns, with age and r scaled to [0, 1] by the minimum and maximum over all
    6,172 rows, test rows included.
    """
    table = _read()
    return _build("published", min_max(table[["age"]]), min_max(table[_R]), table)


def _read() -> pd.DataFrame:
    # "N/A" in score_text stays a string; an empty day of screening becomes NaN.
    table = pd.read_csv(
        io.BytesIO(read_raw(_SCORES)),
        usecols=_COLUMNS,
        keep_default_na=False,
        na_values={"days_b_screening_arrest": [""]},
    )
    kept = (
        table["days_b_screening_arrest"].between(-30, 30)
        & (table["is_recid"] != -1)
        & (table["c_charge_degree"] <= "O")
        & (table["score_text"] != "N/A")
    )
    table = table.loc[kept].reset_index(drop=True)
    check_count("compas", "rows after the filter", len(table), _ROWS)
    return table


def _build(variant: str, age: pd.DataFrame, r: pd.DataFrame, table: pd.DataFrame) -> Dataset:
    x = pd.concat([age, one_hot(table[_CATEGORIES])], axis="columns")
    return from_frames(
        "compas",
        variant,
        x,
        r,
        table["two_year_recid"],
        metric="accuracy",
        positives=_POSITIVES,
        x_dim=_X_DIM,
        fixed=_shared_split(),
    )


def _shared_split() -> tuple[Tensor, Tensor]:
    """Reproduce np.random.seed(78712); np.random.shuffle(rows); train = rows[:4937]."""
    order = np.arange(_ROWS)
    np.random.RandomState(78712).shuffle(order)
    rows = torch.from_numpy(order.astype(np.int64))
    return rows[:_TRAIN_ROWS], rows[_TRAIN_ROWS:]
