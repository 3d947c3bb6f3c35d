"""Columns of predictions for each kind of model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pyro_gcm.cli.errors import WrongUse, blamed
from pyro_gcm.cli.saved import SavedModel

if TYPE_CHECKING:
    import pandas as pd

#: Quantiles of a regressor where none are asked for.
QUANTILES = (0.1, 0.5, 0.9)
#: Rows that are predicted at once; the predictions are the same for any number.
BLOCK = 8192


def check_quantiles(model: SavedModel, quantiles: Sequence[float] | None) -> Sequence[float]:
    """The quantiles to predict: those that were asked for, or those of the kind.

    :raises WrongUse: for a model without quantiles.
    """
    has = hasattr(model.estimator, "predict_quantiles") or model.kind == "survival"
    if quantiles is not None and not has:
        raise WrongUse(
            "--quantiles is for models of numbers and times, and this one is a "
            f"{type(model.estimator).__name__}"
        )
    if quantiles is not None:
        return quantiles
    return QUANTILES if has and model.kind != "survival" else ()


def predictions(
    model: SavedModel, X: pd.DataFrame, quantiles: Sequence[float]
) -> dict[str, npt.NDArray[Any]]:
    """The columns of predictions, by name."""
    from pyro_gcm.estimators.kinds import monotone_prediction

    estimator = model.estimator
    with blamed("DATA"):
        if model.kind == "ordinal":
            shares, labels = estimator.predict_proba(X), np.array(model.labels, dtype=object)
            found = {f"probability_{label}": shares[:, at] for at, label in enumerate(labels)}
            found |= {"level": estimator.predict(X), "median": estimator.predict_median(X)}
            return {**found, "mean_place": monotone_prediction(model.estimator, X)}
        prediction = monotone_prediction(model.estimator, X)
        if model.kind == "classifier":
            labels = np.array(model.labels, dtype=object)
            return {"probability": prediction, "class": labels[(prediction > 0.5).astype(int)]}
        if model.kind == "survival":
            found = {"risk": prediction, "median": estimator.predict_median(X)}
            values = estimator.predict_quantile(X, quantiles) if quantiles else None
        else:
            found = {"mean": prediction}
            values = estimator.predict_quantiles(X, quantiles) if quantiles else None
    of_quantiles = {} if values is None else dict(enumerate(values.T))
    return {**found, **{f"q{quantiles[at]:g}": column for at, column in of_quantiles.items()}}


def in_blocks(
    model: SavedModel,
    X: pd.DataFrame,
    quantiles: Sequence[float],
    level: float | None,
    progress: bool,
) -> dict[str, npt.NDArray[Any]]:
    """Columns of predictions, and those of bands with a level, of blocks of rows.

    :param progress: whether a bar is shown if it takes longer than two seconds.
    """
    from tqdm.auto import tqdm

    parts: list[dict[str, npt.NDArray[Any]]] = []
    with tqdm(total=len(X), disable=not progress, delay=2, desc="predict", unit="row") as bar:
        for start in range(0, len(X), BLOCK):
            rows = X.iloc[start : start + BLOCK]
            found = predictions(model, rows, quantiles)
            parts.append(found if level is None else {**found, **bands(model, rows, level)})
            bar.update(len(rows))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def bands(model: SavedModel, X: pd.DataFrame, level: float) -> dict[str, npt.NDArray[np.float64]]:
    """The ends of the bands of the one prediction, by name."""
    with blamed("--bands"):
        found = model.estimator.predict_bands(X, level)
    return {"lower": found.lower, "upper": found.upper}


def beside(kept: pd.DataFrame, columns: dict[str, Any], option: str = "--keep") -> pd.DataFrame:
    """A table of the copied columns and then the new ones.

    :raises WrongUse: for a copied column that has the name of a new one.
    """
    import pandas as pd

    same = [name for name in columns if name in kept]
    if same:
        raise WrongUse(f"{option} {same[0]!r} has the name of a column of the result: rename it")
    made = pd.DataFrame(columns)
    return pd.concat([kept.reset_index(drop=True), made], axis=1)
