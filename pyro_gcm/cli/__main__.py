"""`python -m pyro_gcm.cli` is `pyro-gcm`."""

import sys

from pyro_gcm.cli.program import main

if __name__ == "__main__":
    sys.exit(main())
