"""`pyro-gcm audit`."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyro_gcm.cli import options
from pyro_gcm.cli.errors import WrongUse, blamed
from pyro_gcm.cli.lists import parts_of
from pyro_gcm.cli.output import Output, json_text

if TYPE_CHECKING:
    from pyro_gcm.audit import MonotonicityAudit


def audit(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    data: options.Data,
    r: Annotated[list[str] | None, options.value("COLUMNS", None, "--r")] = None,
    x: Annotated[list[str] | None, options.value("COLUMNS", None, "--x")] = None,
    pairs: options.Pairs = 100_000,
    seed: options.Seed = 0,
    tolerance: Annotated[float | None, options.value("SHARE", min=0.0)] = None,
    as_json: Annotated[str | None, options.value("[FILE.json]", None, "--json")] = None,
    plot: Annotated[Path | None, options.value("FILE")] = None,
    large: options.Large = False,
    quiet: options.Quiet = False,
) -> int:
    """Search for predictions that move the wrong way.

    Pairs of rows are compared that differ in constrained columns alone; the exit code is 1 if the
    prediction of one moves against its direction. An ordinal model is audited in its mean place.

    Example: pyro-gcm audit model/ data.csv --pairs 20000 --plot audit.png

    :param model: The folder of a model. With --r also module:attribute, a predictor or a function
        without arguments that returns it; or a joblib or pickle file, which EXECUTES CODE when it
        is read: open only trusted files.
    :param r: Of another predictor than a folder: columns in which predictions should increase, or
        decrease with a leading -, as in --r=-price,bid.
    :param x: The other inputs of such a predictor; by default its feature_names_in_, or all other
        columns.
    :param tolerance: Drops up to this share of max(1, |value|) count as rounding.
    :param as_json: Print one JSON document on stdout, or write it into a file that ends in .json.
    :param plot: Write a figure: .png, .svg, .pdf.
    """
    from pyro_gcm._utils.files import write_figure, write_file

    file = None if as_json in (None, "-") else Path(str(as_json))
    folder = Path(model)
    options.check_output("--plot", plot, data, folder)
    options.check_output("--json", file, data, folder)
    settings = {"pairs": pairs, "seed": seed, "tolerance": tolerance, "progress": not quiet}
    if folder.is_dir() or (not r and ":" not in model and not folder.is_file()):
        if r or x:
            raise WrongUse(f"--r and --x are for other predictors, and {model} is a saved model")
        found = _of_model(folder, data, settings)
    else:
        if not r:
            raise WrongUse(f"--r must name the columns in which {model} should increase, as --r a")
        with blamed("MODEL"):
            try:
                found = _of_predictor(model, data, r, x, settings)
            except (SystemExit, AttributeError) as error:
                raise ValueError(f"{model}: {type(error).__name__}: {error}") from error
    output, record = Output(as_json == "-", quiet), _record(found)
    output.text(found.summary())
    if file is not None:
        with blamed("--json"):
            write_file(file, (json_text(record) + "\n").encode())
    if plot is not None:
        with blamed("--plot"):
            from pyro_gcm.plots import plot_audit

            write_figure(plot, plot_audit(found), dpi=150)
    output.document({"command": "audit", **record})
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


def _of_model(folder: Path, data: Path, settings: dict[str, Any]) -> MonotonicityAudit:
    from pyro_gcm.audit import audit_table
    from pyro_gcm.cli.saved import open_model

    saved = open_model(folder)
    if not saved.directions:
        raise WrongUse(f"MODEL {folder} has no column with a direction, so nothing can be audited")
    X, _ = saved.rows(data)
    predictor = saved.estimator.predict_mean if saved.kind == "ordinal" else saved.estimator
    with blamed(f"DATA {data}"):
        return audit_table(predictor, saved.estimator.as_read(X), saved.directions, **settings)


def _of_predictor(
    source: str,
    data: Path,
    r: Sequence[str],
    x: Sequence[str] | None,
    settings: dict[str, Any],
) -> MonotonicityAudit:
    """Audit a predictor on the columns of a table that are named, or that it knows.

    :param source: module:attribute, or a joblib file.
    :param r: names of the columns in which predictions should increase, or decrease with a
        leading - that is not part of the name; `x`: those of the other inputs.
    """
    from pyro_gcm.audit import audit_monotonicity, audit_table
    from pyro_gcm.cli.columns import columns_of
    from pyro_gcm.cli.tables import read_table

    frame = read_table(data)
    known = [*frame.columns]
    signs = {
        name if name in known else name.removeprefix("-"): 1 if name in known else -1
        for name in parts_of(r, [*known, *(f"-{name}" for name in known)])
    }
    columns_of("--r", [*signs], known, str(data))
    predictor = _load(source)
    features = [str(name) for name in getattr(predictor, "feature_names_in_", known)]
    others = columns_of("--x", x, known, str(data)) or [n for n in features if n not in signs]
    if _takes_x_and_r(predictor):
        settings |= {"increasing": [*signs.values()]}
        return audit_monotonicity(predictor, frame[others], frame[[*signs]], **settings)
    table = frame[[name for name in features if name in signs or name in others]]
    return audit_table(predictor, table, signs, **settings)


def _takes_x_and_r(predictor: Any) -> bool:
    """Whether a predictor is called with x and r, and not with one table."""
    from pyro_gcm.audit.audit import method_of

    try:
        parameters = inspect.signature(method_of(predictor)).parameters.values()
    except ValueError:  # of a function in C
        return False
    second = [p for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD][1:2]
    return any(p.default is p.empty or p.name == "r" for p in second)


def _load(source: str) -> Any:
    """Read a predictor from a file, or from a module, where a factory function is called."""
    if Path(source).is_file():
        import joblib

        from pyro_gcm._utils.files import undamaged

        with undamaged(f"{source} cannot be read as a joblib or pickle file:"):
            return joblib.load(source)
    if not source.partition(":")[2]:
        raise ValueError(f"predictor must be module:attribute or an existing file, got {source}")
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules beside the data, as with `python -m`
    found: Any = pkgutil.resolve_name(source)
    factory = inspect.isclass(found) or inspect.isfunction(found)
    return found() if factory and not inspect.signature(found).parameters else found


def _record(audit: MonotonicityAudit) -> dict[str, Any]:
    """The result in a form that JSON supports."""
    counts = ("passed", "pairs", "ties", "rounding", "violations", "rate", "largest_drop")
    of_pair = ("row", "search", "low", "high", "drop", "confirmed", "x", "r_low", "r_high")
    names = {"x": audit.x_names, "r_low": audit.r_names, "r_high": audit.r_names}
    witness = {name: getattr(audit.witness, name) for name in of_pair if audit.witness}
    for name, columns in names.items() if audit.witness else ():
        witness[name] = dict(zip(columns, witness[name].tolist(), strict=True))
    return {
        **{name: getattr(audit, name) for name in (*counts, "tolerance")},
        "by_search": audit.frame.to_dict("records"),
        "by_column": audit.by_column.to_dict("records"),
        "witness": witness or None,
    }
