"""`pyro-gcm predict`, `required` and `surface`: tables of what a saved model answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

from pyro_gcm.cli import options
from pyro_gcm.cli.options import parts_of
from pyro_gcm.cli.output import Output, WrongUse, blamed

if TYPE_CHECKING:
    import pandas as pd


def predict(
    output: Output,
    saved: options.Model,
    data: options.Data,
    out: options.Out = None,
    bands: options.Bands = False,
    level: options.Level = 0.9,
    quantiles: Annotated[list[str] | None, options.value("SHARES")] = None,
    at: Annotated[list[str] | None, options.value("TIMES")] = None,
    keep: options.Keep = None,
    safe: options.Safe = False,
) -> None:
    """Predict every row of a table.

    The columns are: probability and class of a classifier; mean and quantiles of a regressor; mean
    and quantiles of counts over their exposures, and their rate; risk
    (the probability that the event comes by the horizon) and median time of a survival model;
    incidence of the cause of predictions by the horizon, and how likely each cause is to come first
    in the end, of competing risks; the
    probability of each level, the most probable and the median level, and the mean place of an
    ordinal model. A warning counts values of categories that fit never saw.

    Example: pyro-gcm predict model/ new.csv --keep id --bands --out scores.csv

    :param quantiles: Quantiles of y, or of the time of the event, such as 0.1,0.5,0.9.
    :param at: Times, such as 30,90, by which it is told how likely each cause has come, and how
        likely that none has, or the event of a survival model.
    """
    from pyro_gcm.estimators.kinds import has_quantiles, in_blocks, predictions

    options.check_output("--out", out, data, saved.folder, is_table=True)
    has = has_quantiles(saved.estimator)
    if quantiles and not has:
        raise WrongUse(f"--quantiles is for models of numbers and times, got a {saved.kind}")
    usual = ["0.1,0.5,0.9"] if has and saved.kind != "survival" else []
    with blamed("--quantiles"):
        asked = [float(part) for part in parts_of(quantiles or usual)]
    if at and saved.kind not in ("survival", "competing"):
        raise WrongUse(f"--at is for models of times, got a {saved.kind}")
    with blamed("--at"):
        times = [float(part) for part in parts_of(at or [])]
    X, kept = saved.rows(data, keep)

    def predicted(rows: slice) -> dict[str, Any]:
        return predictions(saved.estimator, X.iloc[rows], asked, level if bands else None, times)

    with blamed():
        _check_result(kept, predicted(slice(1)))
    with blamed("DATA"):
        columns = in_blocks(predicted, len(X), progress=not output.quiet)
    output.frame(_beside(kept, columns), out, safe, command="predict", kind=saved.kind)


def required(
    output: Output,
    saved: options.Model,
    data: options.Data,
    column: Annotated[str, options.value("COLUMN", "A column that was given a direction in fit.")],
    probability: Annotated[float, options.value("NUMBER", None, "--probability", "--prediction")],
    below: Annotated[bool, options.flag("--below")] = False,
    level: options.Level = 0.9,
    keep: options.Keep = None,
    out: options.Out = None,
    safe: options.Safe = False,
) -> None:
    """Find the value at which a prediction is reached.

    One column of each row is free to move. The columns of the result are: required, its value;
    lower and upper, the same asked of the ends of its band; beyond, whether it is beyond the
    training rows. An infinite value says that no value reaches the level, or that all do.

    Example: pyro-gcm required model/ data.csv --column debt --probability 0.2 --below

    :param probability: The prediction to be reached: a probability, or risk; a mean of y for a
        regressor, a rate for counts, and a mean place of the level for an ordinal model.
    :param below: Ask for a prediction below it in place of at least it.
    """
    options.check_output("--out", out, data, saved.folder, is_table=True)
    saved.answering()
    column = saved.column(column, directed=True)
    X, kept = saved.rows(data, keep)
    _check_result(kept, ("required", "lower", "upper", "beyond"))
    with blamed():
        found = saved.estimator.required(X, column, probability, below=below, level=level)
    about = {"command": "required", "column": column, "probability": probability, "below": below}
    output.frame(_beside(kept, found), out, safe, **about)


def surface(
    output: Output,
    saved: options.Model,
    data: options.Data,
    column: options.Column,
    values: options.Values = None,
    mean: Annotated[bool, options.flag("--mean")] = False,
    bands: options.Bands = False,
    level: options.Level = 0.9,
    keep: options.Keep = None,
    out: options.Out = None,
    safe: options.Safe = False,
) -> None:
    """Predict rows with other values of one column (partial dependence).

    All other columns stay as they are. The result has: row (from 1), the column that moves, and
    prediction, which is a probability, a mean, a risk, or the mean place of a level. With --mean it
    is a response curve.

    Example: pyro-gcm surface model/ data.csv --column debt --values 0:100:11 --out surface.parquet

    :param values: low:high:count, such as 0:100:11, or a list, such as 1,2,5; levels of an ordered
        category.
    :param mean: One row for each value: the mean over all rows of DATA, with its band.
    """
    import numpy as np
    import pandas as pd

    from pyro_gcm.estimators.kinds import in_blocks, monotone_prediction

    options.check_output("--out", out, data, saved.folder, is_table=True)
    if not values and not mean:
        raise WrongUse("--values must be given without --mean, such as --values 0:100:11")
    if mean and keep:
        raise WrongUse(f"--keep copies columns of rows, and --mean has none of them, got {keep!r}")
    if mean:
        saved.answering()
    column = saved.column(column)
    grid = saved.grid(column, values)
    X, kept = saved.rows(data, keep)
    names = ["prediction"] if mean else ["row", "prediction"]
    _check_result(kept, [*names, "lower", "upper"] if mean or bands else names, column)
    if mean:
        with blamed():
            table = saved.estimator.response_curve(X, column, grid, level=level)
    else:
        count = len(grid or [])
        row, place = np.divmod(np.arange(len(X) * count), count)
        there = pd.Series(grid).iloc[place].array

        def predicted(block: slice) -> dict[str, Any]:
            moved = X.iloc[row[block]].copy()
            moved[column] = there[block]  # a column may be called "self", which `assign` refuses
            found = {"prediction": monotone_prediction(saved.estimator, moved)}
            if bands:
                ends = saved.estimator.predict_bands(moved, level)
                found |= {"lower": ends.lower, "upper": ends.upper}
            return found

        with blamed():
            found = in_blocks(predicted, len(row), progress=not output.quiet)
        table = _beside(kept.iloc[row], {"row": row + 1, column: there, **found})
    about = {"command": "surface", "kind": saved.kind, "column": column}
    output.frame(table, out, safe, **about)


def _check_result(kept: pd.DataFrame, names: Collection[str], column: str | None = None) -> None:
    """Refuse, before any work is done, columns that have the name of one of the result.

    :param kept: columns that are copied.
    :param names: of the result.
    :param column: one of the model, which is in the result too.
    """
    for source, name in [*(("--keep", name) for name in kept), ("--column", column)]:
        if name in names or (source == "--keep" and name == column):
            raise WrongUse(f"{source} {name!r} has the name of a column of the result: rename it")


def _beside(kept: pd.DataFrame, columns: Any) -> pd.DataFrame:
    """A table of the copied columns and then the new ones."""
    import pandas as pd

    return pd.concat([kept.reset_index(drop=True), pd.DataFrame(columns)], axis=1)
