"""Rows that need not fit into memory: sources, one survey of them, and shuffled batches."""

from pyro_gcm.streams.moments import Moments
from pyro_gcm.streams.opening import open_source
from pyro_gcm.streams.shuffled import ShuffledRows
from pyro_gcm.streams.source import Source
from pyro_gcm.streams.survey import Survey, survey

__all__ = ["Moments", "ShuffledRows", "Source", "Survey", "open_source", "survey"]
