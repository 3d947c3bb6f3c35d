"""Fits, predictions and posteriors of models, each beside another way to do the same.

A benchmark is a generator of comparisons; `quick` makes everything a size that takes seconds.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyro_gcm import GCM, baselines, fit, fit_members, to_arviz
from pyro_gcm.baselines import PWL
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.responses import Ordinal
from reproduce.benchmarks.paired import Comparison
from reproduce.benchmarks.scoring import fitted_loans, loans
from reproduce.data import simulation
from reproduce.methods import METHODS, rows_of
from reproduce.methods.spaces import SEARCHED
from reproduce.quantile import BATCH, QUANTILE_METHODS
from reproduce.results import RESULTS
from reproduce.runs import Settings, read_results
from reproduce.searching.search import final_file, trials_file
from reproduce.tasks import load

Comparisons = Iterator[Comparison]
#: What fits in here are given.
_QUIET: dict[str, Any] = {"device": "cpu", "progress": False}
X_DIM, R_DIM = 33, 4


def predict(quick: bool) -> Comparisons:
    """`GCM.predict` of one row and of many beside PWL's, and `required_revenue`, width 16."""
    x, r, _ = rows(100 if quick else 10_000)
    network = PWL(X_DIM, R_DIM, hidden=16)
    models = {n: _untrained(x, r, num_samples=n) for n in (32, 128)}
    for count in (1, len(x)):
        part = x[:count], r[:count]
        calls = {f"GCM, {n} draws": partial(m.predict, *part) for n, m in models.items()}
        sides = {"PWL": partial(network.predict, *part), **calls}
        yield Comparison(f"predict, {count} rows", sides, "PWL")
    for n, model in models.items():
        sides = {
            "predict": partial(model.predict, x[:64], r[:64]),
            "required_revenue": partial(model.required_revenue, x[:64]),
        }
        yield Comparison(f"64 rows, {n} draws", sides, "predict")


def estimators(quick: bool) -> Comparisons:
    """`predict_proba` of a `GCMClassifier` beside its model's `predict`, and `required`."""
    warnings.simplefilter("ignore", UserWarning)  # required values beyond the training rows
    model = fitted_loans(300 if quick else 10_000)
    table = loans(1_000, seed=1).drop(columns="id")
    for count in (1, len(table)):
        part = table[:count]
        sides: dict[str, Callable[[], object]] = {
            "model": partial(model.model_.predict, *model._rows(part)),
            "estimator": partial(model.predict_proba, part),
        }
        yield Comparison(f"predict, {count} rows of a table", sides, "model")
    for count in (1, 100):
        part = table[:count]
        sides = {
            "predict_proba": partial(model.predict_proba, part),
            "required": partial(model.required, part, "debt", 0.5),
        }
        yield Comparison(f"required, {count} rows, with bands", sides, "predict_proba")


def surface(quick: bool) -> Comparisons:
    """`GCM.surface` of 64 rows at 1,024 revenues, 32 draws, beside PWL once for all pairs."""
    compas = load("compas", "published")
    count = 64 if quick else 1024
    given = {
        "that all differ": rows(count)[:2],
        "of COMPAS": (compas.x[:count].float(), compas.r[:count].float()),
    }
    for width in (16,) if quick else (16, 128):
        for name, (x, revenues) in given.items():
            model = _untrained(x, revenues, hidden=width, num_samples=32)
            network = PWL(x.shape[1], revenues.shape[1], hidden=width)
            sides = {
                "PWL": partial(network.surface, x[:64], revenues, cached=False),
                "GCM": partial(model.surface, x[:64], revenues),
            }
            yield Comparison(f"surface at {count} revenues {name}, width {width}", sides, "PWL")


def posterior(quick: bool) -> Comparisons:
    """Posterior draws, a thousand of each row, beside draws without the outcomes.

    "usual": trained, with the outcomes of the rows. "rare": untrained, with random outcomes, many
    of which have a small probability, so that a draw takes many proposals.
    """
    warnings.simplefilter("ignore", UserWarning)  # untrained models, and rare outcomes
    count = 50 if quick else 1000
    columns = rows(5000)
    trained = GCM(X_DIM, R_DIM)
    fit(trained, *(column[count:] for column in columns), epochs=5, **_QUIET)
    x, r, y = (column[:count] for column in columns)
    asked: Any = {"num_samples": 100 if quick else 1000, "progress": False}
    random = torch.randint(2, (count,)).float()
    for case, model, outcomes in (("usual", trained, y), ("rare", GCM(X_DIM, R_DIM), random)):
        sides: dict[str, Callable[[], object]] = {
            "without y": partial(model.posterior, x, r, **asked),
            "cost_posterior": partial(model.cost_posterior, x, r, outcomes, **asked),
            "to_arviz": partial(to_arviz, model, x, r, outcomes, **asked),
        }
        yield Comparison(f"posterior, {case} outcomes, {count} rows", sides, "without y")


def responses(quick: bool) -> Comparisons:
    """Thirty steps of training and a prediction of every response beside those of a binary one."""
    x, r, _ = rows(2560)
    score = x[:, 0] + r.sum(1) + 0.5 * torch.randn(len(x))
    when = (-score).exp().double()
    outcomes: dict[str, tuple[Any, Any]] = {
        "binary": ("binary", (score > 1.0).float()),
        "continuous": ("continuous", score),
        "ordinal, 4 levels": (Ordinal(levels=4), torch.bucketize(score, torch.arange(3.0))),
        "distribution": ("distribution", score.double().exp()),
        "survival, right-censored": (
            "survival",
            SurvivalTimes.right_censored(when.clamp(max=0.5), when <= 0.5),
        ),
        "survival, intervals": ("survival", SurvivalTimes(0.8 * when, 1.2 * when)),
    }
    for prior in ("conditional", "members"):
        fits: dict[str, Callable[[], object]] = {}
        predictions: dict[str, Callable[[], object]] = {}
        for name, (response, y) in outcomes.items():
            model = GCM(X_DIM, R_DIM, response=deepcopy(response), prior=prior)
            options: Any = {"epochs": 1 if quick else 3, **_QUIET}
            fits[name] = partial(fit, model, x, r, y, **options)
            predictions[name] = partial(model.predict, x, r)
        for what, sides in (("fit", fits), ("predict", predictions)):
            yield Comparison(f"{what}, prior={prior!r}", sides, "binary")


def copies(quick: bool) -> Comparisons:
    """Ten copies of a baseline by `fit_many`, 1,000 steps, beside `fit` of one after another."""
    count, steps = (2, 3) if quick else (10, 1000)
    sets = [simulation.sample(BATCH * steps, seed) for seed in range(count)]
    options: Any = {"epochs": 1, "batch_size": BATCH, **_QUIET}
    for name in QUANTILE_METHODS:
        if METHODS[name].latent:
            continue
        make = partial(METHODS[name].make, 1, 1, response="quantile", hidden=32)

        def one_by_one(make: Any = make) -> None:
            for seed, columns in enumerate(sets):
                baselines.fit(make(seed=seed), *columns, seed=seed, **options)

        def together(make: Any = make) -> None:
            made, columns = [make(seed=seed) for seed in range(count)], zip(*sets, strict=True)
            baselines.fit_many(made, *columns, seeds=range(count), **options)

        sides = {"one by one": one_by_one, "side by side": together}
        yield Comparison(f"{count} copies of {name}", sides, "one by one")


def tuned(name: str, folder: Path = RESULTS) -> tuple[Settings, int]:
    """Settings and number of trees of LightGBM that the search chose for a data set.

    They are those of the final fits, or where there are none, of its best trial.
    """
    for file in (final_file(name), trials_file(name)):
        table = read_results(folder / file)
        found = table[(table["dataset"] == name) & (table["method"] == "LightGBM")]
        if file == trials_file(name):
            found = found.sort_values("value").head(1)
        if len(found):
            settings: Settings = json.loads(found["settings"].iloc[0])
            left = {key: value for key, value in settings.items() if key not in ("folds", "rows")}
            return left, round(found["epochs"].median())
    return dict(SEARCHED["LightGBM"].default), 300


def members(quick: bool) -> Comparisons:
    """A fit and predictions of members with their defaults, beside LightGBM as it was tuned."""
    for name in ("adult",) if quick else ("adult", "diabetes"):
        (settings, trees), dataset = tuned(name), load(name, "default")
        learn = rows_of(dataset, torch.arange(500 if quick else len(dataset)))
        models: dict[str, Any] = {}

        def boost(learn: Any = learn, models: Any = models, a: Any = (trees, settings)) -> None:
            models["LightGBM"], _ = SEARCHED["LightGBM"].fit(learn, a[0], a[1], 0)

        def grow(learn: Any = learn, models: Any = models) -> None:
            options: Any = {"response": learn.response, **_QUIET}
            models["members"] = fit_members(learn.x, learn.r, learn.y, **options).model

        sides: Mapping[str, Callable[[], object]] = {"LightGBM": boost, "members": grow}
        title = f"{name}, {len(learn.y)} rows; {trees} trees"
        yield Comparison(f"fit, {title}", sides, "LightGBM", warm_up=0)
        for count in (1, 1_000, 10_000):
            part = learn.x[:count], learn.r[:count]
            sides = {side: partial(model.predict, *part) for side, model in models.items()}
            yield Comparison(f"predict, {name}, {count} rows", sides, "LightGBM")


def gpu(quick: bool) -> Comparisons:
    """Every kind of work on a GPU beside the same on the CPU, by the clock on the wall.

    The row of a GPU in the paper's Table 8 comes from `python -m reproduce timing --device cuda`.
    """
    other = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if other == "cuda" else "CPU again"
    columns = rows(2_000 if quick else 100_000)
    draws, points, asked = (20, 32, 256) if quick else (500, 2048, 256)
    for prior in ("conditional", "members"):
        work: dict[str, dict[str, Callable[[], object]]] = {}
        for side, device in (("CPU", "cpu"), (name, other)):
            model, (x, r, y) = GCM(X_DIM, R_DIM, prior=prior), (c.to(device) for c in columns)
            bid = r[0].clone()
            bid[0] = torch.nan  # the revenue that is searched for
            options: Any = {"batch_size": 4096, "device": device, "progress": False, "epochs": 1}
            few = x[:asked], r[:asked], y[:asked]
            calls: dict[str, Callable[[], object]] = {
                "fit, an epoch": partial(fit, model, x, r, y, **options),
                "predict": partial(model.predict, x, r),
                "surface": partial(model.surface, x[:points], r[:points]),
                "posterior": partial(model.posterior, *few, num_samples=draws, progress=False),
                "required_revenue": partial(model.required_revenue, x[:asked], 0.3, r=bid),
            }
            for what, call in calls.items():
                work.setdefault(what, {})[side] = partial(_awaited, call, device)
        for what, sides in work.items():
            yield Comparison(f"{what}, {prior}", sides, "CPU", clock=time.perf_counter)


def rows(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Simulated x [n, 33], r [n, 4] and y [n], the same at every call."""
    noise = torch.Generator().manual_seed(0)
    x = torch.randn(count, X_DIM, generator=noise)
    r = torch.randn(count, R_DIM, generator=noise)
    cost = 0.7 * x[:, :R_DIM] - 1.2 + 0.6 * torch.randn(count, R_DIM, generator=noise)
    return x, r, (cost < r).all(-1).float()


def _untrained(x: Tensor, r: Tensor, **options: Any) -> GCM:
    """A model that predicts without a warning, at the cost of one that was trained."""
    model = GCM(x.shape[1], r.shape[1], **{"hidden": 16, **options})
    model.learn_units(x, r, torch.zeros(len(x)))
    return model


def _awaited(call: Callable[[], object], device: str) -> None:
    call()
    if device == "cuda":
        torch.cuda.synchronize()


#: Name -> benchmark.
BENCHMARKS: dict[str, Callable[[bool], Comparisons]] = {
    **{made.__name__: made for made in (predict, estimators, posterior, responses, copies, gpu)},
    # Those that read data sets.
    **{made.__name__: made for made in (surface, members)},
}
