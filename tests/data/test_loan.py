"""Loan Defaulter reads the two files as they are described, and refuses any other table.

The files are too large for the test suite, so small files with the same columns replace them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_gcm.data import load, sets
from pyro_gcm.data.dataset import SETS
from pyro_gcm.data.source import RawFile

NAMES = [f"feature_{i}" for i in range(28)] + ["ground_truth"]


def table(rows: int, seed: int) -> pd.DataFrame:
    values = np.random.default_rng(seed).random((rows, 29)).round(6)
    values[:, -1] = np.arange(rows) % 2
    return pd.DataFrame(values, columns=NAMES)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, pd.DataFrame]:
    """Small files of 7 and 4 rows in place of the real ones."""
    files = {"loan/train_loan.csv": table(7, 0), "loan/test_loan.csv": table(4, 1)}

    def read_raw(file: RawFile) -> bytes:
        return files[file.path].to_csv(index=False).encode()

    monkeypatch.setattr(sets, "read_raw", read_raw)
    monkeypatch.setitem(SETS["loan"], "rows", [7, 4])
    return files


@pytest.mark.parametrize(("variant", "flip"), [("default", 0), ("published", 1)])
def test_revenues_come_first_and_are_oriented_to_increase(files, variant: str, flip: int) -> None:
    dataset = load("loan", variant)
    whole = pd.concat(files.values()).to_numpy()
    wanted = whole[:, :5].copy()
    wanted[:, [0, 2, 3]] = flip - wanted[:, [0, 2, 3]]  # grade, emp_length, annual_inc
    np.testing.assert_array_equal(dataset.r, wanted)
    np.testing.assert_array_equal(dataset.x, whole[:, 5:28])
    np.testing.assert_array_equal(dataset.y, whole[:, 28])
    wanted = "-grade", "pub_rec_bankruptcies", "-emp_length", "-annual_inc", "dti"
    assert dataset.r_names == wanted
    assert (dataset.name, dataset.variant) == ("loan", variant)
    assert (dataset.response, dataset.metric) == ("binary", "accuracy")
    train, test = dataset.fixed_split()  # that of the two files
    assert (train.tolist(), test.tolist()) == (list(range(7)), list(range(7, 11)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.iloc[:-1], "loan/train_loan.csv has 6 rows, expected 7"),
        (lambda t: t.rename(columns={"feature_3": "income"}), r"columns are \['feature_0', .*"),
        (lambda t: t.drop(columns="ground_truth"), "columns are"),
        (lambda t: t.assign(feature_3="A"), "could not convert string"),
    ],
    ids=["rows", "name", "label", "text"],
)
def test_other_tables_are_refused_with_a_warning_that_the_loader_is_untested(
    files, change, message: str
) -> None:
    path = "loan/train_loan.csv"
    files[path] = change(files[path])
    with pytest.raises(ValueError, match=message) as caught:
        load("loan")
    assert str(caught.value).startswith(f"{path} does not match its description")
    assert "has not been run on the file" in str(caught.value)
    assert "https://zenodo.org/records/7968969/files/train_loan.csv" in str(caught.value)
