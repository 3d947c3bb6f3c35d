"""`python -m reproduce NAME`: the experiments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pyro_gcm.cli.output import one_line
from reproduce import report, smoke
from reproduce.defaults import own_study
from reproduce.rendering import figures
from reproduce.runs import Refused
from reproduce.studies import STUDIES, command, listed

COMMANDS = {
    **STUDIES,
    "study": own_study.STUDY,
    "report": command(report),
    "readme_figure": command(figures),
    "smoke": command(smoke),
}


#: What an error says where a package is not there.
EXTRAS = ": pip install pyro-gcm[boosting,compare,rivals]"


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
    except (Refused, OSError, ImportError) as error:
        told = f"{parser.prog} {arguments.command}: error: {one_line(error)}"
        parser.exit(2, told + EXTRAS * isinstance(error, ImportError) + "\n")


if __name__ == "__main__":
    main()
