"""`python -m reproduce NAME`: the experiments."""

from __future__ import annotations

import argparse
import sys

from pyro_gcm.files.writing import one_line
from reproduce import (
    ablation,
    auctions,
    censoring,
    checks,
    crossings,
    datasets,
    distribution,
    falls,
    gradient_noise,
    implicit,
    loans,
    members_ablation,
    open_track,
    ordinal,
    particles,
    public,
    quantile,
    report,
    search,
    soak,
    survival,
    timing,
    untouched,
)
from reproduce.arguments import Refused, check_output

#: Commands of seconds or minutes that keep no part of their work.
WHOLE = ("datasets", "timing", "report", "soak")


def main() -> None:
    """Parse the command line and run one experiment."""
    parser = argparse.ArgumentParser(prog="python -m reproduce", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    experiments = {
        "quantile": quantile,
        "public": public,
        "checks": checks,
        "datasets": datasets,
        "ablation": ablation,
        "timing": timing,
        "open": open_track,
        "report": report,
        "implicit": implicit,
        "auctions": auctions,
        "particles": particles,
        "search": search,
        "untouched": untouched,
        "members_ablation": members_ablation,
        "loans": loans,
        "soak": soak,
        "falls": falls,
        "gradient_noise": gradient_noise,
        "ordinal": ordinal,
        "crossings": crossings,
        "distribution": distribution,
        "survival": survival,
        "censoring": censoring,
    }
    for name, module in experiments.items():
        text = str(module.__doc__).replace("%", "%%")  # argparse fills in help with the operator %
        command = commands.add_parser(name, help=text, description=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(main=module.main)
    arguments = parser.parse_args()
    try:
        if "output" in arguments:
            check_output(arguments.output)
        arguments.main(arguments)
    except (Refused, OSError) as error:
        parser.exit(2, f"{parser.prog} {arguments.command}: error: {one_line(error)}\n")
    except KeyboardInterrupt:
        kept = "" if arguments.command in WHOLE else ": what was finished is kept for the next run"
        print(f"\nInterrupted{kept}.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
