"""Strict and implicit monotonicity on a real data set, beside monotone gradient boosting."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import cross_val_predict

from reproduce.intervals import TEST_TO_TRAIN, paired_interval, samples
from reproduce.methods import METHODS, Rows, methods_of, rows_of, train
from reproduce.rendering.markdown import known_first, markdown, number, shown
from reproduce.rendering.tables import star
from reproduce.runs import Fit, Scores, as_json
from reproduce.scores import distribution_scores
from reproduce.study import Study, each
from reproduce.tasks import TASKS, rows_of_fit


def cells(fit: Fit) -> Iterable[Fit]:
    """The settings of the data set; an estimator has none."""
    settings = {} if METHODS[fit.method].estimator else TASKS[fit.dataset].implicit
    return [replace(fit, settings=as_json(settings))]


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One method on one random 4:1 split."""
    dataset, learn, test, options = rows_of_fit(fit)
    rows, estimator = rows_of(dataset, learn), METHODS[fit.method].estimator
    start = time.perf_counter()
    settings: dict[str, Any] = {}
    if not estimator:
        settings = {"schedule": "cosine", **options["model"], **options["fit"]}
    model, _ = train(fit.method, rows, settings, fit.seed, device=device)
    with_density = not estimator or dataset.response == "binary"
    spread = None if with_density else out_of_fold_spread(model, rows)
    scores = distribution_scores(dataset, [model], test, device, spread)
    cost = {"seconds": time.perf_counter() - start, "epochs": settings.get("epochs", 0)}
    return {**scores, **cost}


def out_of_fold_spread(booster: Any, rows: Rows) -> float:
    """Spread of the errors of scikit-learn's boosting on training rows that it did not see."""
    inputs, target = torch.cat([rows.x, rows.r], dim=1).numpy(), rows.y.numpy()
    predicted = cross_val_predict(booster.estimator, inputs, target, cv=5)
    return float(np.sqrt(np.mean((predicted - target) ** 2)))


def report(table: pd.DataFrame, name: str) -> str:
    """Scores of every method on a data set, and paired differences of two of them to GCM's."""
    table, metric = table[table["dataset"] == name], TASKS[name].metric
    values = samples(table, ["method", "metric"])
    lines = []
    for method in known_first(table["method"]):
        line = [method]
        for name in (metric, "log score", "calibration error"):
            gap = None
            if method != "GCM" and ("GCM", name) in values:
                gap = paired_interval(values[method, name], values["GCM", name], TEST_TO_TRAIN)
            line += [number(values[method, name].mean()), shown(gap, mark=star(gap)) if gap else ""]
        lines.append(line[:-1])
    header = ["Method", metric, "minus GCM", "Log score", "minus GCM", "Calibration error"]
    return markdown(header, lines)


TITLES = {name: task.title for name, task in TASKS.items() if task.implicit}
STUDY = Study(
    *("implicit", str(__doc__), TITLES, {name: METHODS[name] for name in methods_of("implicit")}),
    *(run, each(TITLES, report)),
    count=3,
    cells=cells,
    quick={"rows": 400, "fit": {"epochs": 1}},
    file_a_dataset=True,
)
