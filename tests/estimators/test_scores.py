"""Scores that some rows do not have are left out."""

import numpy as np
import pandas as pd
import pytest

from pyro_gcm.estimators import GCMRegressor, GCMSurvival
from pyro_gcm.estimators.kinds import scores

SMALL = {"members": 2, "epochs": 1}
X = pd.DataFrame({"a": np.linspace(0.0, 1.0, 40)})


def test_a_single_row_has_no_r2():
    model = GCMRegressor(**SMALL).fit(X, X["a"].to_numpy())
    one = scores(model, X[:1], np.array([0.3]))
    assert set(one) == {"rmse", "log_score"}
    assert one["rmse"] == pytest.approx(abs(0.3 - model.predict(X[:1])[0]))
    assert set(scores(model, X, X["a"].to_numpy())) == {"r2", "rmse", "log_score"}


def test_rows_that_cannot_be_compared_have_no_concordance():
    y = np.array([(True, 1.0 + a) for a in X["a"]], dtype=[("event", "?"), ("time", "f8")])
    model = GCMSurvival(**SMALL).fit(X, y)
    censored = y[:5].copy()
    censored["event"] = False
    assert scores(model, X[:5], censored) == {}
    assert set(scores(model, X, y)) == {"concordance"}
