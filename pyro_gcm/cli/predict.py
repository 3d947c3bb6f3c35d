"""`pyro-gcm predict`."""

from __future__ import annotations

from typing import Annotated

import typer

from pyro_gcm.cli.numbers import share, shares
from pyro_gcm.cli.options import Bands, Data, Json, Keep, Level, Model, Out, Quiet
from pyro_gcm.cli.output import Output


def predict(
    model: Model,
    data: Data,
    out: Out = None,
    bands: Bands = False,
    level: Level = 0.9,
    quantiles: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES",
            help="Quantiles of y, or of the time of the event, such as 0.1,0.5,0.9.",
        ),
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
    from pyro_gcm.cli import predictions as of
    from pyro_gcm.cli.saved import open_model
    from pyro_gcm.cli.tables import check_output, check_table_name

    share("--level", level)
    asked = None if quantiles is None else shares("--quantiles", quantiles)
    if out is not None:
        check_table_name("--out", out)
    check_output("--out", out, [data])
    saved = open_model(model)
    asked = of.check_quantiles(saved, asked)
    X, kept = saved.rows(data, keep)
    ends = level if bands else None
    of.check_result(kept, of.in_blocks(saved, X.iloc[:1], asked, ends, progress=False))
    columns = of.in_blocks(saved, X, asked, ends, not quiet)
    table = of.beside(kept, columns)
    Output(as_json, quiet).frame(table, out, command="predict", kind=saved.kind)
