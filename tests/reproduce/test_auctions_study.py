"""The auctions study, at a size that takes seconds."""

import pytest
import torch
from toys import options

from pyro_gcm import data
from reproduce import auctions
from reproduce.runs import read_results


def test_study_writes_every_score_of_both_variants(tmp_path, capsys):
    sizes = ["--auctions", "300", "--held-out", "200", "--seeds", "1", "--epochs", "1"]
    auctions.main(options(auctions, tmp_path, *sizes, "--jobs", "1"))
    table = read_results(tmp_path / "auctions.csv")
    wide = table.pivot(index="seed", columns="metric", values="value")
    assert wide.index.tolist() == [0]
    assert wide.notna().all(axis=None)
    for metric in ("mean absolute error of the bid", "win rate at the bid", "log score"):
        assert {f"{metric}, {variant}" for variant in auctions.VARIANTS} <= set(wide)
    wanted = wide["log score, exact and censored"] - wide["log score, outcomes only"]
    assert wide[auctions.GAIN].to_numpy() == pytest.approx(wanted.to_numpy(), abs=2e-6)
    rate = wide["win rate at the bid, exact and censored"].mean()
    assert f"| win rate at the bid | {rate:.4f} |" in capsys.readouterr().out


def test_scores_of_the_truth_are_perfect():
    test = data.simulate_auctions(500, seed=3)

    class Truth:
        def required_revenue(self, x, level):
            return test.winning_bid(x, level).log()

        def log_prob(self, x, r, y):
            p = test.win_probability(x, r.exp())
            return torch.where(y > 0, p.log(), torch.log1p(-p))

    values, log_p = auctions.scores(Truth(), test)
    assert values["mean absolute error of the bid"] < 1e-6
    assert values["win rate at the bid"] == pytest.approx(0.9, abs=1e-6)
    assert values["log score"] == pytest.approx(log_p.mean().item())
