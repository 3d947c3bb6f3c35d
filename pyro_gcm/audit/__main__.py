"""`python -m pyro_gcm.audit` is `pyro-gcm audit` now; this form of it goes in version 0.4."""

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run `pyro-gcm audit`, and say so.

    :param argv: its arguments, by default those of the process.
    :returns: its exit code.
    """
    from pyro_gcm.cli import main as program

    given = sys.argv[1:] if argv is None else argv
    print("python -m pyro_gcm.audit is now pyro-gcm audit, with the same options", file=sys.stderr)
    return program(["audit", *given])


if __name__ == "__main__":
    sys.exit(main())
