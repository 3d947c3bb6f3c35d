"""Auto MPG: how many miles does a car travel on a gallon of fuel?

Source: Quinlan, R. (1993), Auto MPG, UCI Machine Learning Repository,
https://doi.org/10.24432/C5859H, licence CC BY 4.0. The six cars whose horsepower is missing are
excluded, which leaves 392 of 398 rows, in the order of the file.

    x   cylinders [count], acceleration [seconds from 0 to 60 mph], model year [19xx], origin
        [1 America, 2 Europe, 3 Japan, as a number]
    r   -displacement [cubic inches], -horsepower [hp], -weight [pounds]; the mileage decreases in
        all three, so their signs are flipped
    y   miles per gallon, never scaled

The fixed split of 314 and 78 cars is that of COMET (Sivaraman et al., 2020, MIT licence,
https://github.com/AishwaryaSivaraman/COMET, examples/Auto-MPG), which later papers share. It is
harder than most: methods with an RMSE of 3.2 to 3.7 on it have 2.7 to 3.0 on random splits.
"""

from __future__ import annotations

import io

import pandas as pd
import torch
from torch import Tensor

from pyro_gcm.data.dataset import Dataset
from pyro_gcm.data.frames import check_count, from_frames
from pyro_gcm.data.source import RawFile, read_raw

_CARS = RawFile(
    path="auto_mpg/auto-mpg.data",
    sha256="48b830e11feee5572525f8f1691ddb9d38d3d7b7063edcd8fca672c2a5e17d8d",
    url="https://archive.ics.uci.edu/static/public/9/auto+mpg.zip",
    member="auto-mpg.data",
)
_FILE_ROWS, _ROWS = 398, 392

_X = ["cylinders", "acceleration", "model year", "origin"]
_R = ["displacement", "horsepower", "weight"]
_COLUMNS = ["mpg", "cylinders", *_R, "acceleration", "model year", "origin"]

# The 78 test cars of COMET, by their row in auto-mpg.data, counted from 0.
_TEST_ROWS = frozenset([
    2, 8, 12, 16, 17, 18, 24, 44, 46, 47, 48, 59, 63, 64, 65, 75, 76, 84, 94, 99, 109, 113, 115,
    118, 124, 139, 145, 159, 166, 173, 176, 177, 180, 197, 207, 215, 219, 222, 232, 239, 245,
    249, 252, 258, 262, 272, 273, 283, 285, 289, 293, 294, 297, 309, 312, 318, 324, 332, 333,
    335, 338, 340, 341, 344, 346, 353, 356, 357, 361, 377, 379, 382, 383, 387, 390, 392, 393,
    397,
])  # fmt: skip


def default() -> Dataset:
    """Auto MPG in raw units: x [392, 4], r [392, 3], y [392], with the fixed split."""
    table, fixed = _read()
    return _build("default", table, fixed)


def published() -> Dataset:
    """Auto MPG as in the published tables.

    The same rows and columns, with x and r standardised by the mean and the standard deviation
    (denominator n - 1) of the 314 training cars of the fixed split; y stays in miles per gallon.
    On a random split these statistics would include test rows, so use "default" there.
    """
    table, fixed = _read()
    inputs = table[_X + _R]
    train = inputs.iloc[fixed[0].tolist()]
    scaled = (inputs - train.mean()) / train.std(ddof=1)
    return _build("published", scaled.assign(mpg=table["mpg"]), fixed)


def _read() -> tuple[pd.DataFrame, tuple[Tensor, Tensor]]:
    table = pd.read_csv(
        io.BytesIO(read_raw(_CARS)),
        sep=r"\s+",
        header=None,
        names=_COLUMNS,
        usecols=range(len(_COLUMNS)),
        na_values="?",
    )
    check_count("auto-mpg.data", "rows", len(table), _FILE_ROWS)
    table = table.dropna()
    check_count("auto_mpg", "rows with a horsepower", len(table), _ROWS)
    is_test = torch.tensor([row in _TEST_ROWS for row in table.index])
    fixed = ((~is_test).nonzero().flatten(), is_test.nonzero().flatten())
    return table.reset_index(drop=True).astype("float64"), fixed


def _build(variant: str, table: pd.DataFrame, fixed: tuple[Tensor, Tensor]) -> Dataset:
    x, r = table[_X], (-table[_R]).add_prefix("-")
    return from_frames("auto_mpg", variant, x, r, table["mpg"], metric="rmse", fixed=fixed)
