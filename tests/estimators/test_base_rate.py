"""The mean probability of a classifier is the rate of the event."""

import os

import numpy as np
import pytest
from loans import loans

from pyro_gcm import data
from pyro_gcm.estimators import GCMClassifier, IGCMClassifier

DIRECTIONS = {"income": -1, "debt": 1}
MODELS = [
    GCMClassifier(members=2, hidden=8, epochs=3),
    GCMClassifier(prior="conditional", alternatives=3, costs=3, epochs=6, early_stopping=True),
    IGCMClassifier(epochs=6, early_stopping=True),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}-{m.early_stopping}")
def test_the_mean_probability_is_the_weighted_rate(model):
    X, y = loans(200)
    weight = np.random.default_rng(0).uniform(0, 2, 200)
    model.set_params(monotonic_cst=DIRECTIONS, bootstrap=1).fit(X, y, sample_weight=weight)
    p = model.predict_proba(X)[:, 1]
    assert np.average(p, weights=weight) == pytest.approx(
        np.average(y == "yes", weights=weight), abs=3e-4
    )
    if model.model_.members:
        draws = model.predict_bands(X[:50]).draws  # of the bootstrap model
        assert draws.shape == (1, 50)


@pytest.mark.long(keep=0)
@pytest.mark.parametrize("name", ["adult", "compas", "diabetes", "loan_psds", "blog"])
def test_early_stopping_stays_calibrated_on_real_data(name):
    if not os.environ.get("PYRO_GCM_DATA"):
        pytest.skip("PYRO_GCM_DATA is not set")
    dataset = data.load(name)
    chosen = np.random.default_rng(0).permutation(len(dataset.y))[:12_000]
    x, r, y = (part.numpy()[chosen] for part in (dataset.x, dataset.r, dataset.y))
    count = min(8_000, len(y) * 2 // 3)
    y = y > np.median(y) if name == "blog" else y
    X, signs = np.concatenate([x, r], 1), [0] * x.shape[1] + [1] * r.shape[1]
    model = GCMClassifier(monotonic_cst=signs, early_stopping=True).fit(X[:count], y[:count])
    p = model.predict_proba(X)[:, 1]
    assert p[:count].mean() == pytest.approx(y[:count].mean(), abs=3e-4)
    rest, n = y[count:].mean(), len(y) - count
    rate = y[:count].mean()
    error = np.sqrt(rate * (1 - rate) * (1 / count + 1 / n))  # of the difference of two rates
    assert p[count:].mean() == pytest.approx(rest, abs=3 * error)
