"""The command line of the audit: `python -m pyro_gcm.audit --help`."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pyro_gcm._utils.console import any_text, one_line
from pyro_gcm._utils.options import file_of, output_of, path_of
from pyro_gcm._utils.writing import write_figure, write_file
from pyro_gcm.audit.adapters import ADAPTERS
from pyro_gcm.audit.from_files import audit_named, record_of


@any_text()
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
        with warnings.catch_warnings():  # of rows with more fields than the header
            warnings.simplefilter("error", pd.errors.ParserWarning)
            rows = pd.read_csv(options.data, index_col=False)
        audit = audit_named(
            options.predictor,
            rows,
            r=options.r,
            x=options.x,
            adapter=options.adapter,
            data=options.data,
            pairs=options.pairs,
            tolerance=options.tolerance,
            seed=options.seed,
        )
        print(audit.summary())
        if options.json:
            write_file(options.json, (json.dumps(record_of(audit), indent=2) + "\n").encode())
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
    """Check before the audit that the files can be read and written."""
    path_of("predictor", options.predictor)
    file_of("data", options.data)
    for name, file in (("--plot", options.plot), ("--json", options.json)):
        if file and not path_of(name, file).parent.is_dir():
            raise ValueError(f"{name} {file}: the folder {Path(file).parent} does not exist")
        if file:
            output_of(name, file)
    if options.plot:
        from matplotlib.backend_bases import FigureCanvasBase

        kinds = sorted(FigureCanvasBase.get_supported_filetypes())
        if Path(options.plot).suffix.removeprefix(".") not in kinds:
            raise ValueError(f"--plot must end in one of {kinds}, got {options.plot}")


if __name__ == "__main__":
    sys.exit(main())
