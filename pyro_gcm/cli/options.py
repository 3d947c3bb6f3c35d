"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pyro_gcm.cli.errors import WrongUse

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The folder of a model that fit made.")
]
Data = Annotated[
    Path,
    typer.Argument(metavar="DATA", help="The table: a .csv, .parquet, .arrow or .feather file."),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress and no notes on stderr.")]
Out = Annotated[
    Path | None,
    typer.Option(
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
    float, typer.Option(metavar="SHARE", help="Share of the members, or models, within a band.")
]


def share(option: str, value: float) -> float:
    """Return a number that lies strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise WrongUse(f"{option} must lie strictly between 0 and 1, got {value:g}")
    return value


def numbers(option: str, text: str, example: str) -> list[float]:
    """The numbers of a list with commas."""
    found = []
    for part in text.split(","):
        try:
            found.append(float(part))
        except ValueError:
            raise WrongUse(
                f"{option} must be numbers, such as {example}, got {part.strip()!r}"
            ) from None
    return found


def shares(option: str, text: str) -> Sequence[float]:
    """Rising numbers between 0 and 1 of a list with commas."""
    found = [share(option, value) for value in numbers(option, text, "0.1,0.5,0.9")]
    if found != sorted(set(found)):
        raise WrongUse(f"{option} must rise, such as 0.1,0.5,0.9, got {text!r}")
    return found
