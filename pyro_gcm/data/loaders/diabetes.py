"""Diabetes: has a person been told that they have diabetes or prediabetes?

Source: CDC, Behavioral Risk Factor Surveillance System 2015 (a telephone survey, public domain),
as cleaned by A. Teboul, UCI Machine Learning Repository 891 (2017),
https://doi.org/10.24432/C53919, licence CC BY 4.0. All 253,680 rows, in the order of the file.

    x   one-hot of the 17 other answers: 12 yes/no questions (24 columns), general health (5), days
        of poor mental and of poor physical health in the last 30 (31 each), education (6),
        income (8)
    r   BMI [kg/m2], Smoker [0/1: at least 100 cigarettes in life], HvyAlcoholConsump [0/1], Age
        [13 classes of 5 years: 1 is 18 to 24, 13 is 80 and over]; all assumed to be increasing
    y   1 for diabetes or prediabetes (13.93 % of the rows)

HvyAlcoholConsump correlates negatively with y (-0.057), so an increasing model cannot make use of
it. It is kept because the published tables include it.
"""

from __future__ import annotations

import io

import pandas as pd

from pyro_gcm.data.dataset import Dataset
from pyro_gcm.data.frames import check_count, from_frames, min_max, one_hot
from pyro_gcm.data.source import RawFile, read_raw

_ANSWERS = RawFile(
    path="diabetes/diabetes_binary_health_indicators_BRFSS2015.csv",
    sha256="19f367e3e3350768f0c144c5d73ee5b355f67a57eaaa86ca7bd8aec594d8b1d0",
    url=(
        "https://raw.githubusercontent.com/muzammilCO/Diabetes-Prediction/"
        "856b6c5bcf3231fe2234b2dfe85579db2b7e6c67/"
        "diabetes_binary_health_indicators_BRFSS2015.csv.zip"
    ),
    member="diabetes_binary_health_indicators_BRFSS2015.csv",
)
_ROWS, _POSITIVES, _X_DIM = 253_680, 35_346, 105

_Y = "Diabetes_binary"
_R = ["BMI", "Smoker", "HvyAlcoholConsump", "Age"]


def default() -> Dataset:
    """Diabetes in raw units: x [253680, 105], r [253680, 4], 35,346 positives."""
    table = _read()
    return _build("default", table, table[_R])


def published() -> Dataset:
    """Diabetes as in the published tables.

    The same rows and columns, with r scaled to [0, 1] by the minimum and maximum over all 253,680
    rows, test rows included.
    """
    table = _read()
    return _build("published", table, min_max(table[_R]))


def _read() -> pd.DataFrame:
    table = pd.read_csv(io.BytesIO(read_raw(_ANSWERS))).astype("int64")
    check_count("diabetes", "rows", len(table), _ROWS)
    return table


def _build(variant: str, table: pd.DataFrame, r: pd.DataFrame) -> Dataset:
    x, y = one_hot(table.drop(columns=[_Y, *_R])), table[_Y]
    return from_frames(
        "diabetes", variant, x, r, y, metric="auc", positives=_POSITIVES, x_dim=_X_DIM
    )
