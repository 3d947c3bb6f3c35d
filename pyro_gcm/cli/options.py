"""Arguments and options that several commands have, how values are read, and where files go."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pyro_gcm._utils.files import check_writable, usable
from pyro_gcm.cli.errors import WrongUse, blamed, listed, one_line

#: Endings of the names of tables.
ENDINGS = (".csv", ".parquet", ".arrow", ".feather")


#: Options whose values are lists, which may be given more than once.
_LISTS = (
    *("--increasing", "--decreasing", "--ignore", "--text", "--missing", "--levels", "--quantiles"),
    *("--keep", "--r", "--x"),
)


def joined(argv: Sequence[str]) -> list[str]:
    """Arguments in which lists that were given in parts are one.

    >>> joined(["fit", "--increasing", "a", "--increasing=b,c", "--quiet"])
    ['fit', '--increasing', 'a,b,c', '--quiet']
    """
    found: list[str] = []
    places: dict[str, int] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            return [*found, word, *words]
        if name not in _LISTS:
            found.append(word)
            continue
        if not equals and (value := next(words, "")) == "":
            found.append(name)  # which typer says wants a value
        elif name in places:
            found[places[name]] += f",{value}"
        else:
            found += [name, value]
            places[name] = len(found) - 1
    return found


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
        raise typer.BadParameter(one_line(error)) from error


def share(option: str, value: float) -> float:
    """Return a number that lies strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise WrongUse(f"{option} must lie strictly between 0 and 1, got {value:g}")
    return value


def _share(param: typer.CallbackParam, value: float | None) -> float | None:
    return value if value is None else share(param.opts[0], value)


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


def check_table_name(option: str, path: Path) -> None:
    """Refuse a name that does not end as a table does.

    :param option: how messages name the file.
    """
    if path.suffix.lower() not in ENDINGS:
        raise WrongUse(f"{option} must end in {', '.join(ENDINGS)}, got {path}")
    if path.suffix.lower() != ".csv":
        with blamed(f"{option} {path} needs pyarrow (pip install pyarrow)"):
            import pyarrow  # noqa: F401


def check_figure(option: str, path: Path) -> None:
    """Refuse a name that does not end as a figure does."""
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.removeprefix(".") not in kinds:
        raise WrongUse(f"{option} must end in one of {listed(kinds)}, got {path}")


def check_output(option: str, path: Path | None, data: Path) -> None:
    """Refuse, before any work is done, a place where no file can be written.

    :param data: the file that is read.
    """
    if path is None:
        return
    if path.exists() and data.exists() and path.samefile(data):
        raise WrongUse(f"{option} must be another file than the one that is read, got {path}")
    try:
        check_writable(path)
    except OSError as error:
        raise WrongUse(f"{option} {error}") from error


def check_out(out: Path | None, data: Path) -> None:
    """Refuse a file of `--out` that is no table or cannot be written."""
    if out is not None:
        check_table_name("--out", out)
        check_output("--out", out, data)


def check_folder(out: Path, overwrite: bool) -> None:
    """Refuse a folder that cannot be written, or has what must not be lost."""
    from pyro_gcm.io import check_replaceable

    with blamed("--out"):
        try:
            check_replaceable(out, overwrite)
        except FileExistsError as error:
            told = str(error).replace("pass overwrite=True", "pass --overwrite")
            raise FileExistsError(told) from error
        check_writable(out, is_folder=True)


def check_device(device: str) -> None:
    """Refuse a device that torch does not have here."""
    import torch

    try:
        torch.empty(0, device="cpu" if device == "auto" else device)
    except (AssertionError, RuntimeError) as error:
        raise WrongUse(
            f"--device must be auto, cpu, cuda or another device that torch finds, got {device!r}"
        ) from error


def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """An option with a value."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def number_option(low: int, help: str, high: float = math.inf) -> Any:
    """An option with a whole number."""
    return option("NUMBER", help, parser=whole(low, high))


def share_option(help: str) -> Any:
    """An option with a number strictly between 0 and 1."""
    return option("SHARE", help, parser=real, callback=_share)


def file_option(help: str, metavar: str = "FILE") -> Any:
    """An option with the path of a file or a folder."""
    return option(metavar, help, parser=path)


def flag(name: str, help: str) -> Any:
    """An option without a value."""
    return typer.Option(name, help=help)


Model = Annotated[
    Path, typer.Argument(parser=path, metavar="MODEL", help="The folder of a model that fit made.")
]
Data = Annotated[
    Path,
    typer.Argument(
        parser=path,
        metavar="DATA",
        help="The table: a .csv, .parquet, .arrow or .feather file.",
    ),
]
Json = Annotated[bool, flag("--json", "Print one JSON document on stdout, and nothing else there.")]
Quiet = Annotated[bool, flag("--quiet", "Print no progress and no notes on stderr.")]
Out = Annotated[
    Path | None,
    file_option("Write a .csv, .parquet, .arrow or .feather file in place of CSV on stdout."),
]
Keep = Annotated[
    str | None, option("COLUMNS", "Columns of DATA, such as id,name, to copy in front.")
]
Column = Annotated[str, option("COLUMN", "A column that was given a direction in fit.")]
Bands = Annotated[
    bool,
    flag(
        "--bands",
        "Add lower and upper: how far the members of the model, or its bootstrap models, "
        "disagree on the prediction. They hold no share of the outcomes.",
    ),
]
Level = Annotated[float, share_option("Share of the members or models in a band.")]
Pairs = Annotated[int, number_option(3, "Pairs of rows to compare, at most.")]
Seed = Annotated[int, number_option(0, "Seed of all random choices.")]
