"""What all loaders have in common: sizes, names, splits, published scaling and checks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

from pyro_gcm import data
from pyro_gcm.data import loaders
from pyro_gcm.data.loaders.loan import X_NAMES

METRICS = {
    **dict.fromkeys(("adult", "diabetes"), "auc"),
    **dict.fromkeys(("auto_mpg", "blog"), "rmse"),
    **dict.fromkeys(("compas", "loan", "loan_psds"), "accuracy"),
}
#: Numbers of categorical columns of the source; the datasheets state how many categories there are.
GROUPS = {"adult": 4, "compas": 2, "diabetes": 17, "loan": 2, "loan_psds": 2}


def loader(name: str) -> Any:
    return import_module(f"{loaders.__name__}.{name}")


VARIANTS = pytest.mark.parametrize("variant", ["default", "published"])


@VARIANTS
@pytest.mark.parametrize("name", METRICS)
def test_names_metrics_and_the_rows_of_the_fixed_split_are_the_expected_ones(real, name, variant):
    dataset = real(name, variant)
    assert (dataset.name, dataset.variant, dataset.metric) == (name, variant, METRICS[name])
    assert dataset.response == ("continuous" if dataset.metric == "rmse" else "binary")
    assert dataset.r_names == real(name).r_names  # which the datasheets state
    assert name not in ("loan", "loan_psds") or dataset.x_names == X_NAMES
    if name not in ("auto_mpg", "blog", "compas", "loan"):
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


@pytest.mark.parametrize(
    ("name", "low", "high", "first"),
    [
        ("adult", [1, 0, 17, 1], [16, 99_999, 90, 99], [13, 2_174, 39, 40]),
        ("auto_mpg", [-455, -230, -5140], [-68, -46, -1613], [-307, -130, -3504]),
        ("compas", [0, 0, 0, 0], [38, 20, 13, 9], [0, 0, 0, 0]),
        ("diabetes", [12, 0, 0, 1], [98, 1, 1, 13], [40, 1, 0, 9]),
    ],
)
def test_default_inputs_are_in_raw_units(real, name: str, low: Any, high: Any, first: Any) -> None:
    r = real(name).r
    assert [row.tolist() for row in (r.amin(0), r.amax(0), r[0])] == [low, high, first]
    if name == "compas":
        age = real(name).x[:, real(name).x_names.index("age")]
        assert (age.min(), age.max()) == (18, 96)
    if name == "diabetes":
        on = {x for x, value in zip(real(name).x_names, real(name).x[0], strict=True) if value}
        assert {"HighBP=1", "GenHlth=5", "MentHlth=18", "PhysHlth=15", "Income=3"} < on


@pytest.mark.parametrize(
    ("name", "scaled"), [("adult", 0), ("compas", 1), ("diabetes", 0), ("loan_psds", 2)]
)
def test_published_scales_over_all_rows(real, name: str, scaled: int) -> None:
    """All columns of r and the first columns of x are scaled, the others are left unchanged."""
    raw, published = real(name), real(name, "published")
    for values, found in ((raw.r, published.r), (raw.x[:, :scaled], published.x[:, :scaled])):
        low, high = values.amin(0), values.amax(0)
        torch.testing.assert_close(found, (values - low) / (high - low))
    if name != "adult":  # whose published variant has another label and another column
        assert published.x[:, scaled:].equal(raw.x[:, scaled:])
        assert published.y.equal(raw.y)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("adult", r"adult\.data has 32560 rows, expected 32561"),
        ("auto_mpg", r"auto-mpg\.data has 397 rows, expected 398"),
        ("diabetes", "diabetes has 253679 rows, expected 253680"),
        ("loan_psds", "loan_psds has 45341 rows, expected 45342"),
    ],
)
def test_table_without_its_last_row_is_refused(real, monkeypatch, name: str, message: str) -> None:
    real(name)  # skips without the files
    module = loader(name)
    whole = module.read_raw
    monkeypatch.setattr(module, "read_raw", lambda file: whole(file).rstrip().rsplit(b"\n", 1)[0])
    with pytest.raises(ValueError, match=message):
        module.default()


def test_unknown_name_and_variant_are_refused_with_the_known_ones() -> None:
    assert sorted(METRICS) == list(data.NAMES)
    with pytest.raises(ValueError, match=r"name must be one of \['adult', .*\], got 'iris'"):
        data.load("iris")
    with pytest.raises(ValueError, match=r"variant must be one of .*'published'\], got 'raw'"):
        data.load("adult", variant="raw")


@pytest.mark.parametrize(("name", "count"), [("compas", 12), ("loan_psds", 11)])
def test_only_the_needed_columns_are_read(real, name: str, count: int) -> None:
    real(name)  # skips without the files
    assert len(loader(name)._read().columns) == count
