"""A report on a fitted estimator: one HTML file that needs nothing else."""

from pyro_gcm.report.columns import profile_of
from pyro_gcm.report.report import WrittenReport, write_report

__all__ = ["WrittenReport", "profile_of", "write_report"]
