"""Studies that change one thing at a time: their cells, what is run, and what is reported."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_gcm import data, fit
from reproduce.ablations import auctions, stories
from reproduce.runs import Fit

# Extended models.


@pytest.mark.parametrize("part", ["groups", "factor", "modes"])
def test_truths_are_those_of_the_outcomes(part, monkeypatch):
    seen = []

    class Seen(stories.Data):
        def log_score(self, p):
            seen.append(self)
            return super().log_score(p)

    def one_epoch(models, columns, seeds, **training):
        for model, own in zip(models, columns, strict=True):
            fit(model, *(column[:200] for column in own), **{**training, "epochs": 1})
        return [[] for _ in models]

    monkeypatch.setattr(stories, "fit", lambda model, *own, **_: one_epoch([model], [own], [3]))
    monkeypatch.setattr(stories, "fit_together", one_epoch)
    monkeypatch.setattr(stories, "Data", Seen)
    method = stories.PARTS[part][1][0]
    fits = [Fit("stories", part, "", "simulated", str(seed), seed, method, "{}") for seed in (3, 4)]
    assert stories.STUDY.together(fits[0]) == stories.STUDY.together(fits[1])
    for scores in stories.run(fits):
        # The best score of all is that of the truth.
        assert scores["log score"] < scores["log score of the truth"] < 0.0
        assert all(np.isfinite(value) for value in scores.values())
    # The rate of the rows is that of the truth, of every seed.
    assert not torch.equal(seen[0].y, seen[-1].y)
    for found in seen:
        error = (0.25 / len(found.y)) ** 0.5
        assert abs(found.y.double().mean() - found.truth.mean()) < 4.0 * error


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
