"""Two public data sets that nothing in this project was chosen on; statsmodels brings them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import pandas as pd
import torch

from pyro_gcm import data
from pyro_gcm.data.frames import check_count, from_frames, one_hot


@dataclass(frozen=True)
class Untouched:
    """A data set of the untouched check.

    :param directions: a column of r -> why y increases in it. They were written down from what the
        columns mean, before any score or correlation was computed. All other columns are in x.
    """

    title: str
    read: Callable[[], data.Dataset]
    directions: dict[str, str]


def _fair() -> data.Dataset:
    """6,366 married women in a survey of 1974: whether a woman had an affair (Fair, 1978)."""
    from statsmodels.datasets import fair

    table = fair.load_pandas().data
    check_count("fair", "rows", len(table), 6_366)
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
    check_count("randhie", "rows", len(table), 20_190)
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


UNTOUCHED = {
    "fair": Untouched(
        "Affairs",
        _fair,
        {
            "-rate_marriage": "a happier marriage (rated 1 to 5) leaves less reason for an affair",
            "-religious": "religions forbid affairs: more so for the more religious (1 to 4)",
            "yrs_married": "a longer marriage has had more time for an affair",
        },
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
    ),
}


@lru_cache(maxsize=2)
def load(name: str, shuffled: int | None = None) -> data.Dataset:
    """A data set, read once for several fits of a process.

    :param shuffled: so many random rows in place of all, with the outcomes of other random rows:
        then no score says anything about the data.
    """
    dataset = UNTOUCHED[name].read()
    if shuffled is None:
        return dataset
    generator = torch.Generator().manual_seed(0)
    rows, others = (torch.randperm(len(dataset), generator=generator) for _ in range(2))
    return replace(dataset.subset(rows[:shuffled]), y=dataset.y[others[:shuffled]])
