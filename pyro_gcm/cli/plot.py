"""`pyro-gcm plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pyro_gcm.cli.numbers import path, share
from pyro_gcm.cli.options import Column, Data, Json, Level, Model, Quiet
from pyro_gcm.cli.output import Output


def plot(
    model: Model,
    data: Data,
    column: Column,
    out: Annotated[
        Path,
        typer.Option(parser=path, metavar="FILE", help="The figure: .png, .svg, .pdf and others."),
    ],
    values: Annotated[
        str | None,
        typer.Option(metavar="VALUES", help="Where the curve is drawn: 0:100:11, or 1,2,5."),
    ] = None,
    level: Level = 0.9,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw the mean prediction as a column moves.

    The figure has the band of the mean, and how many rows are where.

    Example: pyro-gcm plot model/ data.csv --column debt --out debt.png
    """
    from pyro_gcm.cli.errors import blamed
    from pyro_gcm.cli.figures import check_figure
    from pyro_gcm.cli.saved import open_model
    from pyro_gcm.cli.tables import check_output
    from pyro_gcm.cli.values import values_of

    share("--level", level)
    check_figure("--out", out)
    check_output("--out", out, [data])
    saved = open_model(model).answering()
    at = saved.names.index(saved.constrained(column))
    code = saved.estimator.encoding_.columns[at]
    grid = None if values is None else values_of(values, code)
    X, _ = saved.rows(data)
    with blamed("DATA"):
        curve = saved.estimator.response_curve(X, at, grid, level=level)

    from matplotlib.figure import Figure

    from pyro_gcm._utils.writing import write_figure
    from pyro_gcm.plots import plot_feature_curve

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    models = "bootstrap models" if saved.estimator.bootstrap_models_ else "members"
    plot_feature_curve(
        curve,
        rows=X[column],
        feature_name=column,
        outcome_name=saved.prediction_name,
        band_name=f"{level:.0%} of the {models}",
        percent=saved.estimator.predicts_probability,
        ax=figure.subplots(),
    )
    with blamed("--out"):
        write_figure(out, figure, dpi=150)
    output = Output(as_json, quiet)
    output.note(f"figure written to {out}")
    output.document({"command": "plot", "column": column, "rows": len(X), "out": str(out)})
