"""Running the command line in this process, on a small table."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather

from pyro_gcm.cli import main

#: Options of every fit, so that it takes a part of a second.
QUICK = ("--members=2", "--epochs=1", "--quiet")
KINDS = {
    "classifier": ("--target=default", "--decreasing=income"),
    "regressor": ("--target=loss", "--kind=regressor"),
    "distribution": ("--target=loss", "--kind=distribution"),
    "ordinal": ("--target=grade", "--levels=low,medium,high"),
    "count": ("--target=claims", "--exposure=span"),
    "survival": ("--target=time", "--event=event", "--horizon=0.5"),
}
OUTCOMES = ("default", "loss", "grade", "time", "event", "claims", "span")


class Done(NamedTuple):
    """What a command returned and printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def table(self) -> pd.DataFrame:
        return exact(io.StringIO(self.out))

    @property
    def rows(self) -> list[dict[str, str]]:
        """The table on stdout, with the letters that it has."""
        text = pd.read_csv(io.StringIO(self.out), dtype=str, keep_default_na=False)
        return text.to_dict("records")

    @property
    def types(self) -> dict[str, str]:
        """Of the columns that a fit with --json has read."""
        return {column["name"]: column["type"] for column in self.json["columns"]}


def exact(file: Any) -> pd.DataFrame:
    """The table in a CSV file, whose numbers are read as Python does, to the last bit."""
    text = pd.read_csv(file, dtype=str)

    def read(column: pd.Series) -> pd.Series:
        try:
            return column.map(float)
        except ValueError:
            return column

    return text.apply(read)


def written(table: pd.DataFrame, path: Path) -> Path:
    """Write a table in the format that the name ends in."""
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        feather.write_feather(pa.Table.from_pandas(table, preserve_index=False), path)
    return path


def run(*arguments: object) -> Done:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Done(code, out.getvalue(), err.getvalue())


def fit(kind: str, *more: object, data: object = "data.csv") -> Done:
    """Fit a model of a kind."""
    used = {option.partition("=")[2] for option in KINDS[kind]}
    ignored = ",".join(["id", *(name for name in OUTCOMES if name not in used)])
    return run("fit", data, *KINDS[kind], "--increasing=debt", "--ignore", ignored, *QUICK, *more)
