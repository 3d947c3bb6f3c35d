"""Held-out scores of a predictive distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score, root_mean_squared_error
from torch import Tensor

from pyro_gcm import data

Array = npt.NDArray[np.float64]


def distribution_scores(
    dataset: data.Dataset,
    model: Any,
    test: Tensor,
    device: str = "cpu",
    spread: float | None = None,
) -> dict[str, float]:
    """Scores of a model's predictive distributions on some rows.

    :param spread: standard deviation of a continuous y around a prediction, for a model that
        predicts its mean only.
    """

    def array(values: Tensor) -> Array:
        found: Array = values.double().cpu().numpy()
        return found

    columns = [part[test].to(device) for part in (dataset.x, dataset.r, dataset.y)]
    mean = array(model.predict(*columns[:2]))
    y = dataset.y[test].numpy()
    if dataset.response == "binary":
        return binary_scores(mean, y)
    if spread is not None:
        density = norm(mean, spread)
        return continuous_scores(mean, density.logpdf(y), density.cdf(y), y)
    cdf = model.predictive(*columns[:2]).cdf(columns[2])
    return continuous_scores(mean, array(model.log_prob(*columns)), array(cdf), y)


def point_scores(response: str, prediction: Array, y: Array) -> dict[str, float]:
    """Scores of a prediction: all of a binary y, RMSE of a continuous one."""
    if response == "binary":
        return binary_scores(prediction, y)
    return {"RMSE": root_mean_squared_error(y, prediction)}


def binary_scores(probability: Array, y: Array) -> dict[str, float]:
    """AUC, accuracy, log score in nats a row, and calibration error of Pr(y = 1)."""
    return {
        "AUC": roc_auc_score(y, probability),
        "accuracy": accuracy_score(y, probability > 0.5),
        "log score": -log_loss(y, probability),
        "calibration error": expected_calibration_error(probability, y),
    }


def continuous_scores(mean: Array, log_density: Array, pit: Array, y: Array) -> dict[str, float]:
    """RMSE in the units of y, log score in nats a row, and calibration error of a density."""
    return {
        "RMSE": root_mean_squared_error(y, mean),
        "log score": float(log_density.mean()),
        "calibration error": pit_calibration_error(pit),
    }


def expected_calibration_error(probability: Array, y: Array, bins: int = 15) -> float:
    """Mean gap between predicted and observed frequency, over bins of equally many rows."""
    order = np.argsort(probability, kind="stable")
    parts = zip(
        np.array_split(probability[order], bins), np.array_split(y[order], bins), strict=True
    )
    gaps = [len(p) * abs(p.mean() - t.mean()) for p, t in parts if len(p)]
    return float(sum(gaps) / len(y))


def pit_calibration_error(pit: Array) -> float:
    """Mean gap between a level and the frequency of F(y) below it, at levels 0.05, ..., 0.95."""
    levels = np.linspace(0.05, 0.95, 19)
    return float(np.mean([abs((pit <= level).mean() - level) for level in levels]))
