"""Two credit tables with named columns, missing values and directions: HELOC and Taiwan.

The directions were written down from what the columns mean, before any model was fitted to the
tables. Those of HELOC are what the data dictionary of the FICO challenge prescribes, and what the
entry with its recognition award used (Chen et al., 2018, arXiv:1811.12615); those of Taiwan are
about the limit, the arrears and the payments.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pyro_gcm.data.source import RawFile, read_raw

if TYPE_CHECKING:
    import pandas as pd

#: Column of HELOC -> direction of the risk in it, and why.
HELOC_REASONS = {
    "ExternalRiskEstimate": (-1, "a bureau's score, higher for safer borrowers"),
    "MSinceOldestTradeOpen": (-1, "a longer history of credit has shown more"),
    "MSinceMostRecentTradeOpen": (-1, "new credit is a sign of need"),
    "AverageMInFile": (-1, "accounts that were kept for longer have shown more"),
    "NumSatisfactoryTrades": (-1, "accounts that were paid as agreed speak for the borrower"),
    "NumTrades60Ever2DerogPubRec": (1, "so many accounts were 60 days late or worse"),
    "NumTrades90Ever2DerogPubRec": (1, "so many accounts were 90 days late or worse"),
    "PercentTradesNeverDelq": (-1, "accounts that were never late speak for the borrower"),
    "MSinceMostRecentDelq": (-1, "a late payment says less the longer it is past"),
    "MaxDelq2PublicRecLast12M": (-1, "0 is a derogatory comment, 7 never late, in twelve months"),
    "MaxDelqEver": (-1, "2 is a derogatory comment, 8 never late, of the whole history"),
    "NumTradesOpeninLast12M": (1, "accounts opened within a year are a sign of need"),
    "MSinceMostRecentInqexcl7days": (-1, "an application for credit says less the longer ago"),
    "NumInqLast6M": (1, "many applications for credit are a sign of need"),
    "NumInqLast6Mexcl7days": (1, "so are those without the last week, when rates are compared"),
    "NetFractionRevolvingBurden": (1, "revolving debt in percent of the limit leaves less room"),
    "NetFractionInstallBurden": (1, "instalment debt in percent of the loan is yet to be paid"),
    "NumBank2NatlTradesWHighUtilization": (1, "so many cards are near their limit"),
}
#: Columns of HELOC without a direction: more of them is neither safer nor riskier by itself.
_HELOC_FREE = (
    *("NumTotalTrades", "PercentInstallTrades", "NumRevolvingTradesWBalance"),
    *("NumInstallTradesWBalance", "PercentTradesWBalance"),
)
_MONTHS = ("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6")
#: Column of Taiwan -> direction of a default in it, and why.
TAIWAN_REASONS = {
    "LIMIT_BAL": (-1, "the bank granted higher limits to those that it knew to be safer"),
    **dict.fromkeys(_MONTHS, (1, "more months in arrears are closer to a default")),
    **dict.fromkeys(
        (f"PAY_AMT{month}" for month in range(1, 7)),
        (-1, "who paid back more, for the same bills, has the means and leaves less to pay"),
    ),
}
HELOC_DIRECTIONS = {name: sign for name, (sign, _) in HELOC_REASONS.items()}
TAIWAN_DIRECTIONS = {name: sign for name, (sign, _) in TAIWAN_REASONS.items()}

_HELOC_ROWS = 10_459
_CODES = {-7: "condition not met", -8: "no usable record", -9: "no bureau record"}
#: Levels up to these are ordered; those above are "all other".
_LAST_LEVEL = {"MaxDelq2PublicRecLast12M": 7, "MaxDelqEver": 8}

_CLIENTS = RawFile(
    path="credit/taiwan_default.csv",
    sha256="5c69a6b4e167dac42c4b22665330404fe49928a198de44d2d061b800cb65f9b1",
    url=(
        "https://raw.githubusercontent.com/rakibRME/ML-Data-Sets/"
        "f1b09adc70c8d3421bb3cd722a3a68af8f86d1b1/UCI_Credit_Card.csv"
    ),
)
_TAIWAN_ROWS, _DEFAULT = 30_000, "default.payment.next.month"
#: Levels that UCI describes; others become missing.
_LEVELS = {
    "SEX": {1: "male", 2: "female"},
    "EDUCATION": {1: "graduate school", 2: "university", 3: "high school", 4: "others"},
    "MARRIAGE": {1: "married", 2: "single", 3: "others"},
}
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

    from pyro_gcm.data.frames import check_count

    table = pd.read_csv(path)
    columns = [*HELOC_REASONS, *_HELOC_FREE]
    lacking = [name for name in ("RiskPerformance", *columns) if name not in table]
    if lacking:
        raise ValueError(f"path must be a file with the columns of HELOC, {path} lacks {lacking}")
    check_count("heloc", "rows", len(table), _HELOC_ROWS)
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
    import pandas as pd

    from pyro_gcm.data.frames import check_count

    table = pd.read_csv(io.BytesIO(read_raw(_CLIENTS))).drop(columns="ID")
    check_count("taiwan", "rows", len(table), _TAIWAN_ROWS)
    y = table.pop(_DEFAULT).astype(int)
    for name, levels in _LEVELS.items():
        table[name] = table[name].map(levels).astype("category")
    for name in _MONTHS:
        status = table[name].map(_STATUS).fillna("balance")
        table[f"{name} status"] = status.astype("category")
        table[name] = table[name].clip(lower=0)
    numbers = table.select_dtypes("number").columns
    return table.astype(dict.fromkeys(numbers, "float64")), y
