"""`python -m reproduce.benchmarks NAME`: times of things that run in turn, and their ratios.

A benchmark is a generator of comparisons; with --quick everything has a size that takes seconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_gcm import GCM, export, fit, fit_members, one_thread, to_arviz
from pyro_gcm.baselines import PWL
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.estimators import GCMClassifier
from pyro_gcm.inference import ImportanceWeightedELBO
from pyro_gcm.io.onnx_file import OnnxFile
from pyro_gcm.models import MemberGCM
from pyro_gcm.responses import Ordinal
from reproduce import ratios
from reproduce.methods import rows_of
from reproduce.methods.spaces import SEARCHED
from reproduce.runs import RESULTS, positive_count, read_results
from reproduce.tasks import load

#: What fits in here are given.
_QUIET: dict[str, Any] = {"device": "cpu", "progress": False}
X_DIM, R_DIM = 33, 4
Sides = Mapping[Any, Callable[[], object]]


class Comparison(NamedTuple):
    """Several ways to do one thing; the first is what the others are set beside."""

    title: str
    sides: Sides
    warm_up: int = 1


def paired(
    sides: Sides,
    repeats: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> dict[Any, list[float]]:
    """Seconds of every call on one thread, [repeats] for each side; the sides run in turn.

    The speed of a machine drifts, so that only times taken beside each other can be compared.
    """
    seconds: dict[Any, list[float]] = {name: [] for name in sides}
    with one_thread():
        for repeat in range(-warm_up, repeats):
            for name, call in sides.items():
                start = clock()
                call()
                if repeat >= 0:
                    seconds[name].append(clock() - start)
    return seconds


def show(seconds: Mapping[str, Sequence[float]]) -> None:
    """Print the median milliseconds of every side, and its ratio to the first with quartiles.

    :param seconds: the result of `paired`.
    """
    reference = next(iter(seconds))
    for name, times in seconds.items():
        line = f"{name:32s} {1e3 * float(np.median(times)):9.3f} ms"
        if name != reference:
            lower, median, upper = ratios.quartiles(seconds)[name]
            line += f"   {median:6.3f} x {reference} ({lower:.3f} to {upper:.3f})"
        print(line)


def steps(quick: bool) -> Iterator[Comparison]:
    """An epoch of `fit` by the reader of the story, by Pyro's handlers, and by hand in torch."""
    columns = rows(256 if quick else 5_120)
    for hidden in (16,) if quick else (16, 128):
        model = GCM(X_DIM, R_DIM, hidden=hidden)
        options: Any = {"epochs": 1, "batch_size": 256, "num_particles": 32, **_QUIET}
        bound = _OfHandlers(32, max_plate_nesting=1)
        sides: Sides = {
            "by hand": partial(_epoch_by_hand, model, *columns),
            "reader": partial(fit, model, *columns, elbo="iwae", **options),
            "Pyro's handlers": partial(fit, model, *columns, elbo=bound, **options),
        }
        yield Comparison(f"fit, {len(columns[0])} rows, width {hidden}", sides)


class _OfHandlers(ImportanceWeightedELBO):
    """The same bound, of a type that `fit` leaves to Pyro."""


def _epoch_by_hand(model: GCM, x: Tensor, r: Tensor, y: Tensor) -> None:
    """The importance-weighted bound of 32 draws of the prior, by products of probabilities."""
    parameters = list(model.trained_parameters().values())
    optimizer = torch.optim.Adam(parameters, fused=True)
    for batch in torch.randperm(len(y)).split(256):
        cost = model.cost_net(model.z_prior(x[batch]).rsample((32,))).base_dist
        u = (r[batch].double() - cost.loc) / (math.sqrt(2.0) * cost.scale)
        tail, above = 0.5 * torch.erfc(u.abs()), u > 0.0
        up = torch.where(above, 1.0 - tail, tail).unbind(-1)
        down = torch.where(above, tail, 1.0 - tail).unbind(-1)
        hit, missed = up[-1], down[-1]
        for one, none in zip(up[-2::-1], down[-2::-1], strict=True):
            hit, missed = one * hit, none + one * missed
        loss = -torch.where(y[batch] > 0.5, hit, missed).mean(0).clamp_min(1e-300).log().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 10.0)
        optimizer.step()


def predict(quick: bool) -> Iterator[Comparison]:
    """`predict` of one row and of many beside PWL's, and `required_revenue`, width 16."""
    x, r, _ = rows(100 if quick else 10_000)
    network = PWL(X_DIM, R_DIM, hidden=16)
    models = {n: _untrained(x, r, num_samples=n) for n in (32, 128)}
    for count in (1, len(x)):
        part = x[:count], r[:count]
        calls = {f"GCM, {n} draws": partial(m.predict, *part) for n, m in models.items()}
        yield Comparison(
            f"predict, {count} rows", {"PWL": partial(network.predict, *part), **calls}
        )
    for n, model in models.items():
        sides = {
            "predict": partial(model.predict, x[:64], r[:64]),
            "required_revenue": partial(model.required_revenue, x[:64]),
        }
        yield Comparison(f"64 rows, {n} draws", sides)


def posterior(quick: bool) -> Iterator[Comparison]:
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
        yield Comparison(f"posterior, {case} outcomes, {count} rows", sides)


def responses(quick: bool) -> Iterator[Comparison]:
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
    for kind in (GCM, MemberGCM):
        fits: dict[str, Callable[[], object]] = {}
        predictions: dict[str, Callable[[], object]] = {}
        for name, (response, y) in outcomes.items():
            model = kind(X_DIM, R_DIM, response=deepcopy(response))
            fits[name] = partial(fit, model, x, r, y, epochs=1 if quick else 3, **_QUIET)
            predictions[name] = partial(model.predict, x, r)
        for what, sides in (("fit", fits), ("predict", predictions)):
            yield Comparison(f"{what}, {kind.__name__}", sides)


def members(quick: bool) -> Iterator[Comparison]:
    """A fit and predictions of members with their defaults, beside LightGBM as it was tuned."""
    for name in ("adult",) if quick else ("adult", "diabetes"):
        table = read_results(RESULTS / f"search_{name}.csv")
        table = table[table["method"] == "LightGBM"]
        settings, trees = json.loads(table["settings"].iloc[0]), round(table["epochs"].median())
        settings.pop("folds")
        dataset = load(name, "default")
        learn = rows_of(dataset, torch.arange(500 if quick else len(dataset)))
        models: dict[str, Any] = {}

        def boost(learn: Any = learn, models: Any = models, a: Any = (trees, settings)) -> None:
            models["LightGBM"], _ = SEARCHED["LightGBM"].fit(learn, a[0], a[1], 0)

        def grow(learn: Any = learn, models: Any = models) -> None:
            options: Any = {"response": learn.response, **_QUIET}
            models["fitted"] = fit_members(learn.x, learn.r, learn.y, **options)
            models["members"] = models["fitted"].model

        sides: dict[str, Callable[[], object]] = {"LightGBM": boost, "members": grow}
        sides["its products"] = partial(_products, models)
        yield Comparison(f"fit, {name}, {len(learn.y)} rows; {trees} trees", sides, warm_up=0)
        del models["fitted"]
        for count in (1, 1_000, 10_000):
            part = learn.x[:count], learn.r[:count]
            sides = {side: partial(model.predict, *part) for side, model in models.items()}
            yield Comparison(f"predict, {name}, {count} rows", sides)


def exported(quick: bool) -> Iterator[Comparison]:
    """Predictions of an exported ONNX file on one thread beside those of its estimator."""
    x, r, y = rows(500 if quick else 2_000)
    table = pd.DataFrame(np.column_stack([x[:, :8], r]), columns=[*"abcdefgh", *"pqst"])
    table["site"] = np.where(x[:, 9] > 0.0, "news", "sport")
    directions = dict.fromkeys("pqst", 1)
    options: Any = {"monotonic_cst": directions, "epochs": 1, "device": "cpu"}
    priors: dict[str, Any] = {"members": "members", "normal costs": "conditional"}
    for name, prior in priors.items():
        estimator = GCMClassifier(prior=prior, **options).fit(table, y)
        with TemporaryDirectory() as folder:
            file = OnnxFile(export(estimator, Path(folder) / "model.onnx", format="onnx"))
        for count in (1, 100 if quick else 1_000):
            part = table[:count]
            given = file.inputs(part)
            sides: dict[str, Callable[[], object]] = {
                "Python": partial(estimator.predict_proba, part),
                "onnxruntime": partial(file.session.run, None, given),
            }
            yield Comparison(f"{name}, {count} rows", sides)


def _products(models: Mapping[str, Any]) -> None:
    """The matrix products of a fit of members and nothing else: the least that it can take."""
    settings, encoder = models["fitted"].settings, models["members"].encoder
    count, batch = encoder.members, settings.batch_size
    widths = [len(encoder.features.active), settings.width, settings.width, 2 * 9]
    for _ in range(models["fitted"].result.rows[-1]["step"]):
        for inner, outer in itertools.pairwise(widths):
            a, weight = torch.ones(count, batch, inner), torch.ones(count, inner, outer)
            gradient = torch.bmm(a, weight)
            torch.bmm(a.mT, gradient)
            torch.bmm(gradient, weight.mT)


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


#: Name -> benchmark.
BENCHMARKS: dict[str, Callable[[bool], Iterator[Comparison]]] = {
    made.__name__: made for made in (steps, predict, posterior, responses, members, exported)
}


def main() -> None:
    """Run one, or with --quick alone all."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.benchmarks", description=__doc__)
    about = "; ".join(f"{name}: {str(b.__doc__).splitlines()[0]}" for name, b in BENCHMARKS.items())
    parser.add_argument("name", nargs="?", choices=list(BENCHMARKS), help=about)
    parser.add_argument("--repeats", type=positive_count, default=7)
    parser.add_argument("--quick", action="store_true", help="at a size that takes seconds")
    parser.add_argument("--store", action="store_true", help="keep the ratios, and draw them")
    options = parser.parse_args()
    if options.name is None and not options.quick:
        parser.error("name one, or pass --quick for all of them")
    if options.quick and options.store:
        parser.error("--store keeps ratios of the full size, and --quick has another")
    with_data = "PYRO_GCM_DATA" in os.environ  # which members need
    here = [name for name in BENCHMARKS if with_data or name != "members"]
    for name in here if options.name is None else [options.name]:
        torch.manual_seed(0)
        measured = {}
        for comparison in BENCHMARKS[name](options.quick):
            print(f"\n{comparison.title}", flush=True)
            seconds = paired(comparison.sides, options.repeats, comparison.warm_up)
            show(seconds)
            measured[comparison.title] = seconds
        if options.store:
            ratios.draw(ratios.store(name, measured))


if __name__ == "__main__":
    main()
