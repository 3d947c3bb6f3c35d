"""Simulated auctions: what bids and a budget earn in truth, by the model that chose them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from torch import Tensor

from pyro_gcm import GCM, data, fit
from pyro_gcm.baselines import MonotoneBoosting
from pyro_gcm.decisions import allocate, first_price
from pyro_gcm.estimators import GCMClassifier
from reproduce.intervals import paired_interval, samples
from reproduce.rendering.markdown import shown
from reproduce.rendering.tables import compared
from reproduce.runs import Fit, Scores, Settings
from reproduce.study import Study, named

#: Chosen by hand on auctions of seeds from 100, as were the leaves of boosting.
SETTINGS: Settings = {
    "model": {"hidden": [16], "num_samples": 512},
    "fit": {"epochs": 30, "batch_size": 512, "num_particles": 128, "learning_rate": 0.02},
    "weight_decay": 0.1,
    "impressions": 300,
}
#: What --quick makes of it.
QUICK: Settings = {"impressions": 50, "fit": {**SETTINGS["fit"], "epochs": 1}}
#: Bids of the budget, and the share of what the best bids spend that it allows.
BIDS, SHARE = torch.arange(20.0, 801.0, 20.0, dtype=torch.float64), 0.5
PROFIT = "profit lost"
NAMES = ["viewability", "relevance", "demand"]

#: A table with a column "bid" -> the probability of winning, [n].
Predict = Callable[[pd.DataFrame], Any]


def gcm(prices: str, auctions: data.Auctions, seed: int, settings: Settings) -> GCM:
    """GCM of prices as times, from those that were revealed or from wins and losses alone."""
    model = GCM(auctions.x_dim, 0, response="survival", seed=seed, **settings["model"])
    options: Any = {"seed": seed, "progress": False, **settings["fit"]}
    options["optimizer"] = partial(torch.optim.AdamW, weight_decay=settings["weight_decay"])
    fit(model, auctions.x, auctions.x[:, :0], getattr(auctions, prices), **options)
    return model


def members(auctions: data.Auctions, seed: int, settings: Settings) -> Predict:
    """Members of wins and losses, with the bid as an increasing column."""
    model = GCMClassifier(monotonic_cst={"bid": 1}, random_state=seed)
    model.fit(auctions.frame()[[*NAMES, "bid"]], auctions.won.numpy().astype(int))
    return lambda table: model.predict_proba(table)[:, 1]


def boosting(auctions: data.Auctions, seed: int, settings: Settings) -> Predict:
    """LightGBM, increasing in the bid, stopped early on a tenth of the auctions."""
    last = len(auctions) // 10
    options: Any = {"n_estimators": 2000, "learning_rate": 0.05, "num_leaves": 4}
    model = MonotoneBoosting("lightgbm", seed=seed, **options)
    x, r, y = auctions.x, auctions.bid, auctions.won
    model.fit(x[last:], r[last:], y[last:], validation=(x[:last], r[:last], y[:last]))
    return lambda table: model.predict(table[NAMES].to_numpy(), table[["bid"]].to_numpy())


def logistic(auctions: data.Auctions, seed: int, settings: Settings) -> Predict:
    """Logistic regression of the logarithm of the bid and squares and products of the others."""
    terms = make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler())

    def read(table: pd.DataFrame) -> Any:
        return np.column_stack([terms.transform(table[NAMES]), np.log(table["bid"])])

    frame = auctions.frame()
    terms.fit(frame[NAMES])
    model = LogisticRegression(max_iter=1000).fit(read(frame), frame["won"])
    return lambda table: model.predict_proba(read(table))[:, 1]


METHODS: dict[str, Any] = {
    "GCM, revealed prices": partial(gcm, "seen_prices"),
    "GCM, outcomes": partial(gcm, "outcomes"),
    "members, outcomes": members,
    "LightGBM, outcomes": boosting,
    "logistic, outcomes": logistic,
}


def curves_and_bids(model: Any, x: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities of winning with `BIDS`, [n, R], and the best bids in a first-price auction."""
    if isinstance(model, GCM):
        p = 1.0 - model.predictive(x, x[:, :0]).survival(BIDS)
        found = first_price(model, x, value, low=BIDS[0])
    else:
        table = pd.DataFrame(x.numpy(), columns=NAMES).assign(bid=0.0)
        every = table.iloc[np.repeat(np.arange(len(x)), len(BIDS))].assign(
            bid=BIDS.repeat(len(x)).numpy()
        )
        p = torch.as_tensor(model(every)).reshape(len(x), len(BIDS))
        found = first_price(model, table, value, low=BIDS[0], revenue="bid")
    return p.double(), torch.tensor(found["bid"].to_numpy())


def scores(model: Any, test: data.Auctions, value: Tensor) -> Scores:
    """What decisions of a model lose under the true probabilities, as shares of the best ones.

    :param value: of winning each impression, [n].
    """

    def truth(table: pd.DataFrame) -> Tensor:
        return test.win_probability(table[NAMES].to_numpy(), table["bid"].to_numpy())

    p, best = curves_and_bids(truth, test.x, value)
    seen, own = curves_and_bids(model, test.x, value)
    profit, largest = ((value - b) * test.win_probability(test.x, b) for b in (own, best))
    gain, spend = value[:, None] * p, BIDS * p
    limit = SHARE * (best * test.win_probability(test.x, best)).sum().item()
    choice = allocate(value[:, None] * seen, BIDS * seen, limit).choice
    cells = np.flatnonzero(choice >= 0), choice[choice >= 0]
    spent = spend[cells].sum().item()
    return {
        PROFIT: 1.0 - (profit.sum() / largest.sum()).item(),
        "lost at equal spend": 1.0 - gain[cells].sum().item() / allocate(gain, spend, spent).gain,
        "off the budget": abs(spent / limit - 1.0),
        "error of the bid": (own / best - 1.0).abs().mean().item(),
        "error of the probability": (seen - p).abs().mean().item(),
    }


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One method on the auctions of a seed, judged on fresh impressions."""
    settings = fit.options
    auctions = data.simulate_auctions(int(fit.dataset.split()[0].replace(",", "")), seed=fit.seed)
    test = data.simulate_auctions(settings["impressions"], seed=10_000 + fit.seed)
    start = time.perf_counter()
    model = METHODS[fit.method](auctions, fit.seed, settings)
    found: Scores = {"seconds": time.perf_counter() - start, "epochs": 0}
    drawn = np.random.default_rng(fit.seed).uniform(200.0, 800.0, len(test))
    return found | scores(model, test, torch.from_numpy(drawn))


def report(table: pd.DataFrame) -> str:
    """Every score of every method."""
    return compared(table, METHODS, independent=True)


def saved(table: pd.DataFrame, ours: str, other: str) -> str:
    """What one method loses of the profit less than another, with its interval."""
    values = samples(table[table["metric"] == PROFIT], ["method"])
    return shown(paired_interval(values[other,], values[ours,]))


STUDY = Study(
    *("auctions", str(__doc__), ["2,000 auctions"], METHODS, run, "7"),
    count=20,
    counted="seeds",
    quick_count=2,
    protocol="simulated",
    splits=named(""),
    settings=lambda name, method: [SETTINGS],
    quick=QUICK,
)
