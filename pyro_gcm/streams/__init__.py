"""Rows that need not fit into memory, read anew in every epoch.

- `blocks`: rows as tensors, cut and joined. Everything below speaks it.
- `draws`: random numbers of rows that depend on a seed and on a row's number alone, so that a
  training makes the same choices whatever blocks the rows come in.
- `sources`: Parquet files, and batches that an iterable gives.
- `survey`: the one pass before training: moments, a sample for quantiles, the rows held out.
- `shuffled`: batches in a random order, with a bound on memory.
"""

from pyro_gcm.streams.shuffled import ShuffledRows
from pyro_gcm.streams.sources import BatchRows, ParquetRows, Source
from pyro_gcm.streams.survey import Survey, survey

__all__ = ["BatchRows", "ParquetRows", "ShuffledRows", "Source", "Survey", "survey"]
