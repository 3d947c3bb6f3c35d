"""The command line of the audit: `python -m pyro_gcm.audit --help`."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from pyro_gcm.audit.adapters import ADAPTERS, adapter_of
from pyro_gcm.audit.audit import audit_monotonicity
from pyro_gcm.audit.result import MonotonicityAudit
from pyro_gcm.files.writing import one_line, write_figure, write_file


def main(argv: Sequence[str] | None = None) -> int:
    """Audit a predictor on the rows of a CSV file and print a summary.

    :param argv: arguments, by default those of the process.
    :returns: 0 if no violation was found, else 1.
    :raises SystemExit: with code 2 for invalid arguments and for predictors that fail.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        _check_files(options)
        audit = _audit(options)
        print(audit.summary())
        if options.json:
            write_file(options.json, (json.dumps(_record(audit), indent=2) + "\n").encode())
        if options.plot:
            from pyro_gcm.plots.audit import plot_audit

            write_figure(options.plot, plot_audit(audit), dpi=150)
    # All errors of a predictor: an uncaught one would exit with 1, like violations, and a predictor
    # that exits with 0 would pass.
    except (Exception, SystemExit) as error:
        parser.exit(2, f"{parser.prog}: error: {type(error).__name__}: {one_line(error)}\n")
    return 0 if audit.passed else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m pyro_gcm.audit",
        description="Search for pairs of inputs at which a prediction violates monotonicity.",
        epilog="Exit code: 0 no violation, 1 violations, 2 invalid arguments or an error.",
    )
    add = parser.add_argument
    add(
        "predictor",
        help="module:attribute, an object or a function without arguments that returns it; or a "
        "joblib or pickle file, which EXECUTES CODE when it is read: open only trusted files",
    )
    add("data", help="CSV file with a header")
    add(
        "--r",
        required=True,
        metavar="COLUMNS",
        help="comma-separated columns in which predictions should increase, or decrease with a "
        "leading - that is not part of the name; write --r=-price,bid if the first has one",
    )
    add(
        "--x",
        metavar="COLUMNS",
        help="the other inputs of the predictor; by default its feature_names_in_, or all other "
        "columns of the file",
    )
    add("--adapter", default="auto", choices=("auto", *ADAPTERS), help="how to call it")
    add("--pairs", type=int, default=100_000, help="maximum number of pairs (%(default)s)")
    add("--seed", type=int, default=0, help="seed of all random choices (%(default)s)")
    add(
        "--tolerance",
        type=float,
        help="drops up to this fraction of max(1, |value|) count as rounding",
    )
    add("--plot", metavar="PNG", help="write a figure")
    add("--json", metavar="JSON", help="write the counts and the worst pair")
    return parser


def _check_files(options: argparse.Namespace) -> None:
    """Check before the audit that the output files can be written."""
    for name, file in (("--plot", options.plot), ("--json", options.json)):
        if file and not Path(file).parent.is_dir():
            raise ValueError(f"{name} {file}: the folder {Path(file).parent} does not exist")
    if options.plot:
        from matplotlib.backend_bases import FigureCanvasBase

        kinds = sorted(FigureCanvasBase.get_supported_filetypes())
        if Path(options.plot).suffix.removeprefix(".") not in kinds:
            raise ValueError(f"--plot must end in one of {kinds}, got {options.plot}")


def _audit(options: argparse.Namespace) -> MonotonicityAudit:
    frame = pd.read_csv(options.data)
    names = _names(options.r)
    if not names:
        raise ValueError(f"--r must name at least one column, got {options.r!r}")
    r_names = [name if name in frame else name.removeprefix("-") for name in names]
    increasing = [1 if r_name == name else -1 for r_name, name in zip(r_names, names, strict=True)]
    predictor = _load(options.predictor)
    adapter = adapter_of(predictor) if options.adapter == "auto" else options.adapter
    features = [str(name) for name in getattr(predictor, "feature_names_in_", frame.columns)]
    x_names = [n for n in features if n not in r_names] if options.x is None else _names(options.x)
    used = (*r_names, *x_names)
    if missing := [name for name in used if name not in frame]:
        raise ValueError(f"{options.data} has no columns {missing}, it has {list(frame.columns)}")
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
        pairs=options.pairs,
        tolerance=options.tolerance,
        adapter=adapter,
        columns=columns,
        seed=options.seed,
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _load(source: str) -> Any:
    """Read a predictor from a file, or from a module, where a factory function is called."""
    if Path(source).is_file():
        import joblib

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


if __name__ == "__main__":
    sys.exit(main())
