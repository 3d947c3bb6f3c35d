"""What all loaders have in common: sizes, names, splits, published scaling and checks."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from pyro_gcm import data
from pyro_gcm.data import loaders
from pyro_gcm.data.loaders.loan import X_NAMES


class Sizes(NamedTuple):
    """Rows, columns of x and of r, sum of a binary y, and sizes of the fixed split."""

    rows: int
    x_dim: int
    r_dim: int
    positives: int | None = None
    split: tuple[int, int] | None = None


SIZES = {
    ("adult", "default"): Sizes(48_842, 32, 4, 11_687),
    ("adult", "published"): Sizes(48_842, 33, 4, 3_846),
    ("auto_mpg", "default"): Sizes(392, 4, 3, None, (314, 78)),
    ("auto_mpg", "published"): Sizes(392, 4, 3, None, (314, 78)),
    ("blog", "default"): Sizes(54_314, 268, 8, None, (47_287, 7_027)),
    ("blog", "published"): Sizes(54_270, 268, 8, None, (47_302, 6_968)),
    ("compas", "default"): Sizes(6_172, 9, 4, 2_809, (4_937, 1_235)),
    ("compas", "published"): Sizes(6_172, 9, 4, 2_809, (4_937, 1_235)),
    ("diabetes", "default"): Sizes(253_680, 105, 4, 35_346),
    ("diabetes", "published"): Sizes(253_680, 105, 4, 35_346),
    ("loan", "default"): Sizes(488_909, 23, 5, None, (418_697, 70_212)),
    ("loan", "published"): Sizes(488_909, 23, 5, None, (418_697, 70_212)),
    ("loan_psds", "default"): Sizes(43_566, 23, 5, 21_599),
    ("loan_psds", "published"): Sizes(43_566, 23, 5, 21_599),
}
METRICS = {
    **dict.fromkeys(("adult", "diabetes"), "auc"),
    **dict.fromkeys(("auto_mpg", "blog"), "rmse"),
    **dict.fromkeys(("compas", "loan", "loan_psds"), "accuracy"),
}
R_NAMES = {
    "adult": ("education-num", "capital-gain", "age", "hours-per-week"),
    "auto_mpg": ("-displacement", "-horsepower", "-weight"),
    "blog": tuple(
        f"{what} {when}"
        for what in ("comments", "links")
        for when in (
            "before",
            "in the last 24 hours",
            "24 to 48 hours ago",
            "in the first 24 hours",
        )
    ),
    "compas": ("priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count"),
    "diabetes": ("BMI", "Smoker", "HvyAlcoholConsump", "Age"),
    "loan": ("-grade", "pub_rec_bankruptcies", "-emp_length", "-annual_inc", "dti"),
    "loan_psds": ("-grade", "pub_rec", "-emp_length", "-annual_inc", "dti"),
}
#: Numbers of categories of the categorical columns of the source.
GROUPS = {
    "adult": {"workclass": 9, "education": 16, "race": 5, "sex": 2},
    "compas": {"race": 6, "sex": 2},
    "diabetes": {
        **dict.fromkeys(("HighBP", "HighChol", "CholCheck", "Stroke", "HeartDiseaseorAttack"), 2),
        **dict.fromkeys(("PhysActivity", "Fruits", "Veggies", "AnyHealthcare", "NoDocbcCost"), 2),
        **{"GenHlth": 5, "MentHlth": 31, "PhysHlth": 31, "DiffWalk": 2, "Sex": 2},
        **{"Education": 6, "Income": 8},
    },
    "loan_psds": {"home_ownership": 6, "purpose": 14},
}


def loader(name: str) -> Any:
    return import_module(f"{loaders.__name__}.{name}")


@pytest.mark.parametrize(("name", "variant"), SIZES)
def test_sizes_and_names_are_the_expected_ones(real, name: str, variant: str) -> None:
    dataset, sizes = real(name, variant), SIZES[name, variant]
    assert (dataset.name, dataset.variant) == (name, variant)
    assert dataset.x.shape == (sizes.rows, sizes.x_dim)
    assert dataset.r.shape == (sizes.rows, sizes.r_dim)
    assert dataset.metric == METRICS[name]
    assert dataset.response == ("continuous" if dataset.metric == "rmse" else "binary")
    assert dataset.r_names == R_NAMES[name]
    if sizes.positives is not None:
        assert dataset.y.sum() == sizes.positives
    if sizes.split is None:
        with pytest.raises(ValueError, match=rf"{name} .*no fixed split"):
            dataset.fixed_split()
    else:
        split = dataset.fixed_split()
        assert tuple(map(len, split)) == sizes.split
        assert torch.cat(split).sort().values.equal(torch.arange(sizes.rows))


@pytest.mark.parametrize("variant", ["default", "published"])
@pytest.mark.parametrize("name", GROUPS)
def test_every_row_has_one_category_of_each_categorical_column(real, name, variant) -> None:
    dataset = real(name, variant)
    order = dict.fromkeys(x.split("=")[0] for x in dataset.x_names)
    assert [column for column in order if column in GROUPS[name]] == list(GROUPS[name])
    for column, categories in GROUPS[name].items():
        group = [i for i, x in enumerate(dataset.x_names) if x.startswith(f"{column}=")]
        extra = (name, variant, column) == ("adult", "published", "workclass")
        assert len(group) == categories + extra
        assert ((dataset.x[:, group] == 0) | (dataset.x[:, group] == 1)).all()
        assert (dataset.x[:, group].sum(1) == 1).all()


@pytest.mark.parametrize(
    ("name", "low", "high", "first"),
    [
        ("adult", [1, 0, 17, 1], [16, 99_999, 90, 99], [13, 2_174, 39, 40]),
        ("auto_mpg", [-455, -230, -5140], [-68, -46, -1613], [-307, -130, -3504]),
        ("compas", [0, 0, 0, 0], [38, 20, 13, 9], [0, 0, 0, 0]),
        ("diabetes", [12, 0, 0, 1], [98, 1, 1, 13], [40, 1, 0, 9]),
    ],
)
def test_default_revenues_are_in_raw_units(
    real, name: str, low: Any, high: Any, first: Any
) -> None:
    r = real(name).r
    assert [row.tolist() for row in (r.amin(0), r.amax(0), r[0])] == [low, high, first]


def test_default_free_inputs_are_in_raw_units(real) -> None:
    compas, diabetes = real("compas"), real("diabetes")
    assert compas.x_names[0] == "age"
    assert (compas.x[:, 0].min(), compas.x[:, 0].max()) == (18, 96)
    first = {name for name, on in zip(diabetes.x_names, diabetes.x[0], strict=True) if on}
    assert {"HighBP=1", "GenHlth=5", "MentHlth=18", "PhysHlth=15", "Income=3"} < first


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


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        (
            "compas",
            {
                *("age", "race", "sex", "two_year_recid", "is_recid", "c_charge_degree"),
                *("priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count"),
                *("days_b_screening_arrest", "score_text"),
            },
        ),
        (
            "loan_psds",
            {
                *("loan_amnt", "term", "annual_inc", "dti", "payment_inc_ratio", "purpose"),
                *("home_ownership", "pub_rec_zero", "grade", "outcome", "emp_length"),
            },
        ),
    ],
)
def test_only_the_needed_columns_are_read(real, name: str, columns: set[str]) -> None:
    real(name)  # skips without the files
    assert set(loader(name)._read().columns) == columns


def test_loan_and_its_stand_in_have_the_same_columns_of_x(real) -> None:
    for variant in ("default", "published"):
        assert real("loan_psds", variant).x_names == X_NAMES


@pytest.mark.parametrize(("name", "least"), [("auto_mpg", 0.7), ("blog", 0.06)])
def test_response_is_correlated_with_every_revenue(real, name: str, least: float) -> None:
    for variant in ("default", "published"):
        dataset = real(name, variant)
        found = np.corrcoef(dataset.r.numpy().T, dataset.y.numpy())[-1, :-1]
        assert (found > least).all()


def test_unknown_name_and_variant_are_refused_with_the_known_ones() -> None:
    assert tuple(R_NAMES) == data.NAMES
    with pytest.raises(ValueError, match=r"name must be one of \['adult', .*\], got 'iris'"):
        data.load("iris")
    with pytest.raises(ValueError, match=r"variant must be one of .*'published'\], got 'raw'"):
        data.load("adult", variant="raw")
