"""Bands of probabilities: how much of the truth they hold, for ten kinds of truth.

Rows are simulated, so that the true probability of each is known: numbers x, of which the log-odds
are sums of waves with random weights, and a column r with a direction. None of these data sets, nor
of these seeds, chose the factors of the bands.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm.estimators import GCMClassifier
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores
from reproduce.study import Study

Array = npt.NDArray[np.float64]
LEVEL, TEST, ROWS = 0.9, 4000, (500, 2000, 10_000)
#: Kind -> what it adds to the log-odds, or changes of the table: x [n, d], r [n, m].
KINDS: dict[str, Callable[[Array, Array], Array]] = {
    "additive": lambda x, r: r[:, 0],
    "interaction": lambda x, r: r[:, 0] + x[:, 0] * x[:, 1],
    "step": lambda x, r: r[:, 0] + 1.5 * ((x[:, 0] > 0.3) & (x[:, 1] < 0.5)),
    "two directions": lambda x, r: 1.5 * np.maximum(r[:, 0], 0.7 * r[:, 1] - 0.3),
    "rare events": lambda x, r: r[:, 0] - 3.2,
    "17 columns of noise": lambda x, r: r[:, 0],
    "categories": lambda x, r: r[:, 0] + 2.0 * np.sin(12.9 * x[:, 0]),
    "steep": lambda x, r: 4.0 * r[:, 0],
    "plateau": lambda x, r: 3.0 * r[:, 0].clip(-0.5, 0.5),
    "correlated": lambda x, r: 1.5 * r[:, 0],
}


def simulated(kind: str, rows: int, seed: int) -> tuple[Array, Array, list[int]]:
    """A table [n, d + m], its true probabilities, and the directions of its columns."""
    waves, rng = np.random.default_rng(1000 + seed), np.random.default_rng([seed, rows])
    d, m = 20 if "noise" in kind else 3, 1 + (kind == "two directions")
    x, r = rng.normal(size=(rows, d)), rng.normal(size=(rows, m))
    if kind == "correlated":
        x = 0.6 * x + 0.8 * rng.normal(size=(rows, 1))
        r = 0.7 * r + 0.5 * x[:, :1]
    weight, phase = waves.normal(size=3), 6.0 * waves.random(3)
    smooth = np.sin(1.2 * x[:, :3] + phase) @ (1.5 * weight / np.linalg.norm(weight))
    if kind == "categories":
        x[:, 0] = rng.integers(0, 8, rows)
    p = 1.0 / (1.0 + np.exp(-smooth - KINDS[kind](x, r)))
    return np.hstack([x, r]), p, [0] * d + [1] * m


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Coverage and width of bands in new rows."""
    rows = fit.options["rows"]
    X, p, directions = simulated(fit.dataset, rows, fit.seed)
    y = np.random.default_rng(fit.seed).random(rows) < p
    start = time.process_time()
    model = GCMClassifier(monotonic_cst=directions, random_state=fit.seed, device=device).fit(X, y)
    seconds = time.process_time() - start
    new, truth, _ = simulated(fit.dataset, TEST, fit.seed)
    low, high, behind, _ = model.predict_bands(new, LEVEL)
    return {
        "coverage": float(((low <= truth) & (truth <= high)).mean()),
        "width": float((high - low).mean()),
        "rows behind a prediction": behind,
        "seconds": seconds,
        "epochs": model.n_iter_,
    }


def report(table: pd.DataFrame) -> str:
    """Coverage, and in brackets width, of every kind and number of rows."""
    rows = table["settings"].map(lambda text: json.loads(text)["rows"])
    mean = table.astype({"value": float}).groupby(["dataset", rows, "metric"])["value"].mean()
    lines = [
        [kind, *(f"{mean[kind, n, 'coverage']:.2f} ({mean[kind, n, 'width']:.2f})" for n in ROWS)]
        for kind in KINDS
        if kind in mean
    ]
    return markdown(["Truth", *(f"{n:,} rows" for n in ROWS)], lines)


STUDY = Study(
    *("bands", str(__doc__), KINDS, {"predict_bands": None}, run, "14"),
    count=5,
    counted="seeds",
    protocol="simulated",
    settings=lambda dataset, method: [{"rows": rows} for rows in ROWS],
    quick={"rows": 500},
)
