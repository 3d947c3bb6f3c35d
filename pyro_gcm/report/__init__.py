"""A report on a fitted estimator for people: one HTML file that needs nothing else."""

from pyro_gcm.report.report import WrittenReport, write_report

__all__ = ["WrittenReport", "write_report"]
