"""Linear models and untuned boosting on the published split, of all inputs and of r alone.

They say how much of a number of the published protocol needs x, or anything but a straight line.
"""

from __future__ import annotations

import argparse
import time

import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pyro_gcm.baselines import MonotoneBoosting
from reproduce.arguments import positive_count
from reproduce.public import published_split, scores_of
from reproduce.runs import Fit, Scores, add_run_arguments, as_json, run_fits
from reproduce.tasks import TASKS, load

#: Method -> whether it is boosting, and whether it sees x.
CHECKS = {
    "Linear": (False, True),
    "Linear, revenues alone": (False, False),
    "Boosting": (True, True),
    "Boosting, revenues alone": (True, False),
}


def fits(datasets: list[str], seeds: int, quick: bool) -> list[Fit]:
    """Every check of every data set; boosting draws, above 10,000 rows, where it stops."""
    settings = as_json({"rows": 200} if quick else {})
    return [
        Fit("checks", name, "published", "published", published_split(name), seed, method, settings)
        for name in datasets
        for method, (boosted, _) in CHECKS.items()
        for seed in range(seeds if boosted and not quick else 1)
    ]


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One check; scikit-learn runs on the CPU whatever the device."""
    boosted, sees_x = CHECKS[fit.method]
    dataset = load(fit.dataset, fit.variant)
    x = dataset.x if sees_x else dataset.x[:, :0]
    split = dataset.fixed_split() if fit.split == "fixed" else dataset.split(int(fit.split))
    learn, test = (part[: fit.options.get("rows")] for part in split)
    start = time.perf_counter()
    if boosted:
        booster = MonotoneBoosting(response=dataset.response, seed=fit.seed)
        booster.fit(x[learn], dataset.r[learn], dataset.y[learn])
        prediction = booster.predict(x[test], dataset.r[test]).numpy()
    else:
        binary = dataset.response == "binary"
        linear = LogisticRegression(max_iter=1000) if binary else LinearRegression()
        inputs = torch.cat([x, dataset.r], 1).numpy()
        model = make_pipeline(StandardScaler(), linear).fit(inputs[learn], dataset.y[learn].numpy())
        prediction = (
            model.predict_proba(inputs[test])[:, 1] if binary else model.predict(inputs[test])
        )
    scores = scores_of(dataset, prediction, test)
    return {**scores, "seconds": time.perf_counter() - start, "epochs": 0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce checks`."""
    parser.add_argument("--datasets", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", type=positive_count, default=10, help="of boosting, from 0")
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the checks that the table lacks."""
    path = arguments.output / "checks.csv"
    every = fits(arguments.datasets, arguments.seeds, arguments.quick)
    table = run_fits(path, every, run, arguments)
    own = table[table["metric"] == table["dataset"].map(lambda name: TASKS[name].metric)]
    print(own.pivot_table("value", "method", "dataset", sort=False).round(4).to_string())
    print(f"\nwritten: {path}")
