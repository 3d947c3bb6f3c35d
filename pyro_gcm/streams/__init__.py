"""Rows that need not fit into memory, read anew in every epoch.

Rows come as blocks of tensors from a source, which has them in a fixed order; one pass surveys
them, and every epoch shuffles them within a window. Each module is one of these steps:

- `blocks`: rows as tensors, cut, joined, and told apart by a checksum. Everything below speaks it.
- `draws`: random numbers of rows that depend on a seed and on a row's place alone, so that a run
  makes the same choices whatever blocks the rows come in.
- `tables`: Parquet files and data frames as sources. Row groups, their sizes and the values in the
  names of folders are those of `pyarrow.dataset`; rows of a group are decoded by
  `pyarrow.parquet`, since a scanner of the dataset holds a whole group in memory (measured: 361 MB
  for a group of 240 MB, against 35 MB).
- `batches`: a `DataLoader` or another iterable as a source. It has no parts that can be read by
  themselves, and may change between passes, which is checked.
- `opening`: what a source is, and which one reads what a user has.
- `survey`: the one pass before training: moments, a sample for quantiles, the rows held out, and
  the checksums that later passes must have.
- `shuffled`: batches in a random order, with a bound on memory.

Arrow's scanners do not shuffle, and torch's `DataLoader` begins an interrupted epoch anew; what is
written here lies between the two.
"""

from pyro_gcm.streams.opening import Source, open_source
from pyro_gcm.streams.shuffled import ShuffledRows
from pyro_gcm.streams.survey import Survey, survey

__all__ = ["ShuffledRows", "Source", "Survey", "open_source", "survey"]
