"""Columns of predictions for each kind of model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pyro_gcm._utils.validation import rows_after
from pyro_gcm.cli.errors import WrongUse, blamed
from pyro_gcm.cli.saved import SavedModel
from pyro_gcm.estimators import kinds as outputs

if TYPE_CHECKING:
    import pandas as pd

#: Quantiles of a regressor where none are asked for.
QUANTILES = (0.1, 0.5, 0.9)


def check_quantiles(model: SavedModel, quantiles: Sequence[float] | None) -> Sequence[float]:
    """The quantiles to predict: those that were asked for, or those of the kind.

    :raises WrongUse: for a model without quantiles.
    """
    has = outputs.has_quantiles(model.estimator)
    if quantiles is not None and not has:
        raise WrongUse(
            "--quantiles is for models of numbers and times, and this one is a "
            f"{type(model.estimator).__name__}"
        )
    if quantiles is not None:
        with blamed("--quantiles"):
            outputs.quantile_names(quantiles)
        return quantiles
    return QUANTILES if has and model.kind != "survival" else ()


def predictions(
    model: SavedModel, X: pd.DataFrame, quantiles: Sequence[float], first: int
) -> outputs.Columns:
    """The columns of predictions, by name.

    :param first: how many rows come before those of X.
    """
    labels = model.labels if hasattr(model.estimator, "classes_") else None
    with blamed("DATA"), rows_after(first):
        return outputs.predictions(model.estimator, X, quantiles, labels)


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
        for start in range(0, len(X), outputs.BLOCK):
            rows = X.iloc[start : start + outputs.BLOCK]
            found = predictions(model, rows, quantiles, start)
            parts.append(found if level is None else {**found, **bands(model, rows, level)})
            bar.update(len(rows))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def bands(model: SavedModel, X: pd.DataFrame, level: float) -> dict[str, npt.NDArray[np.float64]]:
    """The ends of the bands of the one prediction, by name."""
    with blamed("--bands"):
        found = model.estimator.predict_bands(X, level)
    return {"lower": found.lower, "upper": found.upper}


def check_result(kept: pd.DataFrame, names: Collection[str], column: str | None = None) -> None:
    """Refuse, before any work is done, columns that have the name of one of the result.

    :param kept: columns that are copied.
    :param names: of the result.
    :param column: one of the model, which is in the result too.
    """
    for option, name in [*(("--keep", name) for name in kept), ("--column", column)]:
        if name in names or (option == "--keep" and name == column):
            raise WrongUse(f"{option} {name!r} has the name of a column of the result: rename it")


def beside(kept: pd.DataFrame, columns: dict[str, Any]) -> pd.DataFrame:
    """A table of the copied columns and then the new ones."""
    import pandas as pd

    return pd.concat([kept.reset_index(drop=True), pd.DataFrame(columns)], axis=1)
