"""Scoring of tables batch by batch, in this process or on the workers of an engine."""

from pyro_gcm.scoring.scorer import Scorer

__all__ = ["Scorer"]
