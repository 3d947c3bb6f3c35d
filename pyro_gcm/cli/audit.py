"""`pyro-gcm audit`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyro_gcm._utils.files import usable
from pyro_gcm.cli.errors import WrongUse, blamed, listed
from pyro_gcm.cli.lists import parts_of
from pyro_gcm.cli.options import (
    Data,
    Pairs,
    Quiet,
    Seed,
    check_figure,
    check_output,
    file_option,
    option,
    real,
)
from pyro_gcm.cli.output import Output, json_text

if TYPE_CHECKING:
    import pandas as pd

    from pyro_gcm.audit import MonotonicityAudit


def audit(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="The folder of a model. With --r also module:attribute, a predictor or a function "
            "without arguments that returns it; or a joblib or pickle file, which EXECUTES CODE "
            "when it is read: open only trusted files.",
        ),
    ],
    data: Data,
    r: Annotated[
        str | None,
        option(
            "COLUMNS",
            "Of another predictor than a folder: columns in which predictions should increase,"
            " or decrease with a leading -, as in --r=-price,bid.",
            "--r",
        ),
    ] = None,
    x: Annotated[
        str | None,
        option(
            "COLUMNS",
            "The other inputs of such a predictor; by default its feature_names_in_, or all "
            "other columns.",
            "--x",
        ),
    ] = None,
    adapter: Annotated[
        str | None, option("TEXT", "How such a predictor is called; by default found out.")
    ] = None,
    pairs: Pairs = 100_000,
    seed: Seed = 0,
    tolerance: Annotated[
        float | None,
        option(
            "SHARE", "Drops up to this share of max(1, |value|) count as rounding.", parser=real
        ),
    ] = None,
    as_json: Annotated[
        str | None,
        option(
            "[FILE.json]",
            "Print one JSON document on stdout, or write it into a file that ends in .json.",
            "--json",
        ),
    ] = None,
    plot: Annotated[Path | None, file_option("Write a figure: .png, .svg, .pdf.")] = None,
    quiet: Quiet = False,
) -> int:
    """Search for predictions that move the wrong way.

    Pairs of rows are compared that differ in constrained columns alone; the exit code is 1 if the
    prediction of one moves against its direction. An ordinal model is audited in its mean place.

    Example: pyro-gcm audit model/ data.csv --pairs 20000 --plot audit.png
    """
    for name, text in (("MODEL", model), ("--json", as_json)):
        if text is not None:
            with blamed(name):
                usable(text)
    if tolerance is not None and tolerance < 0.0:
        raise WrongUse(f"--tolerance must be at least 0, got {tolerance:g}")
    file = None if as_json in (None, "-") else Path(as_json)
    if plot is not None:
        check_figure("--plot", plot)
    check_output("--plot", plot, data)
    check_output("--json", file, data)
    options: dict[str, Any] = {"pairs": pairs, "seed": seed, "tolerance": tolerance}
    options["progress"] = not quiet
    of_folder = Path(model).is_dir() or (
        r is None and ":" not in model and not Path(model).is_file()
    )
    if of_folder:
        others = {"--r": r, "--x": x, "--adapter": adapter}
        if given := [name for name, value in others.items() if value is not None]:
            raise WrongUse(f"{given[0]} is for other predictors, and {model} is a saved model")
        found = _of_model(Path(model), data, options)
    else:
        found = _of_predictor(model, data, r, x, adapter, options)
    _report(found, Output(as_json == "-", quiet), file, plot)
    return 0 if found.passed else 1


def json_option(argv: Sequence[str]) -> list[str]:
    """Arguments in which `--json` of `audit` has a value: `-` for stdout, where no file follows."""
    found: list[str] = []
    for at, word in enumerate(argv):
        found.append(word)
        following = "".join(argv[at + 1 : at + 2])
        if word == "--json" and "audit" in argv[:1] and not following.endswith(".json"):
            found.append("-")
    return found


def _of_model(folder: Path, data: Path, options: dict[str, Any]) -> MonotonicityAudit:
    from pyro_gcm.audit import audit_table
    from pyro_gcm.cli.saved import open_model

    saved = open_model(folder)
    if not saved.directions:
        raise WrongUse(f"MODEL {folder} has no column with a direction, so nothing can be audited")
    X, _ = saved.rows(data)
    ordinal = saved.kind == "ordinal"
    predictor = saved.estimator.predict_mean if ordinal else saved.estimator
    with blamed(f"DATA {data}"):
        return audit_table(predictor, saved.estimator.as_read(X), saved.directions, **options)


def _of_predictor(
    source: str,
    data: Path,
    r: str | None,
    x: str | None,
    adapter: str | None,
    options: dict[str, Any],
) -> MonotonicityAudit:
    """The audit of a predictor in a module or a file.

    :param source: module:attribute, or a joblib file.
    :param r: names of the columns in which predictions should increase, with commas, or decrease
        with a leading - that is not part of the name; `x`: those of the other inputs.
    :param options: of `audit_monotonicity`.
    """
    from pyro_gcm.audit import ADAPTERS
    from pyro_gcm.cli.tables import read_table

    if r is None:
        raise WrongUse(f"--r must name the columns in which {source} should increase, as in --r a")
    if adapter is not None and adapter not in ADAPTERS:
        raise WrongUse(f"--adapter must be one of {listed(ADAPTERS)}, got {adapter!r}")
    frame = read_table(data).frame
    with blamed("MODEL"):
        try:
            return _of_columns(source, frame, str(data), r, x, adapter, options)
        except (SystemExit, AttributeError, RuntimeError) as error:
            raise ValueError(f"{source}: {type(error).__name__}: {error}") from error


def _of_columns(
    source: str,
    frame: pd.DataFrame,
    data: str,
    r: str,
    x: str | None,
    adapter: str | None,
    options: dict[str, Any],
) -> MonotonicityAudit:
    """Audit a predictor on the columns of a table that are named, or that it knows."""
    from pandas.api.types import is_numeric_dtype

    from pyro_gcm.audit import audit_monotonicity
    from pyro_gcm.audit.adapters import adapter_of

    names = parts_of(r, [*frame.columns, *(f"-{name}" for name in frame.columns)])
    if not names:
        raise ValueError(f"--r must name at least one column, got {r!r}")
    r_names = [name if name in frame else name.removeprefix("-") for name in names]
    increasing = [1 if r_name == name else -1 for r_name, name in zip(r_names, names, strict=True)]
    predictor = _load(source)
    adapter = adapter or adapter_of(predictor)
    features = [str(name) for name in getattr(predictor, "feature_names_in_", frame.columns)]
    x_names = [n for n in features if n not in r_names]
    x_names = x_names if x is None else parts_of(x, [*frame.columns])
    used = (*r_names, *x_names)
    if missing := [name for name in used if name not in frame]:
        raise ValueError(f"{data} has no columns {missing}, it has {list(frame.columns)}")
    if repeated := sorted({name for name in used if used.count(name) > 1}):
        raise ValueError(f"--r and --x must name different columns, got {repeated} twice")
    if unknown := [name for name in used if name not in features]:
        raise ValueError(f"the predictor has no columns {unknown}, it takes {features}")
    if text := [name for name in used if not is_numeric_dtype(frame[name])]:
        hint = "" if set(text) & set(r_names) else ": select numeric ones with --x"
        raise ValueError(f"columns {text} are not numeric{hint}")
    columns = None
    if adapter.endswith("(matrix)"):  # in the order of the features, or of the file
        order = [name for name in features if name in {*r_names, *x_names}]
        x_names = [name for name in order if name not in r_names]
        columns = [order.index(name) for name in r_names]
    return audit_monotonicity(
        predictor,
        frame[x_names],
        frame[r_names],
        increasing=increasing,
        adapter=adapter,
        columns=columns,
        **options,
    )


def _load(source: str) -> Any:
    """Read a predictor from a file, or from a module, where a factory function is called."""
    if Path(source).is_file():
        import joblib

        from pyro_gcm._utils.files import undamaged

        with undamaged(f"{source} cannot be read as a joblib or pickle file:"):
            return joblib.load(source)
    module, colon, attribute = source.partition(":")
    if not colon or not module or not attribute:
        raise ValueError(f"predictor must be module:attribute or an existing file, got {source}")
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules beside the data, as with `python -m`
    found: Any = importlib.import_module(module)
    for name in attribute.split("."):
        found = getattr(found, name)
    factory = inspect.isclass(found) or inspect.isfunction(found)
    return found() if factory and not inspect.signature(found).parameters else found


def _report(found: MonotonicityAudit, output: Output, file: Path | None, plot: Path | None) -> None:
    from pyro_gcm._utils.files import write_figure, write_file

    output.text(found.summary())
    record = _record(found)
    with blamed("--json"):
        if file is not None:
            write_file(file, (json_text(record) + "\n").encode())
    if plot is not None:
        with blamed("--plot"):
            from pyro_gcm.plots import plot_audit

            write_figure(plot, plot_audit(found), dpi=150)
    output.document({"command": "audit", **record})


def _record(audit: MonotonicityAudit) -> dict[str, Any]:
    """The result in a form that JSON supports."""
    w = audit.witness
    numbers = ("passed", "pairs", "ties", "rounding", "violations", "rate", "largest_drop")
    of_pair = ("row", "search", "low", "high", "drop", "confirmed")
    return {
        **{name: getattr(audit, name) for name in (*numbers, "tolerance")},
        "by_search": audit.frame.to_dict("records"),
        "by_column": audit.by_column.to_dict("records"),
        "witness": w
        and {
            **{name: getattr(w, name) for name in of_pair},
            "x": dict(zip(audit.x_names, w.x.tolist(), strict=True)),
            "r_low": dict(zip(audit.r_names, w.r_low.tolist(), strict=True)),
            "r_high": dict(zip(audit.r_names, w.r_high.tolist(), strict=True)),
        },
    }
