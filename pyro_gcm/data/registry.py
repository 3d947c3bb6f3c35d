"""The function that loads a data set by its name."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

from pyro_gcm._utils.validation import one_of
from pyro_gcm.data import loaders
from pyro_gcm.data.dataset import Dataset

if TYPE_CHECKING:
    import pandas as pd

#: Names of the data sets: the modules of ``pyro_gcm.data.loaders``.
NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(loaders.__path__)))


def load(name: str, variant: str = "default") -> Dataset:
    """Load a benchmark data set.

    The variant "default" has the correct labels, and columns in their raw units (years, dollars,
    counts, 0/1 for a category), which the models standardise themselves. The variant "published"
    reproduces the preprocessing behind the published tables, including its scaling and its errors;
    use it only to compare with those tables. ``datasheets.md``, beside this module, describes the
    source, the size and the known problems of every data set, and ``pyro_gcm.data.loaders.<name>``
    its columns.

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
    one_of("name", name, NAMES)
    one_of("variant", variant, ["default", "published"])
    return getattr(import_module(f"{loaders.__name__}.{name}"), variant)()


def load_loans() -> tuple[pd.DataFrame, pd.Series]:
    """The loans behind "loan_psds" as a table of the columns in the file, and their outcomes.

    :returns: 45,342 rows of loan_amnt [dollars], term, purpose and home_ownership [categories],
        revol_bal [dollars], open_acc [open credit lines]; annual_inc [dollars], dti [percent],
        payment_inc_ratio [the payments, in percent of the income], revol_util [percent of the
        credit line that is used], grade [1 to 7, the safest], emp_length [1 is under a year, 11 is
        ten years or more; missing in 1,776 rows], delinq_2yrs_zero and pub_rec_zero [1 if there is
        no delinquency in two years, no derogatory public record]; and the outcomes, "default" or
        "paid off", half of the rows each by the selection of the file.

    Columns that the authors of the file computed from others, or from the outcome, are left out.
    """
    from pyro_gcm.data.loaders import loan_psds

    return loan_psds.table()
