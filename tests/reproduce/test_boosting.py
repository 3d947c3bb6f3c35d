"""The four boosting libraries behind one interface."""

from typing import Any

import pytest
import torch

from reproduce.methods.boosting import MonotoneBoosting

#: Each library's name for the number of trees.
TREES = {
    "sklearn": "max_iter",
    "xgboost": "n_estimators",
    "lightgbm": "n_estimators",
    "catboost": "iterations",
}


def sized(library: str, trees: int) -> dict[str, Any]:
    """Options of so many trees; the test is skipped without the library."""
    pytest.importorskip(library)
    return {TREES[library]: trees}


@pytest.fixture
def rows():
    """Outcomes that increase in the first revenue and decrease in the second."""
    generator = torch.Generator().manual_seed(0)
    x, r = (torch.randn(400, 2, generator=generator) for _ in range(2))
    y = torch.rand(400, generator=generator) < torch.sigmoid(x[:, 0] + 2 * r[:, 0] - r[:, 1])
    return x, r, y


@pytest.mark.parametrize("response", ["binary", "continuous"])
@pytest.mark.parametrize("library", TREES)
def test_libraries_get_all_options_and_predictions_rise_in_revenues_alone(library, response, rows):
    x, r, y = rows
    y = y if response == "binary" else y + 0.1 * x[:, 1]
    options = {**sized(library, 40), "max_depth": 5}
    model = MonotoneBoosting(library, response=response, seed=5, **options).fit(x, r, y)
    kind = "Classifier" if response == "binary" else "Regressor"
    assert type(model.estimator).__name__.endswith(kind)
    given = model.estimator.get_params()
    name = "monotonic_cst" if library == "sklearn" else "monotone_constraints"
    assert list(given[name]) == [0, 0, 1, 1]
    assert given["random_state"] == 5
    assert options.items() <= given.items()
    here = model.predict(x, r)
    assert here.shape == (400,)
    assert here.dtype == torch.float64
    generator = torch.Generator().manual_seed(1)
    for _ in range(10):
        step = 2 * torch.rand(r.shape, generator=generator)
        assert (model.predict(x, r + step) >= here).all()
    assert (model.predict(x, r + torch.tensor([2.0, 0.0])) - here).mean() > 0.1
    assert (model.predict(x - 2.0, r) < here).any()
    assert (model.predict(x, -r + 0.3) < here).any()


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("response", ["binary", "continuous"])
@pytest.mark.parametrize("library", TREES)
def test_early_stopping_keeps_the_trees_up_to_the_lowest_loss(library, response, rows):
    x, r, y = rows
    y = y.double() if response == "binary" else y + 0.1 * x[:, 1] + 20.0

    def made(trees):
        options = {**sized(library, trees), "learning_rate": 0.3}
        if library == "catboost":
            options["leaf_estimation_iterations"] = 5  # its default depends on the trees
        return MonotoneBoosting(library, response=response, seed=0, **options)

    def loss(model):
        made = model.predict(x[250:], r[250:])
        if response == "binary":
            return torch.nn.functional.binary_cross_entropy(made, y[250:])
        return (made - y[250:]).square().mean()

    columns = [part[:250] for part in (x, r, y)]
    rest = [part[250:] for part in (x, r, y)]
    model = made(300).fit(*columns, validation=rest, patience=10)
    assert 1 < model.trees < 290
    again = made(model.trees).fit(*columns)
    assert again.trees is None
    torch.testing.assert_close(model.predict(x, r), again.predict(x, r), rtol=0, atol=1e-5)
    for other in (model.trees - 1, model.trees + 3, 300):
        assert loss(model) <= loss(made(other).fit(*columns)) + 1e-6


def test_catboost_writes_no_files_and_says_nothing(rows, tmp_path, monkeypatch, capfd):
    pytest.importorskip("catboost")
    monkeypatch.chdir(tmp_path)
    x, r, y = rows
    model = MonotoneBoosting("catboost", response="binary", seed=0, iterations=3)
    model.fit(x, r, y).predict(x, r)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
