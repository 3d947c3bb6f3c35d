"""Every set: names, sizes, splits, raw units, the published scaling, and its datasheet."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from pyro_gcm import data
from pyro_gcm.data import NAMES, Dataset
from pyro_gcm.data.dataset import SETS
from pyro_gcm.data.sets import tables

TEXT = Path(data.__file__).with_name("datasheets.md").read_text(encoding="utf-8")
#: Numbers of categorical columns of the source; the datasheets state how many categories there are.
GROUPS = {"adult": 4, "compas": 2, "diabetes": 17, "loan": 2, "loan_psds": 2}
#: Lowest and highest revenues, and those of the first row, of the variant "default".
RAW = {
    "adult": ([1, 0, 17, 1], [16, 99_999, 90, 99], [13, 2_174, 39, 40]),
    "auto_mpg": ([-455, -230, -5140], [-68, -46, -1613], [-307, -130, -3504]),
    "compas": ([0, 0, 0, 0], [38, 20, 13, 9], [0, 0, 0, 0]),
    "diabetes": ([12, 0, 0, 1], [98, 1, 1, 13], [40, 1, 0, 9]),
}
#: How many of the first columns of x, and all of r, are scaled in the variant "published".
SCALED = {"adult": 0, "compas": 1, "diabetes": 0, "loan_psds": 2}


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


@pytest.mark.parametrize("name", RAW)
def test_default_inputs_are_in_raw_units(real, name: str) -> None:
    r = real(name).r
    assert [row.tolist() for row in (r.amin(0), r.amax(0), r[0])] == list(RAW[name])
    if name == "compas":
        age = real(name).x[:, real(name).x_names.index("age")]
        assert (age.min(), age.max()) == (18, 96)
    if name == "diabetes":
        on = {x for x, value in zip(real(name).x_names, real(name).x[0], strict=True) if value}
        assert {"HighBP=1", "GenHlth=5", "MentHlth=18", "PhysHlth=15", "Income=3"} < on


@pytest.mark.parametrize("name", SCALED)
def test_published_scales_over_all_rows(real, name: str) -> None:
    raw, published, scaled = real(name), real(name, "published"), SCALED[name]
    for values, found in ((raw.r, published.r), (raw.x[:, :scaled], published.x[:, :scaled])):
        low, high = values.amin(0), values.amax(0)
        torch.testing.assert_close(found, (values - low) / (high - low))
    if name != "adult":  # whose published variant has another label and another column
        assert published.x[:, scaled:].equal(raw.x[:, scaled:])
        assert published.y.equal(raw.y)


def test_unknown_name_and_variant_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"name must be one of \['adult', .*\], got 'iris'"):
        data.load("iris")
    with pytest.raises(ValueError, match=r"variant must be one of .*'published'\], got 'raw'"):
        data.load("adult", variant="raw")


def test_names_and_birth_dates_of_people_are_not_read(real) -> None:
    real("compas")  # skips without the file
    assert [table.shape[1] for table in tables(SETS["compas"])] == [12]
