"""Simulated second-price auctions: the bid that wins, and what revealed prices are worth."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pyro_gcm import GCM, data, fit
from reproduce.intervals import mean_interval, samples
from reproduce.rendering.markdown import markdown, shown
from reproduce.runs import Fit, Scores, Settings
from reproduce.study import Study, named

#: Chosen by hand on auctions of seeds from 100.
SETTINGS: Settings = {
    "model": {"hidden": [16], "num_samples": 512},
    "fit": {"epochs": 30, "batch_size": 512, "num_particles": 128, "learning_rate": 0.02},
    "weight_decay": 0.1,
    "auctions": 20_000,
    "held_out": 20_000,
}
#: What --quick makes of it.
QUICK: Settings = {"auctions": 500, "held_out": 500, "fit": {**SETTINGS["fit"], "epochs": 1}}
VARIANTS = ("exact and censored", "outcomes only")
#: What revealed prices add to the log score of an auction.
GAIN = "log score, gain by revealed prices"
TARGET = 0.9
#: Impressions, at most, at which the bid is compared with the truth.
IMPRESSIONS = 4000


def train(
    auctions: data.Auctions, variant: str, seed: int, settings: Settings, device: str = "cpu"
) -> GCM:
    """GCM of prices as times, from those that were revealed or from wins and losses alone."""
    model = GCM(auctions.x_dim, 0, response="survival", seed=seed, **settings["model"])
    prices = auctions.seen_prices if variant == VARIANTS[0] else auctions.outcomes
    options: Any = {"seed": seed, "device": device, "progress": False, **settings["fit"]}
    options["optimizer"] = partial(torch.optim.AdamW, weight_decay=settings["weight_decay"])
    fit(model, auctions.x, no_revenues(auctions.x), prices, **options)
    return model


def no_revenues(x: Tensor) -> Tensor:
    """No column beside the bid, which is the time: r of a model with r_dim=0."""
    return x.new_zeros(len(x), 0)


def scores(model: GCM, test: data.Auctions, device: str = "cpu") -> Scores:
    """Errors of the bid that wins with probability 0.9, and the log score."""
    x = test.x[:IMPRESSIONS]
    price = model.predictive(x.to(device), no_revenues(x.to(device)))
    bid = price.quantile([TARGET])[:, 0].double().cpu()
    error = bid / test.winning_bid(x, TARGET) - 1.0
    columns = test.x, no_revenues(test.x), test.outcomes.columns()
    log_p = model.log_prob(*(column.to(device) for column in columns)).double()
    return {
        "mean absolute error of the bid": error.abs().mean().item(),
        "median absolute error of the bid": error.abs().median().item(),
        "mean error of the bid": error.mean().item(),
        "win rate at the bid": test.win_probability(x, bid).mean().item(),
        "log score": log_p.mean().item(),
    }


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Both variants on the same auctions, scored on the same fresh ones."""
    settings = fit.options
    auctions = data.simulate_auctions(settings["auctions"], seed=fit.seed)
    test = data.simulate_auctions(settings["held_out"], seed=10_000 + fit.seed)
    found: Scores = {"seconds": 0.0, "epochs": len(VARIANTS) * settings["fit"]["epochs"]}
    for variant in VARIANTS:
        start = time.perf_counter()
        model = train(auctions, variant, fit.seed, settings, device)
        found["seconds"] += time.perf_counter() - start
        values = scores(model, test, device)
        found |= {f"{metric}, {variant}": value for metric, value in values.items()}
    with_prices, without = (found[f"log score, {variant}"] for variant in VARIANTS)
    return {**found, GAIN: with_prices - without}


def report(table: pd.DataFrame) -> str:
    """Mean and interval over simulations of every score, by what the model was trained on."""
    cells = {metric: mean_interval(v) for (metric,), v in samples(table, ["metric"]).items()}
    suffix = f", {VARIANTS[0]}"
    stems = [metric.removesuffix(suffix) for metric in cells if metric.endswith(suffix)]
    lines = [[s, *(shown(cells.get(f"{s}, {variant}")) for variant in VARIANTS)] for s in stems]
    return markdown(["", *VARIANTS], [*lines, [GAIN, shown(cells[GAIN]), ""]])


STUDY = Study(
    *("auctions", str(__doc__), ["simulated"], {"GCM": SETTINGS}, run, "7"),
    count=5,
    counted="seeds",
    quick_count=2,
    splits=named(""),
    settings=lambda name, method: [SETTINGS],
    quick=QUICK,
)
