"""`pyro-gcm predict`, `required` and `surface`: columns of predictions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pyro_gcm.cli.errors import WrongUse, blamed
from pyro_gcm.cli.options import (
    Bands,
    Column,
    Data,
    Json,
    Keep,
    Level,
    Model,
    Out,
    Quiet,
    check_out,
    flag,
    option,
    real,
    share,
    shares,
)
from pyro_gcm.cli.output import Output

if TYPE_CHECKING:
    import pandas as pd

    from pyro_gcm.cli.saved import SavedModel

#: Quantiles of a regressor where none are asked for.
_QUANTILES = (0.1, 0.5, 0.9)


def predict(
    model: Model,
    data: Data,
    out: Out = None,
    bands: Bands = False,
    level: Level = 0.9,
    quantiles: Annotated[
        str | None,
        option("SHARES", "Quantiles of y, or of the time of the event, such as 0.1,0.5,0.9."),
    ] = None,
    keep: Keep = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict every row of a table.

    The columns are: probability and class of a classifier; mean and quantiles of a regressor; risk
    (the probability that the event comes by the horizon) and median time of a survival model; the
    probability of each level, the most probable and the median level, and the mean place of an
    ordinal model.

    Example: pyro-gcm predict model/ new.csv --keep id --bands --out scores.csv
    """
    from pyro_gcm.cli.saved import open_model
    from pyro_gcm.estimators.kinds import in_blocks, predictions

    asked = None if quantiles is None else shares("--quantiles", quantiles)
    check_out(out, data)
    saved = open_model(model)
    asked = _quantiles(saved, asked)
    X, kept = saved.rows(data, keep)
    labels = saved.labels if hasattr(saved.estimator, "classes_") else None

    def predicted(rows: slice) -> dict[str, Any]:
        ends = level if bands else None
        return predictions(saved.estimator, X.iloc[rows], asked, ends, labels)

    if bands:
        _check_bands(saved, X)
    with blamed("DATA"):
        _check_result(kept, predicted(slice(1)))
        columns = in_blocks(predicted, len(X), progress=not quiet)
    table = _beside(kept, columns)
    Output(as_json, quiet).frame(table, out, command="predict", kind=saved.kind)


def required(
    model: Model,
    data: Data,
    column: Column,
    probability: Annotated[
        float,
        option(
            "NUMBER",
            "The probability, or risk, to be reached; a mean of y for a regressor, and a mean "
            "place of the level for an ordinal model.",
            "--probability",
            "--prediction",
            parser=real,
        ),
    ],
    below: Annotated[
        bool, flag("--below", "Ask for a prediction below it in place of at least it.")
    ] = False,
    level: Level = 0.9,
    keep: Keep = None,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the value at which a prediction is reached.

    One column of each row is free to move. The columns of the result are: required, its value;
    lower and upper, the same asked of the members of the model; beyond, whether it is beyond the
    training rows. An infinite value says that no value reaches the level, or that all do.

    Example: pyro-gcm required model/ data.csv --column debt --probability 0.2 --below
    """
    from pyro_gcm.cli.saved import open_model

    check_out(out, data)
    saved = open_model(model).answering()
    saved.constrained(column)
    if saved.estimator.predicts_probability:
        share("--probability", probability)
    X, kept = saved.rows(data, keep)
    _check_result(kept, ("required", "lower", "upper", "beyond"))
    with blamed("DATA"):
        found = saved.estimator.required(X, column, probability, below=below, level=level)
    columns = {str(name): found[name].to_numpy() for name in found}
    about = {"command": "required", "column": column, "probability": probability, "below": below}
    Output(as_json, quiet).frame(_beside(kept, columns), out, **about)


def surface(
    model: Model,
    data: Data,
    column: Column,
    values: Annotated[
        str | None,
        option(
            "VALUES",
            "low:high:count, such as 0:100:11, or a list, such as 1,2,5; levels of an ordered "
            "category.",
        ),
    ] = None,
    mean: Annotated[
        bool,
        flag("--mean", "One row for each value: the mean over all rows of DATA, with its band."),
    ] = False,
    bands: Bands = False,
    level: Level = 0.9,
    keep: Keep = None,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict rows as one of their columns moves.

    All other columns stay as they are. The result has: row (from 1), the column that moves, and
    prediction, which is a probability, a mean, a risk, or the mean place of a level. With --mean it
    is a response curve.

    Example: pyro-gcm surface model/ data.csv --column debt --values 0:100:11 --out surface.parquet
    """
    from pyro_gcm.cli.saved import open_model

    check_out(out, data)
    if values is None and not mean:
        raise WrongUse("--values must be given without --mean, such as --values 0:100:11")
    if mean and keep is not None:
        raise WrongUse(f"--keep copies columns of rows, and --mean has none of them, got {keep!r}")
    saved = open_model(model)
    grid = saved.grid(column, values)
    if mean:
        saved.answering()
    X, kept = saved.rows(data, keep)
    own = ["prediction"] if mean else ["row", "prediction"]
    _check_result(kept, [*own, "lower", "upper"] if mean or bands else own, column)
    if mean:
        with blamed("DATA"):
            table = saved.estimator.response_curve(X, column, grid, level=level)
    else:
        table = _of_rows(saved, X, kept, column, grid or [], level if bands else None, quiet)
    Output(as_json, quiet).frame(table, out, command="surface", kind=saved.kind, column=column)


def _of_rows(
    saved: Any,
    X: pd.DataFrame,
    kept: pd.DataFrame,
    column: str,
    grid: list[Any],
    level: float | None,
    quiet: bool,
) -> pd.DataFrame:
    """The predictions of all rows at each value, the rows one after the other."""
    import numpy as np
    import pandas as pd
    from tqdm.auto import tqdm

    from pyro_gcm.estimators.kinds import monotone_prediction

    code = saved.estimator.encoding_.columns[saved.names.index(column)]
    parts = []
    if level is not None:
        _check_bands(saved, X)
    for value in tqdm(grid, disable=quiet, delay=2, desc="surface", unit="value"):
        there: Any = [value] * len(X)
        if code.kind == "ordered":
            there = pd.Categorical(there, code.levels, ordered=True)
        moved = X.copy()
        moved[column] = there
        with blamed("DATA"):
            columns: dict[str, Any] = {"row": np.arange(1, len(X) + 1), column: there}
            columns["prediction"] = monotone_prediction(saved.estimator, moved)
            if level is not None:
                found = saved.estimator.predict_bands(moved, level)
                columns |= {"lower": found.lower, "upper": found.upper}
        parts.append(_beside(kept, columns))
    return pd.concat(parts).sort_values("row", kind="stable", ignore_index=True)


def _quantiles(model: SavedModel, quantiles: Sequence[float] | None) -> Sequence[float]:
    """The quantiles to predict: those that were asked for, or those of the kind.

    :raises WrongUse: for a model without quantiles.
    """
    from pyro_gcm.estimators.kinds import has_quantiles, quantile_names

    has = has_quantiles(model.estimator)
    if quantiles is not None and not has:
        raise WrongUse(
            "--quantiles is for models of numbers and times, and this one is a "
            f"{type(model.estimator).__name__}"
        )
    if quantiles is not None:
        with blamed("--quantiles"):
            quantile_names(quantiles)
        return quantiles
    return _QUANTILES if has and model.kind != "survival" else ()


def _check_bands(model: SavedModel, X: pd.DataFrame) -> None:
    """Refuse, before any work is done, bands of a model that has none."""
    with blamed("--bands"):
        model.estimator.predict_bands(X.iloc[:1], 0.9)


def _check_result(kept: pd.DataFrame, names: Collection[str], column: str | None = None) -> None:
    """Refuse, before any work is done, columns that have the name of one of the result.

    :param kept: columns that are copied.
    :param names: of the result.
    :param column: one of the model, which is in the result too.
    """
    for source, name in [*(("--keep", name) for name in kept), ("--column", column)]:
        if name in names or (source == "--keep" and name == column):
            raise WrongUse(f"{source} {name!r} has the name of a column of the result: rename it")


def _beside(kept: pd.DataFrame, columns: dict[str, Any]) -> pd.DataFrame:
    """A table of the copied columns and then the new ones."""
    import pandas as pd

    return pd.concat([kept.reset_index(drop=True), pd.DataFrame(columns)], axis=1)
