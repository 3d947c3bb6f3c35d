"""`python -m pyro_gcm.cli` is `pyro-gcm`."""

import sys

from pyro_gcm.cli.program import main

sys.exit(main())
