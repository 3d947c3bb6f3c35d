"""Arguments and options that several commands have, and how their values are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pyro_gcm._utils.paths import usable
from pyro_gcm.cli.errors import WrongUse


def whole(low: int, high: float = math.inf) -> Callable[[Any], int]:
    """A parser of whole numbers, which says what came and what was wanted."""

    def parsed(text: Any) -> int:
        try:
            if low <= int(text) <= high:
                return int(text)
        except ValueError:
            pass
        most = "" if high == math.inf else f" and at most {high}"
        raise typer.BadParameter(f"wanted a whole number of at least {low}{most}, got {text!r}")

    return parsed


def real(text: Any) -> float:
    """A parser of finite numbers."""
    try:
        if math.isfinite(float(text)):
            return float(text)
    except ValueError:
        pass
    raise typer.BadParameter(f"wanted a finite number, got {text!r}")


def path(text: Any) -> Path:
    """A parser of paths that the system can have."""
    try:
        return usable(text)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error


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
