"""`python -m reproduce quantile`, `fit` or `implicit`."""

from __future__ import annotations

import argparse

from reproduce import fit, implicit, quantile


def main() -> None:
    """Parse the command line and run one experiment."""
    parser = argparse.ArgumentParser(prog="python -m reproduce", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in (("quantile", quantile), ("fit", fit), ("implicit", implicit)):
        command = commands.add_parser(name, help=module.__doc__, description=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(main=module.main)
    arguments = parser.parse_args()
    arguments.main(arguments)


if __name__ == "__main__":
    main()
