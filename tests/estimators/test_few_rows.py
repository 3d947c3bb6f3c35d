"""With few rows members stay near the base rate, and what they predict has no cliff."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from pyro_gcm.estimators import GCMClassifier
from pyro_gcm.estimators.training import TrainingRows


def noisy(count, seed):
    """A table with a little to learn in 2 of its 20 columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 20))
    y = rng.random(count) < 1.0 / (1.0 + np.exp(1.0 - X[:, 0] - 0.5 * X[:, 1]))
    return X, y


@pytest.mark.filterwarnings("ignore:members need 20 rows")
@pytest.mark.long(keep=["10"])
@pytest.mark.parametrize("count", [10, 99])
def test_held_out_log_loss_is_no_worse_than_that_of_logistic_regression(count):
    test, outcome = noisy(4000, 99)
    ours, theirs = [], []
    for seed in range(3):
        X, y = noisy(count, seed)
        y[:2] = False, True
        model = GCMClassifier(monotonic_cst=[1, 1] + [0] * 18, random_state=seed).fit(X, y)
        ours.append(log_loss(outcome, model.predict_proba(test)[:, 1]))
        theirs.append(log_loss(outcome, LogisticRegression().fit(X, y).predict_proba(test)[:, 1]))
    assert np.mean(ours) < np.mean(theirs) + 0.05


def test_rows_of_the_prior_have_values_of_other_rows_and_its_weight():
    n, generator = 60, torch.Generator().manual_seed(0)
    x = torch.rand(n, 3, generator=generator)
    x[:, 2] = 1.0 - x[:, 1]  # which stand for one column of the table
    r, y = torch.rand(n, 1, generator=generator), torch.arange(n).float()
    weight = torch.full((n,), 2.0, dtype=torch.float64)
    weight[0] = 0.0
    rows = TrainingRows(x, r, y, weight, [1, 2]).with_prior(5.0, seed=1)
    other = slice(n, None)
    assert len(rows.y[other]) == n - 1
    assert rows.weight[other].sum() == pytest.approx(5.0 * 2.0)
    assert torch.equal(rows.weight[:n], weight)
    for ours, theirs in ((rows.x, x), (rows.r, r), (rows.y[:, None], y[:, None])):
        for column in range(theirs.shape[1]):
            assert set(ours[other, column].tolist()) <= set(theirs[1:, column].tolist())
    torch.testing.assert_close(rows.x[other, 2], 1.0 - rows.x[other, 1])
    together = (rows.x[other, :1] == x.T[0]) & (rows.y[other, None] == y)
    assert together.any(1).float().mean() < 0.2  # x and y are of different rows
