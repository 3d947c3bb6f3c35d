"""The four boosting libraries behind one interface."""

from typing import Any

import pytest
import threadpoolctl
import torch

from pyro_gcm.baselines.boosting import MonotoneBoosting

#: Each library's name for the number of trees.
TREES = {
    "sklearn": "max_iter",
    "xgboost": "n_estimators",
    "lightgbm": "n_estimators",
    "catboost": "iterations",
}
THREADS = {"xgboost": "n_jobs", "lightgbm": "n_jobs", "catboost": "thread_count"}


def sized(library: str, trees: int) -> dict[str, Any]:
    """Options of so many trees on one thread; the test is skipped without the library."""
    pytest.importorskip(library)
    return {TREES[library]: trees, **({THREADS[library]: 1} if library in THREADS else {})}


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


def test_scikit_learn_runs_on_one_thread_and_leaves_the_others_as_they_were(rows, monkeypatch):
    model, inside = MonotoneBoosting(max_iter=2), []

    def threads():
        openmp = threadpoolctl.ThreadpoolController().select(user_api="openmp").info()
        # Others may have one of their own, which was not there when the first limit was set.
        own = [library for library in openmp if "scikit_learn" in library["filepath"]] or openmp
        return {library["num_threads"] for library in own}

    monkeypatch.setattr(model._make, "fit", lambda self, *_, **__: inside.append(threads()) or self)
    with threadpoolctl.threadpool_limits(3, user_api="openmp"):
        model.fit(*rows)
        assert inside == [{1}]
        assert threads() == {3}


@pytest.mark.parametrize("library", THREADS)
def test_the_other_libraries_run_on_one_thread_unless_options_say_otherwise(library):
    pytest.importorskip(library)
    for options in ({}, {THREADS[library]: 2}):
        wanted = options.get(THREADS[library], 1)
        assert MonotoneBoosting(library, **options).options[THREADS[library]] == wanted


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
        return MonotoneBoosting(library, response=response, **options)

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
    MonotoneBoosting("catboost", iterations=3, thread_count=1).fit(x, r, y).predict(x, r)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


def test_options_are_checked():
    for options, message in (
        ({"response": "quantile"}, "response must be one of .*, got 'quantile'"),
        ({"monotonic_cst": [1]}, "monotonic_cst must be left out of the options"),
        ({"random_state": 1}, "random_state must be left out of the options"),
        ({"loss": "absolute_error"}, "loss must be left out .* may break monotonicity"),
        ({"library": "xgboost", "booster": "gblinear"}, "booster must be left out of the options"),
        ({"library": "lightgbm", "linear_tree": True}, "linear_tree must be left out"),
        ({"library": "lightgbm", "pred_early_stop": True}, "pred_early_stop must be left out"),
        ({"library": "lightgbm", "quant_train_renew_leaf": True}, "renew_leaf must be left out"),
        ({"library": "lightgbm", "forced_splits": "f.json"}, "forced_splits must be left out"),
        ({"library": "catboost", "loss_function": "MAE"}, "loss_function must be left out"),
    ):
        with pytest.raises(ValueError, match=message):
            MonotoneBoosting(**options)


def test_rows_are_checked(rows):
    x, r, y = rows
    model = MonotoneBoosting(max_iter=2)
    with pytest.raises(RuntimeError, match="call fit first"):
        model.predict(x, r)
    with pytest.raises(ValueError, match=r"y must hold 0 and 1 .*, got \[0\.0, 2\.0\]"):
        model.fit(x, r, 2 * y.long())
    with pytest.raises(ValueError, match="r has 1 columns, the model was built for r_dim=2"):
        model.fit(x, r, y, validation=(x, r[:, :1], y))
    model.fit(x, r, y)
    with pytest.raises(ValueError, match="r has 1 columns, the model was built for r_dim=2"):
        model.predict(x, r[:, :1])
