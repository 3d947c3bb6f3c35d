"""Blog Feedback: how many comments does a blog post get within the next 24 hours?

Source: Buza, K. (2014), BlogFeedback, UCI Machine Learning Repository,
https://doi.org/10.24432/C58S3F, licence CC BY 4.0. A row describes a post at a base time. The
training file (2010 and 2011) comes first, followed by the 60 test files (February and March 2012)
by date; this official split in time is the fixed split.

    x   the 268 other attributes that vary, named by their number in the UCI description
        ("attribute 1" to "attribute 280"): statistics of the blog, length and words of the post,
        weekdays, parent pages
    r   attributes 51 to 54, comments [counts] before the base time: all of them, those in the last
        24 hours, in the 24 hours before, and in the first 24 hours of the post; and attributes 56
        to 59, the same counts of links (trackbacks). All increasing
    y   comments in the next 24 hours divided by 8, in [0, 1]

Only posts with at most 8 comments, the 90th percentile, are kept. Selecting rows by the response
is not possible in practice, but it is the published task, and a root mean square error in these
units compares with the published tables. Attributes 13, 33, 38 and 278 are constant and excluded.

Some rows are duplicates, so a random split puts copies of training rows into the test part. Prefer
the fixed split, and do not mix numbers from the two.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from pyro_gcm.data.dataset import Dataset
from pyro_gcm.data.frames import check_count, from_frames, min_max
from pyro_gcm.data.source import RawFile, read_raw, unzip

_ARCHIVE = RawFile(
    path="blog/BlogFeedback.zip",
    sha256="a42cf1d1fc72b8de4cf3d00cc67f3c2b5fd1447a1829a296006deeff53bb0965",
    url="https://archive.ics.uci.edu/static/public/304/blogfeedback.zip",
    archive=True,
)
_TRAIN_FILE = "blogData_train.csv"
_FILES, _FILE_ROWS = 61, 60_021
_MAX_COMMENTS = 8

# By their number in the UCI description, which counts from 1.
_Y = "attribute 281"
_CONSTANT = [f"attribute {i}" for i in (13, 33, 38, 278)]
_R = {
    "attribute 51": "comments before",
    "attribute 52": "comments in the last 24 hours",
    "attribute 53": "comments 24 to 48 hours ago",
    "attribute 54": "comments in the first 24 hours",
    "attribute 56": "links before",
    "attribute 57": "links in the last 24 hours",
    "attribute 58": "links 24 to 48 hours ago",
    "attribute 59": "links in the first 24 hours",
}


def default() -> Dataset:
    """Blog Feedback with all rows, inputs in raw units: x [54314, 268], r [54314, 8].

    The fixed split has 47,287 and 7,027 rows.
    """
    table, _, is_train = _read()
    return _build("default", table, is_train, train_rows=47_287, test_rows=7_027)


def published() -> Dataset:
    """Blog Feedback as in the published tables: x [54270, 268], r [54270, 8].

    - The first row of each of the 61 files is lost, since it was read as a header.
    - The response was cast to 8 bits before the posts were selected, so that 256 comments count as
      none, 257 as one, and so on.
    - x and r are scaled to [0, 1] by the minimum and maximum over all selected rows, test rows
      included.

    r are the eight counts, as the papers say; their code constrains other columns. The fixed split
    has 47,302 and 6,968 rows.
    """
    table, is_first, is_train = _read()
    table[_Y] = table[_Y] % 256
    table, is_train = table[~is_first], is_train[~is_first]
    return _build("published", table, is_train, train_rows=47_302, test_rows=6_968, scale=True)


def _read() -> tuple[pd.DataFrame, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return all rows, and masks of the first row of each file and of the training rows."""
    files = unzip(read_raw(_ARCHIVE), _ARCHIVE.path)
    check_count("blog", "files", len(files), _FILES)
    contents = [files.pop(_TRAIN_FILE), *files.values()]  # test files by date
    table = pd.read_csv(io.BytesIO(b"".join(contents)), header=None, dtype=np.float64)
    check_count("blog", "rows", len(table), _FILE_ROWS)
    table.columns = pd.Index([f"attribute {i}" for i in range(1, table.shape[1] + 1)])

    rows = [content.count(b"\n") for content in contents]
    is_first = np.zeros(len(table), dtype=bool)
    is_first[np.cumsum([0, *rows[:-1]])] = True
    return table, is_first, np.arange(len(table)) < rows[0]


def _build(
    variant: str,
    table: pd.DataFrame,
    is_train: npt.NDArray[np.bool_],
    *,
    train_rows: int,
    test_rows: int,
    scale: bool = False,
) -> Dataset:
    kept = (table[_Y] <= _MAX_COMMENTS).to_numpy()
    table, is_train = table[kept], is_train[kept]
    check_count("blog", "training rows", int(is_train.sum()), train_rows)
    check_count("blog", "test rows", int((~is_train).sum()), test_rows)
    inputs = table.drop(columns=[_Y, *_CONSTANT])
    if scale:
        inputs = min_max(inputs)
    return from_frames(
        "blog",
        variant,
        inputs.drop(columns=list(_R)),
        inputs[list(_R)].rename(columns=_R),
        table[_Y] / _MAX_COMMENTS,
        metric="rmse",
        fixed=(torch.arange(train_rows), torch.arange(train_rows, train_rows + test_rows)),
    )
