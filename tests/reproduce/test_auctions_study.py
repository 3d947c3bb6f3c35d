"""The auctions study, at a size that takes seconds."""

import argparse

import pandas as pd
import pytest
import torch

from pyro_gcm import data
from reproduce import auctions, results


def options(tmp_path, *more):
    parser = argparse.ArgumentParser()
    auctions.add_arguments(parser)
    sizes = ["--auctions", "300", "--held-out", "200", "--seeds", "2", "--epochs", "1"]
    return parser.parse_args([*sizes, "--jobs", "1", "--output", str(tmp_path), *more])


def test_study_writes_every_score_of_both_variants(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    auctions.main(options(tmp_path))
    table = pd.read_csv(tmp_path / "auctions.csv")
    scored = table[~table["metric"].str.contains("gain|paired")]
    counts = scored.groupby(["method", "metric"])["seed"].apply(list)
    assert len(counts) == 2 * 5
    assert all(seeds == [0, 1] for seeds in counts)
    assert table["value"].notna().all()
    score = scored[scored["metric"] == "log score"].pivot(
        index="seed", columns="method", values="value"
    )
    gain = table[table["metric"].str.startswith("log score, gain")].set_index("seed")["value"]
    wanted = score["exact and censored"] - score["outcomes only"]
    assert gain.to_numpy() == pytest.approx(wanted.to_numpy(), abs=2e-6)
    assert "in paired standard errors" in capsys.readouterr().out


def test_interrupted_study_goes_on_to_the_same_table(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    auctions.main(options(tmp_path))
    whole = pd.read_csv(tmp_path / "auctions.csv").drop(columns="seconds")
    run, calls = auctions.run, []

    def interrupted(**part):
        if len(calls) == 1:
            raise KeyboardInterrupt
        calls.append(part)
        return run(**part)

    monkeypatch.setattr(auctions, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        auctions.main(options(tmp_path))
    monkeypatch.setattr(auctions, "run", run)
    auctions.main(options(tmp_path))
    again = pd.read_csv(tmp_path / "auctions.csv").drop(columns="seconds")
    pd.testing.assert_frame_equal(whole, again)


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
