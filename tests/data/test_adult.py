"""Adult has the correct label by default, and the published one on request."""

from __future__ import annotations


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
