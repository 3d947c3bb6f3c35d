"""`pyro-gcm required`."""

from __future__ import annotations

from typing import Annotated

import typer

from pyro_gcm.cli.numbers import real, share
from pyro_gcm.cli.options import Column, Data, Json, Keep, Level, Model, Out, Quiet
from pyro_gcm.cli.output import Output


def required(
    model: Model,
    data: Data,
    column: Column,
    probability: Annotated[
        float,
        typer.Option(
            "--probability",
            "--prediction",
            parser=real,
            metavar="NUMBER",
            help="The probability, or risk, to be reached; a mean of y for a regressor, and a mean "
            "place of the level for an ordinal model.",
        ),
    ],
    below: Annotated[
        bool, typer.Option("--below", help="Ask for a prediction below it in place of at least it.")
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
    from pyro_gcm.cli.errors import blamed
    from pyro_gcm.cli.predictions import beside, check_result
    from pyro_gcm.cli.saved import open_model
    from pyro_gcm.cli.tables import check_output, check_table_name

    share("--level", level)
    if out is not None:
        check_table_name("--out", out)
    check_output("--out", out, [data])
    saved = open_model(model).answering()
    saved.constrained(column)
    if saved.estimator.predicts_probability:
        share("--probability", probability)
    X, kept = saved.rows(data, keep)
    check_result(kept, ("required", "lower", "upper", "beyond"))
    with blamed("DATA"):
        found = saved.estimator.required(X, column, probability, below=below, level=level)
    columns = {str(name): found[name].to_numpy() for name in found}
    about = {"command": "required", "column": column, "probability": probability, "below": below}
    Output(as_json, quiet).frame(beside(kept, columns), out, **about)
