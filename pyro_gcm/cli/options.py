"""Arguments and options of the commands, lists in one text, and checks before any work is done."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyro_gcm._utils.files import check_writable
from pyro_gcm.cli.output import WrongUse, blamed

if TYPE_CHECKING:
    from pyro_gcm.cli.saved import SavedModel
else:  # for the help, which imports nothing slow
    SavedModel = Path

#: Endings of the names of tables.
ENDINGS = (".csv", ".parquet", ".arrow", ".feather")
#: What a table has without `--large`, at most.
LIMITS = {"rows": 10_000_000, "columns": 10_000, "values": 200_000_000}
#: A part of a list: text in quotes, in which two stand for one, or up to the next comma.
_PART = re.compile(r'\s*"((?:[^"]|"")*)"\s*(?:,|$)|([^,]*)(?:,|$)')


def check_data(context: typer.Context, data: Path) -> Path:
    """Refuse what is no file of a table."""
    from pyro_gcm.cli.tables import check_table

    check_table(data, large=context.params.get("large", False))
    return data


def _opened(folder: str) -> SavedModel:
    from pyro_gcm.cli.saved import open_model

    return open_model(Path(folder))


def value(metavar: str, help: str | None = None, *names: str, **limits: Any) -> Any:
    """An option with a value.

    :param help: by default what the docstring of the command says of the parameter.
    :param names: by default that of the parameter.
    :param limits: `min` and `max` of a number.
    """
    return typer.Option(*names, metavar=metavar, help=help, **limits)


def flag(name: str, help: str | None = None, **more: Any) -> Any:
    """An option without a value."""
    return typer.Option(name, help=help, **more)


_TABLE = "a .csv, .parquet, .arrow or .feather file."
Model = Annotated[
    SavedModel, typer.Argument(metavar="MODEL", parser=_opened, help="The folder of a model.")
]
Data = Annotated[Path, typer.Argument(metavar="DATA", callback=check_data, help=f"Rows: {_TABLE}")]
Large = Annotated[bool, flag("--large", "Read any number of rows and columns.", is_eager=True)]
Json = Annotated[bool, flag("--json", "Print one JSON document on stdout, and nothing else there.")]
Quiet = Annotated[bool, flag("--quiet", "Print no progress and no notes on stderr.")]
Out = Annotated[Path | None, value("FILE", f"Write, in place of CSV on stdout, {_TABLE}")]
Keep = Annotated[list[str] | None, value("COLUMNS", "Columns of DATA to copy, such as id,name.")]
Safe = Annotated[bool, flag("--safe", "Put ' before text that spreadsheets run, such as =1+1.")]
Column = Annotated[str, value("COLUMN", "A column of the model.")]
Bands = Annotated[bool, flag("--bands", "Add lower and upper: how sure the model is.")]
Level = Annotated[float, value("SHARE", "Share of true values in a band.", min=0, max=1)]
Pairs = Annotated[int, value("NUMBER", "Pairs of rows to compare, at most.", min=3)]
Seed = Annotated[int, value("NUMBER", "Seed of all random choices.", min=0, max=2**32 - 1)]
Name = Annotated[str | None, value("COLUMN")]
Names = Annotated[list[str] | None, value("COLUMNS")]
Values = Annotated[list[str] | None, value("VALUES")]


def check_name(option: str, path: Path) -> None:
    """Refuse a name that does not end as a table does.

    :param option: how messages name the file.
    """
    if path.suffix.lower() not in ENDINGS:
        raise WrongUse(f"{option} must end in {', '.join(ENDINGS)}, got {path}")
    if path.suffix.lower() != ".csv":
        with blamed(f"{option} {path} needs pyarrow (pip install pyarrow)"):
            import pyarrow  # noqa: F401


def check_output(
    option: str, path: Path | None, data: Path, model: Path, *, is_table: bool = False
) -> None:
    """Refuse a place where no file can be written, and a file that is read.

    :param data: the table that is read.
    :param model: the folder of the model that is read.
    """
    if path is not None:
        if is_table:
            check_name(option, path)
        read = [data, model / "card.json", *model.glob("weights-*")]
        if path.exists() and any(file.exists() and path.samefile(file) for file in read):
            raise WrongUse(f"{option} must be another file than the ones that are read, got {path}")
        with blamed(option):
            check_writable(Path(os.path.realpath(path)))  # where a link leads to


def parts_of(text: str | Sequence[str], known: Collection[str] = ()) -> list[str]:
    """The parts of a list, such as `a, b,"c, d"`; a text that is known stands alone.

    :param text: the list, or several whose parts are put together.
    :param known: parts that are taken with the blanks around them, which others lose.
    """
    if not isinstance(text, str):
        return [part for each in text for part in parts_of(each, known)]
    if text in known:
        return [text]
    found = []
    for quoted, plain in _PART.findall(text):
        if quoted or plain.strip():
            part = quoted.replace('""', '"') or plain
            found.append(part if quoted or part in known else part.strip())
    return found


def list_of(parts: Iterable[str]) -> str:
    """The list that `parts_of` takes apart."""
    return ",".join(
        part
        if part == part.strip() != "" and "," not in part and not part.startswith('"')
        else '"' + part.replace('"', '""') + '"'
        for part in parts
    )


def as_argument(*parts: str) -> str:
    """The list as the one argument that a shell takes it for."""
    return shlex.quote(list_of(parts))
