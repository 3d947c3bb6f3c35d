"""The audit from the command line: `python -m pyro_gcm.audit --help`."""

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


def main(argv: Sequence[str] | None = None) -> int:
    """Audit a predictor on the rows of a CSV file and print what was found.

    :param argv: arguments, those of the process by default.
    :returns: 0 if there was no violation, 1 if there were.
    :raises SystemExit: with code 2 for bad usage, which covers predictors that fail.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        _check_files(options)
        audit = _audit(options)
        print(audit.summary())
        if options.json:
            Path(options.json).write_text(json.dumps(_record(audit), indent=2) + "\n", "utf-8")
        if options.plot:
            # Here, since drawing is not needed for an audit.
            from pyro_gcm.plots.audit import plot_audit

            plot_audit(audit).savefig(options.plot, dpi=150)
    # Whatever a predictor raises: a traceback would exit with 1, as violations do, and a predictor
    # that ends the process with 0 would pass.
    except (Exception, SystemExit) as error:
        parser.error(f"{type(error).__name__}: {error}")
    return 0 if audit.passed else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m pyro_gcm.audit",
        description="Search for rows at which a prediction falls when it should rise.",
        epilog="Exit code: 0 no violation, 1 violations, 2 bad usage or a predictor that fails.",
    )
    add = parser.add_argument
    add(
        "predictor",
        help="module:attribute, an object or a function without arguments that makes it; or a "
        "file of joblib or pickle, which RUNS CODE when it is read: open only what you trust",
    )
    add("data", help="CSV file with a header")
    add(
        "--r",
        required=True,
        metavar="COLUMNS",
        help="columns in which predictions should rise, comma-separated; a leading - means fall, "
        "unless it is part of the name. Write --r=-price,bid where the first has one",
    )
    add(
        "--x",
        metavar="COLUMNS",
        help="the other columns that the predictor takes; by default its feature_names_in_, or "
        "else all others of the file",
    )
    add("--adapter", default="auto", choices=("auto", *ADAPTERS), help="how it is called")
    add("--pairs", type=int, default=100_000, help="pairs compared at most (%(default)s)")
    add("--seed", type=int, default=0, help="of all random choices (%(default)s)")
    add("--tolerance", type=float, help="drops up to this part of max(1, |value|) are rounding")
    add("--plot", metavar="PNG", help="write a figure")
    add("--json", metavar="JSON", help="write the counts and the worst pair")
    return parser


def _check_files(options: argparse.Namespace) -> None:
    """Errors for files that could not be written after the audit."""
    for name, file in (("--plot", options.plot), ("--json", options.json)):
        if file and not Path(file).parent.is_dir():
            raise ValueError(f"{name} {file}: there is no folder {Path(file).parent}")
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
    falls = [name.startswith("-") and name not in frame for name in names]
    increasing = [-1 if fall else 1 for fall in falls]
    r_names = [
        name.removeprefix("-") if fall else name for name, fall in zip(names, falls, strict=True)
    ]
    predictor = _load(options.predictor)
    adapter = adapter_of(predictor) if options.adapter == "auto" else options.adapter
    features = [str(name) for name in getattr(predictor, "feature_names_in_", frame.columns)]
    x_names = [n for n in features if n not in r_names] if options.x is None else _names(options.x)
    missing = [name for name in (*r_names, *x_names) if name not in frame]
    if missing:
        raise ValueError(f"{options.data} has no columns {missing}, it has {list(frame.columns)}")
    twice = {name for name in (*r_names, *x_names) if (*r_names, *x_names).count(name) > 1}
    if twice:
        raise ValueError(f"--r and --x must name different columns, got {sorted(twice)} twice")
    unknown = [name for name in (*r_names, *x_names) if name not in features]
    if unknown:
        raise ValueError(f"the predictor has no columns {unknown}, it takes {features}")
    text = [name for name in (*r_names, *x_names) if not is_numeric_dtype(frame[name])]
    if text:
        others = "" if set(text) & set(r_names) else ": name those to use with --x"
        raise ValueError(f"columns {text} are not numbers{others}")
    columns = None
    if adapter.endswith("(matrix)"):  # its columns in the order it knows, or that of the file
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
    """The predictor: read from a file, or an attribute of a module, called if it is a maker."""
    if Path(source).is_file():
        import joblib

        return joblib.load(source)
    module, colon, attribute = source.partition(":")
    if not colon or not module or not attribute:
        raise ValueError(f"predictor must be module:attribute or a file that exists, got {source}")
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules beside the data, as with `python -m`
    found: Any = importlib.import_module(module)
    for name in attribute.split("."):
        found = getattr(found, name)
    makes = inspect.isclass(found) or inspect.isfunction(found)
    return found() if makes and not inspect.signature(found).parameters else found


def _record(audit: MonotonicityAudit) -> dict[str, Any]:
    """What JSON can hold."""
    w = audit.witness
    return {
        "passed": audit.passed,
        "pairs": audit.pairs,
        "ties": audit.ties,
        "rounding": audit.rounding,
        "violations": audit.violations,
        "rate": audit.rate,
        "largest_drop": audit.largest_drop,
        "tolerance": audit.tolerance,
        "by_search": audit.frame.to_dict("records"),
        "by_column": audit.by_column.to_dict("records"),
        "witness": w
        and {
            "row": w.row,
            "search": w.search,
            "x": dict(zip(audit.x_names, w.x.tolist(), strict=True)),
            "r_low": dict(zip(audit.r_names, w.r_low.tolist(), strict=True)),
            "r_high": dict(zip(audit.r_names, w.r_high.tolist(), strict=True)),
            "low": w.low,
            "high": w.high,
            "drop": w.drop,
            "confirmed": w.confirmed,
        },
    }


if __name__ == "__main__":
    sys.exit(main())
