"""From raw files to data sets, one function a set; `sets.json` has their files and columns.

What the columns mean, in which units, and what is known to be wrong with them, is said in
`datasheets.md`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_gcm.data.dataset import SETS, Dataset, check_count, from_frames, min_max, one_hot
from pyro_gcm.data.source import RawFile, read_raw, unzip

_MAX_COMMENTS = 8
_LOWEST_RATE = 5.3  # percent a year

#: Columns x, r and y of a data set, and training and test rows of its fixed split, if it has one.
Parts = tuple[pd.DataFrame, pd.DataFrame, "pd.Series[Any]", tuple[Tensor, Tensor] | None]


def build(name: str, variant: str) -> Dataset:
    """The data set of `data.load`."""
    about = SETS[name]
    x, r, y, fixed = _PARTS[name](about, variant == "published")
    return from_frames(name, variant, x, r, y, metric=about["metric"], fixed=fixed)


def tables(about: dict[str, Any]) -> list[pd.DataFrame]:
    """The tables in the files of a set."""
    return [pd.read_csv(io.BytesIO(_content(file)), **file["read"]) for file in about["files"]]


def _content(file: dict[str, Any]) -> bytes:
    return read_raw(RawFile(**{name: value for name, value in file.items() if name != "read"}))


def _adult(about: dict[str, Any], published: bool) -> Parts:
    """The published label is 1 for ">50K." alone, which only adult.test writes.

    An unknown workclass is one category in adult.data, and another one in adult.test.
    """
    learn, test = tables(about)
    table = pd.concat([learn, test], ignore_index=True)
    y = table["income"].isin([">50K."] if published else [">50K", ">50K."])
    if published:
        unknown = (table["workclass"] == "?") & (table.index >= len(learn))
        table["workclass"] = table["workclass"].mask(unknown, "? (adult.test)")
    r = table[about["r"]]
    return one_hot(table[about["x"]]), min_max(r) if published else r, y, None


def _auto_mpg(about: dict[str, Any], published: bool) -> Parts:
    """Published inputs are standardised by the training cars of the fixed split."""
    (table,) = tables(about)
    table = table.dropna()
    is_test = torch.from_numpy(table.index.isin(about["test_rows"]).copy())
    table = table.reset_index(drop=True).astype("float64")
    fixed = (~is_test).nonzero()[:, 0], is_test.nonzero()[:, 0]
    inputs = table[about["x"] + about["r"]]
    if published:
        train = inputs.iloc[fixed[0].tolist()]
        inputs = (inputs - train.mean()) / train.std(ddof=1)
    return inputs[about["x"]], (-inputs[about["r"]]).add_prefix("-"), table["mpg"], fixed


def _blog(about: dict[str, Any], published: bool) -> Parts:
    """The training file comes first, and then the test files by date.

    Published, the first row of each file is lost, and the response was cast to 8 bits before the
    posts were selected.
    """
    (file,) = about["files"]
    files = unzip(_content(file), file["path"])
    contents = [files.pop("blogData_train.csv"), *files.values()]
    table = pd.read_csv(io.BytesIO(b"".join(contents)), header=None, dtype=np.float64)
    table.columns = pd.Index([f"attribute {i}" for i in range(1, table.shape[1] + 1)])
    rows = [content.count(b"\n") for content in contents]
    is_train = np.arange(len(table)) < rows[0]
    y = table.pop(about["y"])
    kept = y <= _MAX_COMMENTS
    if published:
        y = y % 256
        kept = y <= _MAX_COMMENTS
        kept[np.cumsum([0, *rows[:-1]])] = False
    inputs, train = table.drop(columns=about["constant"])[kept], is_train[kept.to_numpy()]
    inputs = min_max(inputs) if published else inputs
    fixed = torch.arange(len(train)).split([int(train.sum()), int((~train).sum())])
    r = inputs[list(about["r"])].rename(columns=about["r"])
    return inputs.drop(columns=list(about["r"])), r, y[kept] / _MAX_COMMENTS, fixed


def _compas(about: dict[str, Any], published: bool) -> Parts:
    """The rows that ProPublica kept; the split is a legacy shuffle of numpy with a seed."""
    (table,) = tables(about)
    kept = (
        table["days_b_screening_arrest"].between(-30, 30)
        & (table["is_recid"] != -1)
        & (table["c_charge_degree"] <= "O")
        & (table["score_text"] != "N/A")
    )
    table = table.loc[kept].reset_index(drop=True)
    numbers = table[["age", *about["r"]]]
    numbers = min_max(numbers) if published else numbers
    x = pd.concat([numbers[["age"]], one_hot(table[about["x"]])], axis="columns")
    order = np.arange(len(table))
    np.random.RandomState(78712).shuffle(order)
    train, test = torch.from_numpy(order.astype(np.int64)).tensor_split([len(table) * 4 // 5])
    return x, numbers[about["r"]], table[about["y"]], (train, test)


def _diabetes(about: dict[str, Any], published: bool) -> Parts:
    (table,) = tables(about)
    table = table.astype("int64")
    r, y = table[about["r"]], table[about["y"]]
    x = one_hot(table.drop(columns=[*about["r"], about["y"]]))
    return x, min_max(r) if published else r, y, None


def _loan(about: dict[str, Any], published: bool) -> Parts:
    """Flipped columns of r are minus those of the files, or published 1 minus those."""
    names = [*about["r"], *about["x"]]
    wanted = [*(f"feature_{i}" for i in range(len(names))), about["y"]]
    files = tables(about)
    for file, table, rows in zip(about["files"], files, about["rows"], strict=True):
        try:
            if list(table.columns) != wanted:
                raise ValueError(f"columns are {list(table.columns)}, expected {wanted}")
            check_count(file["path"], "rows", len(table), rows)
            table[wanted] = table.astype("float64")
        except ValueError as error:
            wrong = f"{file['path']} does not match its description: {error}"
            raise ValueError(f"{wrong}. {about['note'].format(url=file['url'])}") from error
    table = pd.concat(files, ignore_index=True).set_axis([*names, about["y"]], axis="columns")
    r = table[about["r"]].copy()
    for name in about["r"]:
        if name.startswith("-"):
            r[name] = float(published) - r[name]
    train, test = torch.arange(len(table)).split(about["rows"])
    return table[about["x"]], r, table[about["y"]], (train, test)


def _loan_psds(about: dict[str, Any], published: bool) -> Parts:
    """The columns of `loan`; decimals of a grade are the sub-grade."""
    (table,) = tables(about)
    table = table[table["emp_length"] != 0].reset_index(drop=True)
    numbers = pd.DataFrame(
        {
            "loan_amnt": table["loan_amnt"].astype("float64"),
            "int_rate": _interest_rate(table).clip(_LOWEST_RATE),
        }
    )
    r = pd.DataFrame(
        {
            "-grade": -np.ceil(table["grade"]),
            "pub_rec": 1 - table["pub_rec_zero"],
            "-emp_length": -table["emp_length"],
            "-annual_inc": -table["annual_inc"],
            "dti": table["dti"],
        }
    )
    if published:
        numbers, r = min_max(numbers), min_max(r)
    numbers["term=60 months"] = (table["term"] == "60 months").astype("float64")
    x = pd.concat([numbers, one_hot(table[about["x"]])], axis="columns")
    x = x.reindex(columns=SETS["loan"]["x"], fill_value=0.0)  # absent categories
    return x, r, table[about["y"]] == "default", None


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


_PARTS: dict[str, Callable[[dict[str, Any], bool], Parts]] = {
    "adult": _adult,
    "auto_mpg": _auto_mpg,
    "blog": _blog,
    "compas": _compas,
    "diabetes": _diabetes,
    "loan": _loan,
    "loan_psds": _loan_psds,
}
