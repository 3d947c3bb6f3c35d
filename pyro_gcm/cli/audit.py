"""`pyro-gcm audit`."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyro_gcm._utils.files import undamaged, write_figure, write_file
from pyro_gcm.cli import options
from pyro_gcm.cli.options import parts_of
from pyro_gcm.cli.output import Output, WrongUse, blamed, json_text

if TYPE_CHECKING:
    from pyro_gcm.audit import ConcavityAudit, MonotonicityAudit


def audit(
    output: Output,
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    data: options.Data,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE.json]")] = None,
    r: options.Names = None,
    x: options.Names = None,
    pairs: options.Pairs = 100_000,
    seed: options.Seed = 0,
    tolerance: Annotated[float | None, options.value("SHARE", min=0.0)] = None,
    plot: Annotated[Path | None, options.value("FILE")] = None,
) -> int:
    """Search for violations: predictions that move against a direction.

    Pairs of rows are compared that differ in constrained columns alone; the exit code is 1 if the
    prediction of one moves against its direction. An ordinal model is audited in its mean place, a
    model of three or more classes in the probability of the one that --positive named in fit. Of
    columns with diminishing returns triples of rows are compared as well, and of a boosting model
    the trees say for which rows no prediction can fall.

    Example: pyro-gcm audit model/ data.csv --pairs 20000 --plot audit.png

    :param model: The folder of a model, or a file.onnx that `pyro-gcm export` wrote of one. With
        --r also module:attribute, a predictor or a function
        without arguments that returns it; or a joblib or pickle file, which EXECUTES CODE when it
        is read: open only trusted files.
    :param file: Where --json writes its document, in place of stdout.
    :param r: Of another predictor than a folder: columns in which predictions should increase, or
        decrease with a leading -, as in --r=-price,bid.
    :param x: The other inputs of such a predictor; by default its feature_names_in_, or all other
        columns.
    :param tolerance: Drops up to this share of max(1, |value|) count as rounding.
    :param plot: Write a figure: .png, .svg, .pdf.
    """
    folder = Path(model)
    if file is not None and (file.suffix.lower() != ".json" or not output.as_json):
        raise WrongUse(f"a third argument must follow --json and end in .json, got {file}")
    options.check_output("--plot", plot, data, folder)
    options.check_output("--json", file, data, folder)
    settings = {"pairs": pairs, "seed": seed, "tolerance": tolerance, "progress": not output.quiet}
    if folder.is_dir() or (not r and ":" not in model and not folder.is_file()):
        if r or x:
            raise WrongUse(f"--r and --x are for other predictors, and {model} is a saved model")
        found, bent = _of_model(folder, data, settings)
    elif not r and folder.suffix == ".onnx":
        found, bent = _of_file(folder, data, settings), None
    else:
        if not r:
            raise WrongUse(f"--r must name the columns in which {model} should increase, as --r a")
        with blamed("MODEL"):
            try:
                found, bent = _of_predictor(model, data, r, x, settings), None
            except SystemExit as error:  # an end of the code of others, and not of the audit
                raise ValueError(f"{model} ended with SystemExit: {error}") from error
    record = _record(found)
    if bent is not None:
        record["concavity"] = {"passed": bent.passed, **bent._asdict()}
    if file is not None:
        with blamed("--json"):
            write_file(file, (json_text(record) + "\n").encode())
    output = replace(output, as_json=output.as_json and file is None)
    output.text(found.summary())
    if bent is not None:
        output.text(bent.summary())
    if plot is not None:
        with blamed("--plot"):
            from pyro_gcm.plots import plot_audit

            write_figure(plot, plot_audit(found), dpi=150)
    output.document({"command": "audit", **record})
    return 0 if found.passed and (bent is None or bent.passed) else 1


def _of_model(
    folder: Path, data: Path, settings: dict[str, Any]
) -> tuple[MonotonicityAudit, ConcavityAudit | None]:
    """The audit of a saved model, and that of its columns with diminishing returns, if any."""
    from pyro_gcm.audit import audit_table, audit_table_concavity
    from pyro_gcm.cli.saved import open_model

    saved = open_model(folder)
    X, _ = saved.rows(data)
    named = {"ordinal": "predict_mean", "count": "predict_rate"}.get(saved.kind)
    predictor = getattr(saved.estimator, named) if named else saved.estimator
    bent = [name for name, code in saved.codes.items() if code.from_zero]
    if not saved.directions:
        event = f" for {saved.facts['positive']}" if len(saved.labels) > 2 else ""
        raise WrongUse(f"MODEL {folder} must have a column with a direction{event}, and has none")
    with blamed(f"DATA {data}"):
        found = audit_table(predictor, saved.estimator.as_read(X), saved.directions, **settings)
        if not bent:
            return found, None
        options = {"triples": settings["pairs"], "seed": settings["seed"]}
        return found, audit_table_concavity(predictor, X, bent, **options)


def _of_file(path: Path, data: Path, settings: dict[str, Any]) -> MonotonicityAudit:
    """Audit an exported file."""
    from pyro_gcm.audit import audit_table
    from pyro_gcm.cli.tables import read_table
    from pyro_gcm.io.onnx_file import OnnxFile

    with blamed(f"MODEL {path}"):
        file = OnnxFile(path)
    frame = read_table(data, text=file.text)
    with blamed(f"DATA {data}"):
        return audit_table(file, frame, **settings)


def _of_predictor(
    source: str, data: Path, r: Sequence[str], x: Sequence[str] | None, settings: dict[str, Any]
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

    parameters = inspect.signature(method_of(predictor)).parameters.values()
    second = [p for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD][1:2]
    return any(p.default is p.empty or p.name == "r" for p in second)


def _load(source: str) -> Any:
    """Read a predictor from a file, or from a module, where a factory function is called."""
    if Path(source).is_file():
        import joblib

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
    record = {name: getattr(audit, name) for name in (*counts, "tolerance")}
    record |= {"by_search": audit.frame.to_dict("records"), "witness": None, "proof": None}
    record["by_column"] = audit.by_column.to_dict("records")
    if worst := audit.witness:
        of_pair = ("row", "search", "low", "high", "drop", "confirmed")
        record["witness"] = {name: getattr(worst, name) for name in of_pair}
        record["witness"]["x"] = dict(zip(audit.x_names, worst.x, strict=True))
        for name in ("r_low", "r_high"):
            record["witness"][name] = dict(zip(audit.r_names, getattr(worst, name), strict=True))
    if audit.proof is not None:
        record["proof"] = audit.proof._asdict() | {"pair": None}
        if audit.proof.pair is not None:
            record["proof"]["pair"] = audit.proof.pair.to_dict("records")
    return record
