"""`python -m reproduce NAME`: the experiments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyro_gcm.cli.output import one_line
from reproduce import report, smoke
from reproduce.defaults import own_study
from reproduce.rendering import figures
from reproduce.runs import Refused
from reproduce.studies import STUDIES, command, listed

COMMANDS = {
    **STUDIES,
    "study": command(own_study),
    "report": command(report),
    "readme_figure": command(figures),
    "smoke": command(smoke),
}
#: Commands of seconds or minutes that keep no part of their work.
WHOLE = ("list", "datasets", "credit_witnesses", "timing", "report", "readme_figure", "smoke")


def main(words: Sequence[str] | None = None) -> None:
    """Parse the command line and run one experiment."""
    parser = argparse.ArgumentParser(prog="python -m reproduce", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, study in COMMANDS.items():
        text = study.about.replace("%", "%%")  # argparse fills in help with the operator %
        options = commands.add_parser(name, help=text, description=study.about)
        study.add_arguments(options)
        options.set_defaults(main=study.main)
    options = commands.add_parser("list", help=listed.__doc__, description=listed.__doc__)
    options.set_defaults(main=lambda arguments: print(listed()))
    arguments = parser.parse_args(words)
    try:
        if "output" in arguments:
            arguments.output.mkdir(parents=True, exist_ok=True)
        arguments.main(arguments)
    except (Refused, OSError) as error:
        parser.exit(2, f"{parser.prog} {arguments.command}: error: {one_line(error)}\n")
    except KeyboardInterrupt:
        kept = "" if arguments.command in WHOLE else ": what was finished is kept for the next run"
        print(f"\nInterrupted{kept}.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
