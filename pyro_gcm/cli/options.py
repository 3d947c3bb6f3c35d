"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pyro_gcm.cli.numbers import path, real

Model = Annotated[
    Path,
    typer.Argument(parser=path, metavar="MODEL", help="The folder of a model that fit made."),
]
Data = Annotated[
    Path,
    typer.Argument(
        parser=path,
        metavar="DATA",
        help="The table: a .csv, .parquet, .arrow or .feather file.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress and no notes on stderr.")]
Out = Annotated[
    Path | None,
    typer.Option(
        parser=path,
        metavar="FILE",
        help="Write a .csv, .parquet, .arrow or .feather file in place of CSV on stdout.",
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(metavar="COLUMNS", help="Columns of DATA, such as id,name, to copy in front."),
]
Column = Annotated[
    str, typer.Option(metavar="COLUMN", help="A column that was given a direction in fit.")
]
Bands = Annotated[
    bool,
    typer.Option(
        "--bands",
        help="Add lower and upper: how far the members of the model, or its bootstrap models, "
        "disagree on the prediction. They hold no share of the outcomes.",
    ),
]
Level = Annotated[
    float,
    typer.Option(parser=real, metavar="SHARE", help="Share of the members or models in a band."),
]
