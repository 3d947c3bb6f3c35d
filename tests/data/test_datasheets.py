"""The datasheets state the numbers of the loaders."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from pyro_gcm import data
from pyro_gcm.data import NAMES
from pyro_gcm.data.loaders import loan

_TEXT = Path(data.__file__).with_name("datasheets.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    """The text below the heading that ends in (`name`)."""
    found = re.search(rf"^## [^\n]* \(`{name}`\)\n(.*?)(?=^## |\Z)", _TEXT, re.M | re.S)
    assert found, f"datasheets.md has no section for {name}"
    return found[1]


def stated(name: str, what: str, variant: str) -> float:
    found = re.search(rf"^\| {what} \| ([\d.,]+) \| ([\d.,]+) \|$", section(name), re.M)
    assert found, f"the section of {name} does not state {what}"
    return float(found[1 if variant == "default" else 2].replace(",", ""))


def test_every_data_set_has_a_section_with_every_part() -> None:
    assert re.findall(r"^## .*\(`(\w+)`\)$", _TEXT, re.M) == list(NAMES)
    for name in NAMES:
        for part in ("- Source: ", "Licence", "Directions: ", "Known problems:"):
            assert part in section(name), name
    for variant in ("default", "published"):  # what the loader of loan checks
        assert stated("loan", "rows", variant) == loan._TRAIN_ROWS + loan._TEST_ROWS
        assert stated("loan", "columns of x", variant) == len(loan.X_NAMES)
        assert stated("loan", "columns of r", variant) == len(loan._R_NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("variant", ["default", "published"])
def test_rows_and_columns_are_those_of_the_loader(real, name: str, variant: str) -> None:
    dataset = real(name, variant)
    assert stated(name, "rows", variant) == len(dataset)
    assert stated(name, "columns of x", variant) == dataset.x_dim
    assert stated(name, "columns of r", variant) == dataset.r_dim
    if name != "loan":  # which has not been measured
        assert stated(name, "mean of y", variant) == pytest.approx(
            dataset.y.mean().item(), abs=5.1e-5
        )


@pytest.mark.parametrize("name", [name for name in NAMES if name != "loan"])
def test_correlations_are_those_of_the_default_variant(real, name: str) -> None:
    rows = re.findall(r"^\| (.+) \| (-?0\.\d{3}) \|$", section(name), re.M)
    dataset = real(name)
    assert tuple(column for column, _ in rows) == dataset.r_names
    found = np.corrcoef(dataset.r.numpy().T, dataset.y.numpy())[-1, :-1]
    np.testing.assert_allclose([float(value) for _, value in rows], found, atol=5.1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_fixed_split_is_stated(real, name: str) -> None:
    row = re.search(rf"^\| `{name}` \| .* \| (.*) \|$", _TEXT, re.M)
    assert row
    fixed = real(name).fixed
    sizes = "none" if fixed is None else " + ".join(f"{len(rows):,}" for rows in fixed)
    assert row[1].removesuffix(" (by time)") == sizes
