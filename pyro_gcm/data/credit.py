"""Credit tables with named columns, missing values and directions: HELOC, Taiwan and loans.

The directions were written down from what the columns mean, before any model was fitted to the
tables. Those of HELOC are what the data dictionary of the FICO challenge prescribes, and what the
entry with its recognition award used (Chen et al., 2018, arXiv:1811.12615); those of Taiwan are
about the limit, the arrears and the payments.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pyro_gcm.data.dataset import SETS, check_count

if TYPE_CHECKING:
    import pandas as pd

#: Column -> direction of the risk in it, and why.
HELOC_REASONS, TAIWAN_REASONS = (
    {name: (sign, why) for name, (sign, why) in SETS[table]["directions"].items()}
    for table in ("heloc", "taiwan")
)
HELOC_DIRECTIONS = {name: sign for name, (sign, _) in HELOC_REASONS.items()}
TAIWAN_DIRECTIONS = {name: sign for name, (sign, _) in TAIWAN_REASONS.items()}
#: Directions in which a default of the loans is expected to become more likely.
LOAN_DIRECTIONS: dict[str, int] = SETS["loan_psds"]["directions"]

_CODES = {-7: "condition not met", -8: "no usable record", -9: "no bureau record"}
#: Levels up to these are ordered; those above are "all other".
_LAST_LEVEL = {"MaxDelq2PublicRecLast12M": 7, "MaxDelqEver": 8}

#: Levels that UCI describes; others become missing.
_LEVELS = {
    "SEX": {1: "male", 2: "female"},
    "EDUCATION": {1: "graduate school", 2: "university", 3: "high school", 4: "others"},
    "MARRIAGE": {1: "married", 2: "single", 3: "others"},
}
_MONTHS = ("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6")
_STATUS = {-2: "no consumption", -1: "paid in full"}


def load_heloc(path: str | Path) -> tuple[pd.DataFrame, pd.Series]:
    """Applications for home equity lines of credit, of the FICO challenge of 2018, from a file.

    FICO gives the file to those who ask for it (its Explainable Machine Learning Challenge), so
    that nothing is downloaded here. The codes -7, -8 and -9 are three kinds of missing values: they
    become NaN, and a column in which another one than -9 occurs has a category beside it,
    "<column> missing", that is "given", "condition not met", "no usable record" or "no bureau
    record". A delinquency "all other" has no place in the order of levels, and is missing as well.

    :param path: the CSV file with the names of the challenge, plain or gzipped.
    :returns: 10,459 rows of 23 numbers, counts, months and percentages, and nine categories; and
        whether the applicant was 90 days late within two years ("Bad", or 1, in the file), 0 or 1.
    :raises FileNotFoundError: if there is no such file.
    :raises ValueError: if the file lacks a column or has another number of rows.
    """
    import pandas as pd

    table = pd.read_csv(path)
    about = SETS["heloc"]
    columns = [*about["directions"], *about["free"]]
    lacking = [name for name in ("RiskPerformance", *columns) if name not in table]
    if lacking:
        raise ValueError(f"path must be a file with the columns of HELOC, {path} lacks {lacking}")
    check_count("heloc", "rows", len(table), about["rows"])
    y = table["RiskPerformance"].isin(["Bad", 1]).astype(int)
    numbers = table[[name for name in table if name in columns]].astype("float64")
    kinds = {}
    for name in numbers:
        codes = numbers[name].where(numbers[name] < 0)
        if codes.isin([-7, -8]).any():
            told = codes.map(_CODES).fillna("given")
            kinds[f"{name} missing"] = told.astype("category")
        last = _LAST_LEVEL.get(str(name), np.inf)
        numbers[name] = numbers[name].where(numbers[name].between(0, last))
    return pd.concat([numbers, pd.DataFrame(kinds)], axis="columns"), y


def load_taiwan() -> tuple[pd.DataFrame, pd.Series]:
    """Holders of a credit card in Taiwan in 2005, and whether they defaulted in the next month.

    Source: Yeh, I-C. (2016), Default of Credit Card Clients, UCI Machine Learning Repository 350,
    https://doi.org/10.24432/C55S3H, licence CC BY 4.0; as a CSV file with its names of columns. The
    file is read, or downloaded and cached, as in `load`, and its SHA-256 digest is verified.

    UCI describes -1 as paid duly and 1, 2, ... as months in arrears; -2 and 0 occur as well. Of
    those who are not late, no order can be vouched for. So PAY_0 to PAY_6 are months in arrears,
    0 where there are none, with a category beside each, "PAY_0 status" to "PAY_6 status": "no
    consumption" (-2), "paid in full" (-1), or "balance" (0, and all who are late). Levels that UCI
    does not describe are missing, and so are two ages of this copy.

    :returns: 30,000 rows of LIMIT_BAL, BILL_AMT1 to 6 and PAY_AMT1 to 6 [Taiwan dollars; 1 is the
        latest month], PAY_0 to PAY_6 [months], AGE [years], and the categories SEX, EDUCATION,
        MARRIAGE and the six of the status; and whether the holder defaulted, 0 or 1.
    :raises FileNotFoundError: if PYRO_GCM_DATA is set and its folder lacks the file.
    :raises ValueError: if the file is not as expected.
    :raises OSError: if the download fails.
    """
    from pyro_gcm.data.sets import tables

    table = tables(SETS["taiwan"])[0].drop(columns="ID")
    y = table.pop("default.payment.next.month").astype(int)
    for name, levels in _LEVELS.items():
        table[name] = table[name].map(levels).astype("category")
    for name in _MONTHS:
        status = table[name].map(_STATUS).fillna("balance")
        table[f"{name} status"] = status.astype("category")
        table[name] = table[name].clip(lower=0)
    numbers = table.select_dtypes("number").columns
    return table.astype(dict.fromkeys(numbers, "float64")), y


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
    from pyro_gcm.data.sets import tables

    about = SETS["loan_psds"]
    (loans,) = tables(about)
    loans["emp_length"] = loans["emp_length"].astype("float64").replace(0.0, np.nan)
    categories = dict.fromkeys(["term", "purpose", "home_ownership"], "category")
    return loans[about["free"] + list(LOAN_DIRECTIONS)].astype(categories), loans["outcome"]
