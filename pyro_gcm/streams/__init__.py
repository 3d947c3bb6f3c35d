"""Rows that need not fit into memory, read anew in every epoch.

- `sources`: Parquet files, and batches that an iterable gives, in blocks of rows.
- `passes`: the one before training (moments, a sample for quantiles, the rows held out), and those
  of the epochs, in a random order with a bound on memory. What is drawn for a row depends on a seed
  and on the row's number alone, so that a training makes the same choices whatever blocks the rows
  come in.
"""

from pyro_gcm.streams.passes import ShuffledRows
from pyro_gcm.streams.sources import BatchRows, ParquetRows, Source

__all__ = ["BatchRows", "ParquetRows", "ShuffledRows", "Source"]
