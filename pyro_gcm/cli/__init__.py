"""The command line `pyro-gcm`, which calls the estimators on tables in files."""

from pyro_gcm.cli.program import main

__all__ = ["main"]
