"""Studies that change one thing at a time: their cells, what is run, and what is reported."""

import numpy as np
import pytest
import torch

from pyro_gcm import data, fit
from reproduce.ablations import auctions, selection, stories, trials
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


# Auctions and trials.


def test_decisions_of_the_true_probabilities_lose_nothing():
    test = data.simulate_auctions(20, seed=3)

    def truth(table):
        return test.win_probability(table[auctions.NAMES].to_numpy(), table["bid"].to_numpy())

    value = torch.linspace(200.0, 800.0, 20, dtype=torch.float64)
    lost = auctions.scores(truth, test, value)
    assert abs(lost.pop("off the budget")) < 0.1  # what is left is less than one more bid
    assert abs(lost.pop("lost at equal spend")) < 1e-3
    assert all(abs(each) < 1e-9 for each in lost.values()), lost
    # And those of a model that sees half of the probability do lose.
    worse = auctions.scores(lambda table: truth(table) ** 2, test, value)
    assert worse[auctions.PROFIT] > 0.001


def test_thresholds_are_the_first_levels_that_are_noticed():
    low, step = trials.LEVELS[0], trials.LEVELS[1] - trials.LEVELS[0]
    mean = torch.tensor([low + 5.2 * step, 100.0])
    steep = trials.normal(mean, torch.full((2,), 1e-3))
    assert trials.threshold(steep).tolist() == [trials.LEVELS[6].item(), trials.LEVELS[-1].item()]
    for curves in (trials.on_a_grid, trials.random_mixtures):
        p = curves(torch.Generator().manual_seed(0))
        assert ((p >= 0) & (p <= 1)).all()
        assert (p.diff(dim=1) >= -1e-12).all()


# Selection.


@pytest.mark.parametrize("dataset", ["linear", "curved"])
def test_two_steps_recover_what_least_squares_miss(dataset, monkeypatch):
    monkeypatch.setattr(selection, "ROWS", 200_000)
    found = {
        method: selection.run(Fit("selection", dataset, "", "", "0", 0, method, "{}"))
        for method in selection.METHODS
        if "GCM" not in method
    }
    steps, squares = found["Heckman's two steps"], found["Least squares of the seen rows"]
    own, mean = "coverage of 90 % intervals of unseen y", "error of the mean of all rows"
    assert squares[mean] > 0.3
    if dataset == "linear":
        # Over seeds -.002 (standard deviation .005), .000 (.004) and .900 (.0015).
        assert abs(steps[mean]) < 0.03
        assert abs(steps["error of the effect of r"]) < 0.02
        assert abs(steps[own] - 0.9) < 0.01
        assert squares[own] < 0.85
    else:  # which they cannot know
        assert steps["RMSE of E(y given x, r)"] > 0.3


def test_the_truth_of_a_selection_is_that_of_its_rows(monkeypatch):
    monkeypatch.setattr(selection, "ROWS", 100_000)
    for dataset in ("linear", "curved"):
        data = selection.simulated(dataset, 3)
        error = data.y - data.mean(data.r)
        assert abs(error.mean()) < 4.0 / len(error) ** 0.5
        assert abs(error.std() - 1.0) < 4.0 * (0.5 / len(error)) ** 0.5
        assert 0.5 < data.seen.mean() < 0.6
        assert error[data.seen].mean() > 0.1
