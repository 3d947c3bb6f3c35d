"""The function that loads a data set by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyro_gcm._utils.validation import one_of
from pyro_gcm.data.dataset import Dataset

#: By name: `files`, with the options of `pandas.read_csv` as `read`; columns of `x` and `r`, and
#: `y`; `directions` of the columns of tables.
SETS: dict[str, Any] = json.loads(Path(__file__).with_name("sets.json").read_text(encoding="utf-8"))
#: Names of the data sets.
NAMES = tuple(sorted(name for name, about in SETS.items() if "metric" in about))


def load(name: str, variant: str = "default") -> Dataset:
    """Load a benchmark data set.

    The variant "default" has the correct labels, and columns in their raw units (years, dollars,
    counts, 0/1 for a category), which the models standardise themselves. The variant "published"
    reproduces the preprocessing behind the published tables, including its scaling and its errors;
    use it only to compare with those tables. ``datasheets.md``, beside this module, describes the
    source, the columns, the size and the known problems of every data set.

    If the environment variable PYRO_GCM_DATA is set, raw files are read from the folder that it
    names, either as they are or gzipped ("adult/adult.data.gz"). Otherwise they are downloaded once
    from their public source and cached. Their SHA-256 digests are verified at every call, except
    for "loan", whose digests are not known: its loader was written from a description of the files
    and has not been run on them. "loan_psds" is a stand-in with the same columns but other loans.

    :param name: one of ``pyro_gcm.data.NAMES``: "adult", "auto_mpg", "blog", "compas", "diabetes",
        "loan" or "loan_psds".
    :param variant: "default" or "published".
    :returns: a :class:`Dataset` with all rows, training and test.
    :raises ValueError: if the name or the variant is unknown, or a raw file is not as expected.
    :raises FileNotFoundError: if PYRO_GCM_DATA is set and its folder lacks a file.
    :raises OSError: if a download fails.

    Example::

        from pyro_gcm import data

        adult = data.load("adult")
        train, test = adult.split(seed=0)
        x, r, y = adult.x[train], adult.r[train], adult.y[train]
    """
    from pyro_gcm.data.sets import build

    one_of("name", name, NAMES)
    one_of("variant", variant, ["default", "published"])
    return build(name, variant)
