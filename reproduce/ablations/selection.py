"""Outcomes that are seen where another one lets them: what is recovered of all rows.

Heckman's design with 1,500 rows: whether y is seen depends on x, r and w, which y does not depend
on, and the errors of both equations have a correlation of .6. Both are linear in one kind of data;
in the other one y is curved in r, and x bends both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.optimize import minimize
from scipy.stats import norm

from pyro_gcm import GCM, fit
from pyro_gcm.responses import Binary, Continuous, Several
from reproduce.rendering.markdown import known_first, markdown
from reproduce.runs import Fit, Scores
from reproduce.study import Study

Array = npt.NDArray[np.float64]
ROWS, CORRELATION, LEVEL = 1500, 0.6, 0.9
#: E(y) of all rows, E(y) with r one higher, and the ends of intervals of y of those not seen.
Found = tuple[Array, Array, Array, Array]


class Data(NamedTuple):
    """x, w and r [n], whether y was seen [n], y [n] of all rows, and E(y) as a function of r."""

    x: Array
    w: Array
    r: Array
    seen: npt.NDArray[np.bool_]
    y: Array
    curved: bool

    def mean(self, r: Array) -> Array:
        """E(y | x, r), [n]."""
        if self.curved:
            return 1.0 + 1.6 * np.tanh(1.2 * r) + 0.8 * np.sin(1.5 * self.x)
        return 1.0 + 0.8 * r + 0.6 * self.x


def simulated(dataset: str, seed: int) -> Data:
    """Rows of a set of data."""
    rng = np.random.default_rng([seed, 66])
    x, w, r, first, own = rng.normal(size=(5, ROWS))
    curved = dataset == "curved"
    score = 0.2 + 1.0 * w - 0.5 * r + (0.6 * np.sin(1.5 * x) if curved else 0.5 * x)
    data = Data(x, w, r, score + first > 0.0, x, curved)
    error = CORRELATION * first + (1.0 - CORRELATION**2) ** 0.5 * own
    return data._replace(y=data.mean(r) + error)


def both(data: Data, seed: int, epochs: int) -> Found:
    """One GCM of whether y is seen, and of y; intervals are those of draws given that it is not."""
    parts = {"seen": Binary(), "y": Continuous(1, 8, noise="constant")}
    response = Several(parts, {"seen": [1, -1], "y": [0, 1]})
    model = GCM(1, 2, response=response, hidden=8, costs=1, seed=seed)
    x, r = _float(data.x[:, None]), _float(np.stack([data.w, data.r], 1))
    y = {"seen": _float(data.seen), "y": _float(np.where(data.seen, data.y, np.nan))}
    fit(model, x, r, y, epochs=epochs, learning_rate=0.02, seed=seed, progress=False)
    unseen = {name: own[~data.seen] for name, own in y.items()}
    options: Any = {"num_samples": 500, "seed": seed, "progress": False}
    draws = model.posterior(x[~data.seen], r[~data.seen], unseen, **options)
    drawn = model.response.drawn_columns(draws["y"])["y"].double().numpy()
    predict = model.response_model("y").predict
    means = (predict(x, r + torch.tensor([0.0, more])).double().numpy() for more in (0.0, 1.0))
    return *means, *np.quantile(drawn, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], 0)


def alone(data: Data, seed: int, epochs: int) -> Found:
    """A GCM of the rows whose y was seen."""
    seen, x, r = data.seen, _float(data.x[:, None]), _float(data.r[:, None])
    response = Continuous(1, 8, noise="constant")
    model = GCM(1, 1, response=response, hidden=8, costs=1, seed=seed)
    options: Any = {"epochs": epochs, "learning_rate": 0.02, "seed": seed, "progress": False}
    fit(model, x[seen], r[seen], _float(data.y[seen]), **options)
    means = (model.predict(x, r + more).double().numpy() for more in (0.0, 1.0))
    return *means, *model.predictive(x[~seen], r[~seen]).interval(LEVEL).double().numpy().T


def two_steps(data: Data, seed: int, epochs: int) -> Found:
    """Heckman's: a probit, and least squares with the inverse Mills ratio as a column."""
    seen, ones = data.seen, np.ones(ROWS)
    first = np.stack([ones, data.x, data.r, data.w], 1)
    signs = np.where(seen, 1.0, -1.0)

    def loss(weight: Array) -> tuple[float, Array]:
        log_p = norm.logcdf(margin := signs * (first @ weight))
        return -log_p.sum(), -first.T @ (signs * np.exp(norm.logpdf(margin) - log_p))

    index = first @ minimize(loss, np.zeros(4), jac=True, method="BFGS").x
    mills = np.exp(norm.logpdf(index) - norm.logcdf(index))
    columns = np.stack([ones, data.x, data.r], 1)
    wide = np.concatenate([columns, mills[:, None]], 1)[seen]
    *weight, loading = np.linalg.lstsq(wide, data.y[seen])[0]
    left = data.y[seen] - wide @ np.array([*weight, loading])
    shrinks = (mills * (mills + index))[seen].mean()
    spread = float(np.sqrt((left**2).mean() + loading**2 * shrinks))
    mean = columns @ np.array(weight)
    # y of a row that was not seen: its error given that the other one is below -index.
    other = -np.exp(norm.logpdf(index) - norm.logcdf(-index))
    center = mean + loading * other
    width = np.sqrt(np.maximum(spread**2 + loading**2 * (-index * other - other**2), 1e-12))
    half = norm.ppf(0.5 + 0.5 * LEVEL) * width
    return mean, mean + weight[2], (center - half)[~seen], (center + half)[~seen]


def least_squares(data: Data, seed: int, epochs: int) -> Found:
    """Of the rows whose y was seen."""
    columns, seen = np.stack([np.ones(ROWS), data.x, data.r], 1), data.seen
    weight = np.linalg.lstsq(columns[seen], data.y[seen])[0]
    mean = columns @ weight
    spread = (data.y - mean)[seen].std() * norm.ppf(0.5 + 0.5 * LEVEL)
    return mean, mean + weight[2], (mean - spread)[~seen], (mean + spread)[~seen]


def _float(values: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, np.float32))


LONGER = "GCM of both, 300 epochs"
METHODS = {
    "GCM of both": both,
    LONGER: both,
    "GCM of the seen rows": alone,
    "Heckman's two steps": two_steps,
    "Least squares of the seen rows": least_squares,
}


def run(cell: Fit, device: str = "cpu") -> Scores:
    """Errors of what a method says of all rows, and how many of the unseen y its intervals hold."""
    data, epochs = simulated(cell.dataset, cell.seed), cell.options.get("epochs", 0)
    mean, raised, low, high = METHODS[cell.method](data, cell.seed, epochs)
    truth, unseen = data.mean(data.r), data.y[~data.seen]
    effect = (data.mean(data.r + 1.0) - truth).mean()
    return {
        "error of the mean of all rows": float(mean.mean() - truth.mean()),
        "error of the effect of r": float((raised - mean).mean() - effect),
        "RMSE of E(y given x, r)": float(np.sqrt(((mean - truth) ** 2).mean())),
        "coverage of 90 % intervals of unseen y": float(
            ((low <= unseen) & (unseen <= high)).mean()
        ),
        "epochs": epochs,
    }


def report(table: pd.DataFrame, dataset: str) -> str:
    """Mean and standard deviation over the seeds of every score of every method."""
    own = table[table["dataset"] == dataset].astype({"value": float})
    scores = own.groupby(["method", "metric"])["value"].agg(["mean", "std"])
    names = known_first(own["metric"])
    lines = [
        [method, *(f"{mean:.3f} ({std:.3f})" for mean, std in scores.loc[method].loc[names].values)]
        for method in METHODS
        if method in scores.index
    ]
    return markdown(["Method", *names], lines)


STUDY = Study(
    *("selection", str(__doc__), ("linear", "curved"), METHODS, run, "14"),
    counted="seeds",
    protocol="simulated",
    variant="",
    settings=lambda dataset, method: (
        [{"epochs": 300 if method == LONGER else 60} if "GCM" in method else {}]
    ),
    quick={"epochs": 1},
)
