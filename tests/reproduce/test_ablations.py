"""Studies that change one thing at a time: their cells, what is run, and what is reported."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_gcm import data
from reproduce.ablations import auctions, stories

# Extended models.


@pytest.mark.parametrize("part", ["groups", "factor", "modes"])
def test_truths_are_those_of_the_outcomes(part, monkeypatch):
    own, seen = stories.fit, []

    class Seen(stories.Data):
        def log_score(self, p):
            seen.append(self)
            return super().log_score(p)

    def one_epoch(model, *columns, **training):
        return own(model, *(column[:200] for column in columns), **{**training, "epochs": 1})

    monkeypatch.setattr(stories, "fit", one_epoch)
    monkeypatch.setattr(stories, "Data", Seen)
    run, methods = stories.PARTS[part]
    scores = run(methods[0], 3)
    found = seen[0]
    # The best score of all is that of the truth, and the rate of the rows is that of the truth.
    assert scores["log score"] < scores["log score of the truth"] < 0.0
    error = (0.25 / len(found.y)) ** 0.5
    assert abs(found.y.double().mean() - found.truth.mean()) < 4.0 * error
    assert all(np.isfinite(value) for value in scores.values())


# Auctions.


def test_scores_of_the_true_auction_are_perfect():
    test = data.simulate_auctions(500, seed=3)

    class Truth:
        def predictive(self, x, r):
            return SimpleNamespace(quantile=lambda p: test.winning_bid(x, p[0])[:, None])

        def log_prob(self, x, r, y):
            p = test.win_probability(x, test.bid)
            return torch.where(y[:, 0] == 0.0, p.log(), torch.log1p(-p))

    values = auctions.scores(Truth(), test)
    assert values["mean absolute error of the bid"] < 1e-6
    assert values["win rate at the bid"] == pytest.approx(0.9, abs=1e-6)
    log_p = Truth().log_prob(test.x, None, test.outcomes.columns())
    assert values["log score"] == pytest.approx(log_p.mean().item())
