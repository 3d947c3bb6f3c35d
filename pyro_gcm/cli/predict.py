"""`pyro-gcm predict`, `required` and `surface`: columns of predictions."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

from pyro_gcm.cli.errors import WrongUse, blamed
from pyro_gcm.cli.options import (
    Bands,
    Column,
    Data,
    Json,
    Keep,
    Large,
    Level,
    Model,
    Out,
    Quiet,
    Safe,
    check_out,
    flag,
    numbers,
    value,
)
from pyro_gcm.cli.output import Output

if TYPE_CHECKING:
    import pandas as pd

#: Quantiles of a regressor where none are asked for.
_QUANTILES = [0.1, 0.5, 0.9]


def predict(
    model: Model,
    data: Data,
    out: Out = None,
    bands: Bands = False,
    level: Level = 0.9,
    quantiles: Annotated[list[str] | None, value("SHARES")] = None,
    keep: Keep = None,
    safe: Safe = False,
    large: Large = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict every row of a table.

    The columns are: probability and class of a classifier; mean and quantiles of a regressor; risk
    (the probability that the event comes by the horizon) and median time of a survival model; the
    probability of each level, the most probable and the median level, and the mean place of an
    ordinal model. A warning counts values of categories that fit never saw.

    Example: pyro-gcm predict model/ new.csv --keep id --bands --out scores.csv

    :param quantiles: Quantiles of y, or of the time of the event, such as 0.1,0.5,0.9.
    """
    from pyro_gcm.cli.saved import open_model
    from pyro_gcm.estimators.kinds import has_quantiles, in_blocks, predictions

    asked = None if quantiles is None else numbers("--quantiles", quantiles, "0.1,0.5,0.9")
    check_out(out, data, model)
    saved = open_model(model)
    if not has_quantiles(saved.estimator):
        if asked is not None:
            raise WrongUse(
                "--quantiles is for models of numbers and times, and this one is a "
                f"{type(saved.estimator).__name__}"
            )
    elif asked is None and saved.kind != "survival":
        asked = _QUANTILES
    X, kept = saved.rows(data, keep)

    def predicted(rows: slice) -> dict[str, Any]:
        ends = level if bands else None
        return predictions(saved.estimator, X.iloc[rows], asked or (), ends, saved.labels or None)

    with blamed():
        _check_result(kept, predicted(slice(1)))
    with blamed("DATA"):
        columns = in_blocks(predicted, len(X), progress=not quiet)
    table = _beside(kept, columns)
    Output(as_json, quiet).frame(table, out, safe, command="predict", kind=saved.kind)


def required(
    model: Model,
    data: Data,
    column: Column,
    probability: Annotated[float, value("NUMBER", "--probability", "--prediction")],
    below: Annotated[bool, flag("--below")] = False,
    level: Level = 0.9,
    keep: Keep = None,
    out: Out = None,
    safe: Safe = False,
    large: Large = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the value at which a prediction is reached.

    One column of each row is free to move. The columns of the result are: required, its value;
    lower and upper, the same asked of the members of the model; beyond, whether it is beyond the
    training rows. An infinite value says that no value reaches the level, or that all do.

    Example: pyro-gcm required model/ data.csv --column debt --probability 0.2 --below

    :param probability: The probability, or risk, to be reached; a mean of y for a regressor, and
        a mean place of the level for an ordinal model.
    :param below: Ask for a prediction below it in place of at least it.
    """
    from pyro_gcm.cli.saved import open_model

    check_out(out, data, model)
    saved = open_model(model).answering()
    saved.constrained(column)
    X, kept = saved.rows(data, keep)
    _check_result(kept, ("required", "lower", "upper", "beyond"))
    with blamed():
        found = saved.estimator.required(X, column, probability, below=below, level=level)
    columns = {str(name): found[name].to_numpy() for name in found}
    about = {"command": "required", "column": column, "probability": probability, "below": below}
    Output(as_json, quiet).frame(_beside(kept, columns), out, safe, **about)


def surface(
    model: Model,
    data: Data,
    column: Column,
    values: Annotated[list[str] | None, value("VALUES")] = None,
    mean: Annotated[bool, flag("--mean")] = False,
    bands: Bands = False,
    level: Level = 0.9,
    keep: Keep = None,
    out: Out = None,
    safe: Safe = False,
    large: Large = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict rows as one of their columns moves.

    All other columns stay as they are. The result has: row (from 1), the column that moves, and
    prediction, which is a probability, a mean, a risk, or the mean place of a level. With --mean it
    is a response curve.

    Example: pyro-gcm surface model/ data.csv --column debt --values 0:100:11 --out surface.parquet

    :param values: low:high:count, such as 0:100:11, or a list, such as 1,2,5; levels of an ordered
        category.
    :param mean: One row for each value: the mean over all rows of DATA, with its band.
    """
    from pyro_gcm.cli.saved import open_model

    check_out(out, data, model)
    if not values and not mean:
        raise WrongUse("--values must be given without --mean, such as --values 0:100:11")
    if mean and keep:
        raise WrongUse(f"--keep copies columns of rows, and --mean has none of them, got {keep!r}")
    saved = open_model(model)
    grid = saved.grid(column, values)
    if mean:
        saved.answering()
    X, kept = saved.rows(data, keep)
    names = ["prediction"] if mean else ["row", "prediction"]
    _check_result(kept, [*names, "lower", "upper"] if mean or bands else names, column)
    with blamed():
        if mean:
            table = saved.estimator.response_curve(X, column, grid, level=level)
        else:
            table = _of_rows(saved, X, kept, column, grid or [], level if bands else None, quiet)
    Output(as_json, quiet).frame(
        table, out, safe, command="surface", kind=saved.kind, column=column
    )


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

    code, parts = saved.codes[column], []
    for place in tqdm(grid, disable=quiet, delay=2, desc="surface", unit="value"):
        there: Any = [place] * len(X)
        if code.kind == "ordered":
            there = pd.Categorical(there, code.levels, ordered=True)
        moved = X.assign(**{column: there})
        columns: dict[str, Any] = {"row": np.arange(1, len(X) + 1), column: there}
        columns["prediction"] = monotone_prediction(saved.estimator, moved)
        if level is not None:
            ends = saved.estimator.predict_bands(moved, level)
            columns |= {"lower": ends.lower, "upper": ends.upper}
        parts.append(_beside(kept, columns))
    return pd.concat(parts).sort_values("row", kind="stable", ignore_index=True)


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
