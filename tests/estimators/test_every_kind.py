"""What estimators of every kind do alike: questions, bands, scores, and other processes."""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from loans import loans

from pyro_gcm import estimators, save
from pyro_gcm.estimators.kinds import monotone_prediction, scores

X, LABELS = loans(240)
NUMBERS = 3.0 * (LABELS == "yes") + np.random.default_rng(1).normal(size=240)
TIMES = pd.DataFrame({"event": LABELS == "yes", "time": 5.0 + NUMBERS})
DIRECTIONS = {"income": -1, "debt": 1}
#: Options and outcomes of each kind, and what `explain` takes beside the rows.
KINDS = {
    "GCMClassifier": ({"members": 2}, LABELS, None),
    "GCMOrdinal": ({"prior": "conditional"}, pd.cut(NUMBERS, 3, labels=list("abc")), "b"),
    "GCMRegressor": ({"members": 2, "response": "distribution"}, NUMBERS, 1.0),
    "GCMSurvival": ({"members": 2}, TIMES, None),
    "IGCMClassifier": ({}, LABELS, None),
    "IGCMRegressor": ({}, NUMBERS, None),
}


def fitted(kind, **more):
    options, y, _ = KINDS[kind]
    options = {"monotonic_cst": DIRECTIONS, "epochs": 2, "hidden": 8, **options, **more}
    return getattr(estimators, kind)(**options).fit(X, y)


def test_the_recipe_of_the_documentation_scores_parts_in_other_processes(tmp_path):
    pages = Path(__file__).parents[2] / "docs" / "saving.md"
    recipe = re.search("## Score large.*?```python\n(.*?)```", pages.read_text(), re.DOTALL)[1]
    (tmp_path / "recipe.py").write_text(recipe)
    model, rows = fitted("GCMClassifier"), X.assign(id=range(240), note="x")
    save(model, tmp_path / "auction")
    call = "import sys, pandas as pd; from recipe import score; "
    call += "score(pd.read_pickle('rows')).to_pickle('scored')"
    rows.to_pickle(tmp_path / "rows")
    subprocess.run([sys.executable, "-c", call], check=True, cwd=tmp_path)
    whole = pd.read_pickle(tmp_path / "scored")
    # Another process rounds as this processor does, also where the tests are to round otherwise.
    np.testing.assert_allclose(whole["probability"], model.predict_proba(X)[:, 1], rtol=1e-3)
    namespace = {}
    exec(recipe, namespace)
    score = partial(namespace["score"], folder=str(tmp_path / "auction"))
    parts = [rows[:7], rows[7:7], rows[7:240]]  # as mapInPandas and map_partitions give them
    pd.testing.assert_frame_equal(pd.concat(map(score, parts)), whole)
    assert score(rows[:0]).dtypes.equals(whole.dtypes)


@pytest.mark.filterwarnings("ignore:.*beyond the training rows")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("G")])
def test_questions_are_about_the_one_monotone_prediction(kind):
    model, rows = fitted(kind, bootstrap=2), X.dropna()[:40]
    predicted = monotone_prediction(model, rows)
    level = float(np.median(predicted))
    needed = model.required(rows, "debt", level)["required"]
    there = np.isfinite(needed)
    assert there.sum() > 1
    assert (monotone_prediction(model, rows.assign(debt=needed)[there]) >= level).all()
    band = model.predict_bands(rows)
    assert (band.lower <= band.upper).all()
    above = {} if KINDS[kind][2] is None else {"above": KINDS[kind][2]}
    explained = model.explain(rows, **above)
    assert set(explained["feature"]) == set(DIRECTIONS)
    assert explained[["probability", "binding"]].stack().between(0, 1).all()


@pytest.mark.parametrize(
    ("kind", "rows", "wanted"),
    [
        ("GCMRegressor", slice(None), {"r2", "rmse", "log_score"}),
        ("GCMRegressor", slice(1), {"rmse", "log_score"}),
        ("GCMSurvival", slice(None), {"concordance"}),
        ("GCMSurvival", LABELS == "no", set()),  # of which no two can be compared
        ("GCMClassifier", slice(None), {"auc", "log_score", "accuracy"}),
        ("GCMClassifier", slice(1), {"log_score", "accuracy"}),
    ],
)
def test_scores_that_rows_do_not_have_are_left_out(kind, rows, wanted):
    model, y = fitted(kind), KINDS[kind][1][rows]
    found = scores(model, X[rows], y)
    assert set(found) == wanted
    if wanted == {"rmse", "log_score"}:
        assert found["rmse"] == pytest.approx(abs(y[0] - model.predict(X[:1])[0]))
