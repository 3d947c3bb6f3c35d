"""Simulated second-price auctions: the bid that wins, and what revealed prices are worth."""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pyro_gcm import GCM, data, fit
from reproduce.results import Tables, clear_parts, cores, run_parts, versions, write_csv

#: Chosen by hand on auctions of seeds from 100. Bids and prices enter as logarithms.
SETTINGS: dict[str, Any] = {
    "model": {"hidden": [16], "num_samples": 512},
    "fit": {"epochs": 30, "batch_size": 512, "num_particles": 128, "learning_rate": 0.02},
    "weight_decay": 0.1,
}
VARIANTS = ("exact and censored", "outcomes only")
TARGET = 0.9
#: Impressions, at most, at which the bid is compared with the truth.
IMPRESSIONS = 4000


def train(auctions: data.Auctions, variant: str, seed: int, settings: dict[str, Any]) -> GCM:
    """GCM of log-prices, from the prices that were revealed or from wins and losses alone."""
    model = GCM(auctions.x_dim, 1, seed=seed, **settings["model"])
    cost = auctions.cost.log() if variant == VARIANTS[0] else None
    optimizer = partial(torch.optim.AdamW, weight_decay=settings["weight_decay"])
    fit(
        model,
        auctions.x,
        auctions.bid.log(),
        auctions.won,
        cost,
        optimizer=optimizer,
        seed=seed,
        device="cpu",
        progress=False,
        **settings["fit"],
    )
    return model


def scores(model: GCM, test: data.Auctions) -> tuple[dict[str, float], Tensor]:
    """Errors of the bid that wins with probability 0.9, and the log score of every auction."""
    x = test.x[:IMPRESSIONS]
    bid = model.required_revenue(x, TARGET).double().exp()
    error = bid / test.winning_bid(x, TARGET) - 1.0
    log_p = model.log_prob(test.x, test.bid.log(), test.won).double()
    values = {
        "mean absolute error of the bid": error.abs().mean().item(),
        "median absolute error of the bid": error.abs().median().item(),
        "mean error of the bid": error.mean().item(),
        "win rate at the bid": test.win_probability(x, bid).mean().item(),
        "log score": log_p.mean().item(),
    }
    return values, log_p


def run(num_auctions: int, held_out: int, seed: int, settings: dict[str, Any]) -> Tables:
    """Both variants on the same auctions, scored on the same fresh ones."""
    auctions = data.simulate_auctions(num_auctions, seed=seed)
    test = data.simulate_auctions(held_out, seed=10_000 + seed)
    common = {
        "experiment": "auctions",
        "auctions": num_auctions,
        "seed": seed,
        "setting": json.dumps(settings),
        "versions": versions(),
    }
    rows, log_scores = [], []
    for variant in VARIANTS:
        start = time.perf_counter()
        model = train(auctions, variant, seed, settings)
        seconds = time.perf_counter() - start
        values, log_p = scores(model, test)
        log_scores.append(log_p)
        rows += [
            {**common, "method": variant, "metric": metric, "value": value, "seconds": seconds}
            for metric, value in values.items()
        ]
    gap = log_scores[0] - log_scores[1]
    for metric, value in {
        "log score, gain by revealed prices": gap.mean().item(),
        "its paired standard error": (gap.std() / len(gap) ** 0.5).item(),
    }.items():
        rows.append(
            {**common, "method": VARIANTS[0], "metric": metric, "value": value, "seconds": 0.0}
        )
    return {"metrics": rows}


def report(table: pd.DataFrame) -> str:
    """Means over seeds, and the paired gain in standard errors, over rows and over seeds."""
    lines = []
    for metric in table["metric"].unique():
        of_metric = table[table["metric"] == metric]
        means = of_metric.groupby("method")["value"].mean()
        shown = "".join(f"   {name}: {value:.4f}" for name, value in means.items())
        lines.append(f"{metric:38s}{shown}")
    wide = table.pivot_table(index="seed", columns="metric", values="value", aggfunc="first")
    gain = wide["log score, gain by revealed prices"]
    by_rows = gain / wide["its paired standard error"]
    lines.append(
        "gain in paired standard errors over the auctions of each seed: "
        + ", ".join(f"{value:.1f}" for value in by_rows)
    )
    if len(gain) > 1:
        over_seeds = gain.mean() / (gain.std() / len(gain) ** 0.5)
        lines.append(f"mean gain in standard errors over seeds: {over_seeds:.1f}")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce auctions`."""
    parser.add_argument("--auctions", type=int, default=20_000, help="auctions to learn from")
    parser.add_argument("--held-out", type=int, default=20_000, help="auctions that are scored")
    parser.add_argument("--seeds", type=int, default=5, help="number of simulations")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--jobs", type=int, default=cores(), help="processes, one a core")
    parser.add_argument(
        "--output", type=Path, default=Path("results"), help="folder of the results"
    )


def main(arguments: argparse.Namespace) -> None:
    """Run all seeds, print the table and write the CSV file."""
    epochs = {"epochs": arguments.epochs} if arguments.epochs else {}
    settings = {**SETTINGS, "fit": {**SETTINGS["fit"], **epochs}}
    parts = [
        {
            "num_auctions": arguments.auctions,
            "held_out": arguments.held_out,
            "seed": seed,
            "settings": settings,
        }
        for seed in range(arguments.seeds)
    ]
    tables = run_parts("auctions", parts, run, arguments.jobs)
    print(f"\n{arguments.auctions} auctions, {arguments.seeds} seeds, {settings}")
    print(report(tables["metrics"]))
    path = arguments.output / "auctions.csv"
    write_csv(tables["metrics"], path)
    clear_parts("auctions")
    print(f"\nwritten: {path}")
