"""Adult has the correct label by default, and the published one on request."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score


def test_published_label_has_no_positive_in_the_training_file(real) -> None:
    correct, published = real("adult").y, real("adult", "published").y
    assert correct[:32_561].sum() == 7_841
    assert published[:32_561].sum() == 0
    assert published[32_561:].equal(correct[32_561:])


def test_published_33rd_column_is_the_unknown_workclass_of_the_test_file(real) -> None:
    default, published = real("adult"), real("adult", "published")
    assert set(published.x_names) - set(default.x_names) == {"workclass=? (adult.test)"}
    extra = published.x[:, published.x_names.index("workclass=? (adult.test)")]
    assert extra[:32_561].sum() == 0
    assert extra.sum() == 963
    unknown = published.x[:, published.x_names.index("workclass=?")] + extra
    assert unknown.equal(default.x[:, default.x_names.index("workclass=?")])


@pytest.mark.parametrize(("variant", "auc"), [("default", 0.845), ("published", 0.770)])
def test_auc_of_a_logistic_regression_identifies_the_label(real, variant, auc) -> None:
    dataset = real("adult", variant)
    train, test = dataset.split(seed=0)
    inputs = torch.cat([dataset.x, dataset.r], 1)
    inputs = (inputs - inputs[train].mean(0)) / inputs[train].std(0)
    model = LogisticRegression(max_iter=200).fit(inputs[train].numpy(), dataset.y[train].numpy())
    score = model.decision_function(inputs[test].numpy())
    got = roc_auc_score(dataset.y[test].numpy(), score)
    assert got == pytest.approx(auc, abs=0.02)  # splits change it by 0.01, the label by 0.075
