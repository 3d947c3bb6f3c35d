"""Studies that change one thing at a time: their cells, what is run, and what is reported."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from toys import options

from pyro_gcm import data
from reproduce import tasks
from reproduce.ablations import auctions, latent_sizes, stories

# Latent dimension and number of samples.


def test_the_fits_are_of_every_size_of_the_paper(tmp_path):
    paper = pd.read_csv(tasks.PAPER / "ablation_adult.csv")
    sizes = {*zip(paper["latent_dim"].tolist(), paper["sample_number"].tolist(), strict=True)}
    for protocol, study in latent_sizes.STUDY.studies.items():
        (cells,) = study.fits(options(study, tmp_path)).values()
        draws = "draws" if protocol == "released" else "num_particles"
        asked = {(c.method, c.options["z_dim"], c.options[draws], c.seed) for c in cells}
        assert asked == {
            (m, *size, s) for m in ("GCM", "IGCM") for size in sizes for s in range(10)
        }


# Changed stories.


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
