"""Every set: names, sizes, splits, units, choices of the literature; and Loan Defaulter."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_gcm import data
from pyro_gcm.data import NAMES, Dataset, load, sets
from pyro_gcm.data.dataset import SETS
from pyro_gcm.data.sets import tables
from pyro_gcm.data.source import RawFile

TEXT = Path(data.__file__).with_name("datasheets.md").read_text(encoding="utf-8")
#: Numbers of categorical columns of the source; the datasheets state how many categories there are.
GROUPS = {"adult": 4, "compas": 2, "diabetes": 17, "loan": 2, "loan_psds": 2}
#: What `fingerprint` makes of the sets whose files are here.
FINGERPRINTS: dict[tuple[str, str], list[float]] = {
    ("adult", "default"): [20.9386786, -5.810874506, 0, 346874673],
    ("adult", "published"): [199.9015063, 0, 0, 2797895478],
    ("auto_mpg", "default"): [-6.055178142, 9.535554069, 114.7158357, 1283083742],
    ("auto_mpg", "published"): [-15.39591023, 3.736853035, 114.7158357, 1283083742],
    ("blog", "default"): [-299.5405263, -8.215395328, 56482.21884, 706461298],
    ("blog", "published"): [1.889372665, 0, 56503.11481, 706461298],
    ("compas", "default"): [-10.76117527, 0.6018880507, 269744.0927, 111287469],
    ("compas", "published"): [-12.27873829, 0, 269744.0927, 111287469],
    ("diabetes", "default"): [-818.3966034, -0.1416263029, 0, 1797343448],
    ("diabetes", "published"): [-821.5384117, 0, 0, 1797343448],
    ("loan_psds", "default"): [-64.69496845, 22.70483313, 0, 1850714273],
    ("loan_psds", "published"): [-66.64730496, 0, 0, 1850714273],
}


def section(name: str) -> str:
    """The text below the heading that ends in (`name`)."""
    found = re.search(rf"^## [^\n]* \(`{name}`\)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
    assert found, f"datasheets.md has no section for {name}"
    return found[1]


def stated(name: str, what: str, variant: str) -> float:
    found = re.search(rf"^\| {what} \| ([\d.,]+) \| ([\d.,]+) \|$", section(name), re.M)
    assert found, f"the section of {name} does not state {what}"
    return float(found[1 if variant == "default" else 2].replace(",", ""))


@pytest.mark.parametrize("name", NAMES)
def test_a_set_has_the_rows_columns_and_splits_of_its_datasheet(real, name: str) -> None:
    raw = real(name)
    for variant in ("default", "published"):
        dataset: Dataset = real(name, variant)
        assert (dataset.name, dataset.variant) == (name, variant)
        assert dataset.response == ("continuous" if dataset.metric == "rmse" else "binary")
        assert dataset.r_names == raw.r_names
        assert stated(name, "rows", variant) == len(dataset)
        assert stated(name, "columns of x", variant) == dataset.x_dim
        assert stated(name, "columns of r", variant) == dataset.r_dim
        mean = dataset.y.mean().item()
        assert name == "loan" or stated(name, "mean of y", variant) == pytest.approx(mean, abs=5e-5)
        if dataset.fixed is None:
            with pytest.raises(ValueError, match=rf"{name} .*no fixed split"):
                dataset.fixed_split()
        else:
            rows = torch.cat(dataset.fixed_split()).sort().values
            assert rows.equal(torch.arange(len(dataset)))
        # Every row has one category of each categorical column.
        of = [x.partition("=")[0] for x in dataset.x_names if "=" in x]
        columns = {column for column in of if of.count(column) > 1}  # term=60 is a number
        assert len(columns) == GROUPS.get(name, 0)
        for column in columns:
            group = [i for i, x in enumerate(dataset.x_names) if x.startswith(f"{column}=")]
            of_rows = dataset.x[:, group]
            assert ((of_rows == 0) | (of_rows == 1)).all()
            assert (of_rows.sum(1) == 1).all()
    row = re.search(rf"^\| `{name}` \| .* \| (.*) \|$", TEXT, re.M)
    assert row
    sizes = "none" if raw.fixed is None else " + ".join(f"{len(rows):,}" for rows in raw.fixed)
    assert row[1].removesuffix(" (by time)") == sizes
    if name != "loan":  # which has not been measured
        rows = re.findall(r"^\| (.+) \| (-?0\.\d{3}) \|$", section(name), re.M)
        assert tuple(column for column, _ in rows) == raw.r_names
        found = np.corrcoef(raw.r.numpy().T, raw.y.numpy())[-1, :-1]
        np.testing.assert_allclose([float(value) for _, value in rows], found, atol=5.1e-4)


def test_every_set_has_a_section_with_every_part() -> None:
    assert re.findall(r"^## .*\(`(\w+)`\)$", TEXT, re.M) == list(NAMES)
    for name in NAMES:
        for part in ("- Source: ", "Licence", "- Columns: ", "Directions: ", "Known problems:"):
            assert part in section(name), name
    loan = SETS["loan"]
    for variant in ("default", "published"):  # what the loader of loan checks
        assert stated("loan", "rows", variant) == sum(loan["rows"])
        assert stated("loan", "columns of x", variant) == len(loan["x"])
        assert stated("loan", "columns of r", variant) == len(loan["r"])


def fingerprint(dataset: Dataset) -> list[float]:
    """Numbers of its values and units, its fixed split and its names, which any change moves."""
    whole = torch.cat([dataset.x, dataset.r, dataset.y[:, None]], 1).numpy()
    size = np.abs(whole).max(0)
    size[size == 0.0] = 1.0
    rows, columns = (np.cos(np.arange(n)) for n in whole.shape)
    order = torch.cat(dataset.fixed or (torch.zeros(0),)).numpy()
    names = zlib.crc32(repr((dataset.x_names, dataset.r_names)).encode())
    return [
        rows @ (whole / size) @ columns,
        np.log(size) @ columns,
        rows[: len(order)] @ order,
        names,
    ]


@pytest.mark.parametrize(("name", "variant"), FINGERPRINTS)
def test_every_value_unit_and_order_of_a_set_stays_as_it_was(real, name: str, variant: str) -> None:
    """Each was compared with the files, or with the code of the literature, when it was noted."""
    found = fingerprint(real(name, variant))
    assert found == pytest.approx(FINGERPRINTS[name, variant], rel=1e-8, abs=1e-7)


def test_unknown_name_and_variant_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"name must be one of \['adult', .*\], got 'iris'"):
        data.load("iris")
    with pytest.raises(ValueError, match=r"variant must be one of .*'published'\], got 'raw'"):
        data.load("adult", variant="raw")


def test_names_and_birth_dates_of_people_are_not_read(real) -> None:
    real("compas")  # skips without the file
    assert [table.shape[1] for table in tables(SETS["compas"])] == [12]


def test_filter_drops_every_kind_of_row_that_propublica_dropped(monkeypatch) -> None:
    header = ",".join(SETS["compas"]["files"][0]["read"]["usecols"])
    good = "30,Other,Male,1,0,0,0,1,-1,1,F,Low"
    bad = [
        "31,Other,Male,1,0,0,0,1,31,1,F,Low",
        "32,Other,Male,1,0,0,0,1,-31,1,F,Low",
        "33,Other,Male,1,0,0,0,1,,1,F,Low",
        "34,Other,Male,1,0,0,0,1,0,-1,F,Low",
        "35,Other,Male,1,0,0,0,1,0,1,O,Low",  # kept: "O" <= "O", as ProPublica wrote the filter
        "36,Other,Male,1,0,0,0,1,0,1,X,Low",
        "37,Other,Male,1,0,0,0,1,0,1,M,N/A",
    ]
    monkeypatch.setattr(sets, "read_raw", lambda _: "\n".join([header, good, *bad]).encode())
    assert data.load("compas").frame()["age"].tolist() == [30, 35]


COLUMNS = [f"feature_{i}" for i in range(28)] + ["ground_truth"]


def table(rows: int, seed: int) -> pd.DataFrame:
    values = np.random.default_rng(seed).random((rows, 29)).round(6)
    values[:, -1] = np.arange(rows) % 2
    return pd.DataFrame(values, columns=COLUMNS)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, pd.DataFrame]:
    """Small files of 7 and 4 rows in place of the real ones."""
    files = {"loan/train_loan.csv": table(7, 0), "loan/test_loan.csv": table(4, 1)}

    def read_raw(file: RawFile) -> bytes:
        return files[file.path].to_csv(index=False).encode()

    monkeypatch.setattr(sets, "read_raw", read_raw)
    monkeypatch.setitem(SETS["loan"], "rows", [7, 4])
    return files


def test_revenues_come_first_and_are_oriented_to_increase(files) -> None:
    for variant, flip in (("default", 0), ("published", 1)):
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
