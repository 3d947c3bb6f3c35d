"""Protocol "published": the rows and the scale of the released code, the settings of Table 5."""

import math
from dataclasses import replace

import pytest
import torch
from sklearn.metrics import accuracy_score
from toys import DIVERGING, load_as, toy

from pyro_gcm import baselines
from reproduce import published, tasks
from reproduce.methods import Rows, made
from reproduce.runs import Fit, as_json

SMALL = {
    "epochs": 4, "batch_size": 16, "optimizer": "adam", "learning_rate": 0.1, "hidden": 4,
    "standardize": False,
}  # fmt: skip
SETS = [("compas", "binary", 1.0), ("auto_mpg", "continuous", 10.0)]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Every data set is a small one, with columns that are not standardised.

    Its two variants have opposite outcomes.
    """
    tables = {}
    for kind in ("binary", "continuous"):
        table = toy("toy", "published", kind, 2, 2, 120, True)
        tables[kind] = replace(table, x=0.01 * table.x, r=0.3 * table.r)

    def load(name, variant):
        table = tables["continuous" if name == "auto_mpg" else "binary"]
        return table if variant == "published" else replace(table, y=1.0 - table.y)

    load_as(monkeypatch, load)
    return tables


def fit(method, name="compas", **more):
    of = "public", name, "published", "published", "fixed", 0, method
    return Fit(*of, as_json({**SMALL, **more}))


@pytest.mark.parametrize(("name", "response", "unit"), SETS)
def test_the_best_epoch_is_that_of_a_loop_by_hand(small, name, response, unit):
    (scores,) = published.run([fit("MLP", name)])
    table, metric = small[response], tasks.TASKS[name].metric
    learn, test = table.fixed_split()
    columns = [part.float() for part in (table.x, table.r, table.y / unit)]
    curve = []

    def at(step):
        if step in (6, 12, 18, 24):  # 90 rows in batches of 16
            assert torch.equal(model.x_units.scale, torch.ones(2))
            p, y = model.predict(*(part[test] for part in columns[:2])).double(), table.y[test]
            if response == "binary":
                curve.append(accuracy_score(y, p > 0.5))
            else:
                curve.append(float((10.0 * p - y).square().mean().sqrt()))

    rows = [part[learn] for part in columns]
    model, training = made("MLP", Rows(*rows, response), dict(SMALL), 0)
    baselines.fit(model, *rows, progress=False, callback=at, **training)
    assert len(set(curve)) > 1
    best = max(curve) if response == "binary" else min(curve)
    assert scores[metric] == pytest.approx(best)
    assert scores[f"{metric}, last epoch"] == pytest.approx(curve[-1])
    assert scores["epochs"] == curve.index(best) + 1


@pytest.mark.parametrize(("method", "name"), [("MLP", "auto_mpg"), ("GCM", "compas")])
@pytest.mark.filterwarnings("ignore:Encountered NaN")
def test_a_diverged_fit_is_nan(method, name):
    more = {"num_particles": 2} if method == "GCM" else {}
    (scores,) = published.run([fit(method, name, **more, **DIVERGING)])
    metric = tasks.TASKS[name].metric
    assert math.isnan(scores[metric])
    assert set(scores) == {metric}
