"""`pyro-gcm surface`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyro_gcm.cli.numbers import share
from pyro_gcm.cli.options import Bands, Column, Data, Json, Keep, Level, Model, Out, Quiet
from pyro_gcm.cli.output import Output

if TYPE_CHECKING:
    import pandas as pd


def surface(
    model: Model,
    data: Data,
    column: Column,
    values: Annotated[
        str | None,
        typer.Option(
            metavar="VALUES",
            help="low:high:count, such as 0:100:11, or a list, such as 1,2,5; levels of an ordered "
            "category.",
        ),
    ] = None,
    mean: Annotated[
        bool,
        typer.Option(
            "--mean", help="One row for each value: the mean over all rows of DATA, with its band."
        ),
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
    from pyro_gcm.cli.errors import WrongUse, blamed
    from pyro_gcm.cli.predictions import check_result
    from pyro_gcm.cli.saved import open_model
    from pyro_gcm.cli.tables import check_output, check_table_name
    from pyro_gcm.cli.values import values_of

    share("--level", level)
    if out is not None:
        check_table_name("--out", out)
    check_output("--out", out, [data])
    if values is None and not mean:
        raise WrongUse("--values must be given without --mean, such as --values 0:100:11")
    if mean and keep is not None:
        raise WrongUse(f"--keep copies columns of rows, and --mean has none of them, got {keep!r}")
    saved = open_model(model)
    code = saved.estimator.encoding_.columns[saved.names.index(saved.constrained(column))]
    grid = None if values is None else values_of(values, code)
    if mean:
        saved.answering()
    X, kept = saved.rows(data, keep)
    own = ["prediction"] if mean else ["row", "prediction"]
    check_result(kept, [*own, "lower", "upper"] if mean or bands else own, column)
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

    from pyro_gcm.cli import predictions as of
    from pyro_gcm.cli.errors import blamed
    from pyro_gcm.estimators.kinds import monotone_prediction

    code = saved.estimator.encoding_.columns[saved.names.index(column)]
    parts = []
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
            columns |= of.bands(saved, moved, level)
        parts.append(of.beside(kept, columns))
    return pd.concat(parts).sort_values("row", kind="stable", ignore_index=True)
