"""Adult has the right label by default, and the published one where it is asked for."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from pyro_gcm.data import adult


@pytest.mark.parametrize(
    ("variant", "x_dim", "positives"), [("default", 32, 11_687), ("published", 33, 3_846)]
)
def test_counts(real, variant: str, x_dim: int, positives: int) -> None:
    dataset = real("adult", variant)
    assert dataset.x.shape == (48_842, x_dim)
    assert dataset.r.shape == (48_842, 4)
    assert dataset.y.sum() == positives
    assert dataset.r_names == ("education-num", "capital-gain", "age", "hours-per-week")
    assert (dataset.response, dataset.metric) == ("binary", "auc")


@pytest.mark.parametrize("variant", ["default", "published"])
def test_every_row_has_one_level_of_each_category(real, variant: str) -> None:
    dataset = real("adult", variant)
    assert ((dataset.x == 0) | (dataset.x == 1)).all()
    for category in ("workclass", "education", "race", "sex"):
        columns = [i for i, n in enumerate(dataset.x_names) if n.startswith(f"{category}=")]
        assert (dataset.x[:, columns].sum(1) == 1).all()


def test_default_is_in_raw_units(real) -> None:
    dataset = real("adult")
    assert dataset.r.amin(0).tolist() == [1, 0, 17, 1]
    assert dataset.r.amax(0).tolist() == [16, 99_999, 90, 99]
    assert dataset.r[0].tolist() == [13, 2_174, 39, 40]  # the first line of adult.data


def test_published_scales_over_all_rows(real) -> None:
    raw, scaled = real("adult").r, real("adult", "published").r
    low, high = raw.amin(0), raw.amax(0)
    torch.testing.assert_close(scaled, (raw - low) / (high - low))


def test_published_label_has_no_positive_in_the_training_file(real) -> None:
    right, published = real("adult").y, real("adult", "published").y
    assert right[:32_561].sum() == 7_841
    assert published[:32_561].sum() == 0
    assert published[32_561:].equal(right[32_561:])


def test_published_33rd_column_is_the_unknown_workclass_of_the_test_file(real) -> None:
    right, published = real("adult"), real("adult", "published")
    assert set(published.x_names) - set(right.x_names) == {"workclass=? (adult.test)"}
    extra = published.x[:, published.x_names.index("workclass=? (adult.test)")]
    assert extra[:32_561].sum() == 0
    assert extra.sum() == 963
    unknown = published.x[:, published.x_names.index("workclass=?")] + extra
    assert unknown.equal(right.x[:, right.x_names.index("workclass=?")])


def test_there_is_no_fixed_split(real) -> None:
    with pytest.raises(ValueError, match=r"adult .*no fixed split"):
        real("adult").fixed_split()


@pytest.mark.parametrize(("variant", "auc"), [("default", 0.845), ("published", 0.770)])
def test_label_can_be_told_from_the_auc_of_a_logistic_regression(real, variant, auc) -> None:
    dataset = real("adult", variant)
    train, test = dataset.split(seed=0)
    inputs = torch.cat([dataset.x, dataset.r], 1)
    inputs = (inputs - inputs[train].mean(0)) / inputs[train].std(0)
    model = LogisticRegression(max_iter=200).fit(inputs[train].numpy(), dataset.y[train].numpy())
    score = model.decision_function(inputs[test].numpy())
    got = roc_auc_score(dataset.y[test].numpy(), score)
    assert got == pytest.approx(auc, abs=0.02)  # splits move it by 0.01, the label by 0.075


def test_table_that_lost_a_row_is_refused(real, monkeypatch) -> None:
    real("adult")  # skips without the files

    def cut(file: adult.RawFile) -> bytes:
        return whole(file).rstrip().rsplit(b"\n", 1)[0]

    whole = adult.read_raw
    monkeypatch.setattr(adult, "read_raw", cut)
    with pytest.raises(ValueError, match=r"adult\.data has 32560 rows, expected 32561"):
        adult.default()
