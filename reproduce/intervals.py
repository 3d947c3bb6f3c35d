"""Means, paired differences and their 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

#: Test rows for each training row of a random 4:1 split.
TEST_TO_TRAIN = 0.25
#: Level of all tests.
LEVEL = 0.05
#: What pairs two fits: the split and the seed.
PAIR = ["split", "seed"]


@dataclass(frozen=True)
class Interval:
    """A mean with half the width of its 95 % interval.

    :param half: NaN with fewer than two fits.
    :param count: fits that ended in a number.
    :param diverged: fits that did not; the mean leaves them out.
    """

    mean: float
    half: float
    count: int
    diverged: int = 0

    def excludes(self, value: float) -> bool:
        """Whether there is an interval and `value` lies outside it."""
        return abs(self.mean - value) > self.half

    @property
    def p_value(self) -> float:
        """Of Student's two-sided test that the mean is 0; NaN without an interval."""
        if self.half == 0.0:
            return float(self.mean == 0.0)
        freedom = self.count - 1
        size = abs(self.mean) / self.half * stats.t.ppf(0.975, freedom)
        return float(2.0 * stats.t.sf(size, freedom))


def samples(table: pd.DataFrame, by: list[str]) -> dict[Any, pd.Series]:
    """The values of every group of rows, named by split and seed; NaN where a fit diverged.

    :raises ValueError: if a group has two values for one split and seed.
    """
    twice = table.loc[table.duplicated([*by, *PAIR]), by]
    if len(twice):
        name = ", ".join(map(str, twice.iloc[0]))
        message = f"{name} has two values for one split and seed, expected one (of --quick?)"
        raise ValueError(message)
    values = table.set_index(PAIR)["value"].astype(float)
    keys = [table[column].to_numpy() for column in by]
    return dict(iter(values.groupby(keys, sort=False)))


def mean_interval(values: pd.Series, test_to_train: float = 0.0) -> Interval:
    """Mean and Student's t interval of fits.

    :param test_to_train: 0 for independent fits; the ratio of test to training rows where the
        fits are of random splits of one data set, whose test parts overlap: the variance is then
        multiplied by 1/n + ratio in place of 1/n (Nadeau and Bengio 2003, section 3).
    """
    every = values.to_numpy()
    finite = every[np.isfinite(every)]
    count, diverged = len(finite), len(values) - len(finite)
    mean = float(finite.mean()) if count else math.nan
    if count < 2:
        return Interval(mean, math.nan, count, diverged)
    scale = math.sqrt(finite.var(ddof=1) * (1 / count + test_to_train))
    return Interval(mean, float(stats.t.ppf(0.975, count - 1)) * scale, count, diverged)


def mean_intervals(values: Mapping[Any, pd.Series]) -> dict[Any, Interval]:
    """Mean and plain interval of every group."""
    return {key: mean_interval(each) for key, each in values.items()}


def bare_means(values: Mapping[Any, pd.Series]) -> dict[Any, Interval]:
    """Means that are shown without their intervals."""
    return {key: replace(cell, half=math.nan) for key, cell in mean_intervals(values).items()}


def paired_interval(first: pd.Series, second: pd.Series, test_to_train: float = 0.0) -> Interval:
    """First minus second over the splits and seeds that both have; see `mean_interval`."""
    shared = first.index.intersection(second.index)
    return mean_interval(first.loc[shared] - second.loc[shared], test_to_train)


def holm(p_values: Mapping[Any, float]) -> dict[Any, float]:
    """Holm's adjusted p-values of a family of tests; a NaN is no member of it (Holm 1979)."""
    found = {name: value for name, value in p_values.items() if not math.isnan(value)}
    order = sorted(found, key=found.__getitem__)
    raw = [left * found[name] for left, name in zip(range(len(order), 0, -1), order, strict=True)]
    adjusted = np.maximum.accumulate(raw).clip(max=1.0)
    return {**p_values, **dict(zip(order, adjusted, strict=True))}


def gaps(
    first: Mapping[Any, pd.Series],
    second: Mapping[Any, pd.Series],
    lower: Collection[str] = (),
    test_to_train: float = TEST_TO_TRAIN,
) -> dict[Any, Interval]:
    """First minus second of every key that both have, paired; positive where the first is better.

    :param lower: parts of keys, as metrics or data sets, of which a lower value is better.
    """
    signs = {key: -1.0 if any(part in lower for part in key) else 1.0 for key in first}
    return {
        key: paired_interval(sign * first[key], sign * second[key], test_to_train)
        for key, sign in signs.items()
        if key in second
    }


def stars(
    differences: Mapping[Any, Interval], family: Callable[[Any], Any] | None = None
) -> dict[Any, str]:
    """An asterisk where a difference is not 0.

    :param family: of a key, within which Holm's correction is; by its own interval if None.
    """
    if family is None:
        return {key: "*" if gap.excludes(0.0) else "" for key, gap in differences.items()}
    families: dict[Any, dict[Any, float]] = {}
    for key, gap in differences.items():
        families.setdefault(family(key), {})[key] = gap.p_value
    adjusted = {key: p for each in families.values() for key, p in holm(each).items()}
    return {key: "*" if adjusted[key] < LEVEL else "" for key in differences}


def meet(first: Interval, second: Interval) -> bool | None:
    """Whether two intervals share a point; None where one of them is lacking."""
    reach = first.half + second.half
    if math.isnan(reach):
        return None
    return abs(first.mean - second.mean) <= reach


def to_the_best(
    values: Mapping[str, pd.Series], lower_is_better: bool, test_to_train: float = 0.0
) -> tuple[dict[str, Interval], dict[str, Interval]]:
    """Means of methods over the splits and seeds that all have, and how far others are behind.

    A method whose fits all diverged is not the best, and takes no split from the others.

    :returns: by method the mean, and the paired difference to the best, positive where worse.
    """
    sign = 1.0 if lower_is_better else -1.0
    finite = [each.index[np.isfinite(each)] for each in values.values()]
    shared = reduce(pd.Index.intersection, [index for index in finite if len(index)] or finite)
    scores = {}
    for method, series in values.items():
        score = mean_interval(series.loc[series.index.intersection(shared)])
        scores[method] = replace(score, diverged=int((~np.isfinite(series)).sum()))
    best = min(scores, key=lambda method: (scores[method].count == 0, sign * scores[method].mean))
    return scores, {
        method: paired_interval(sign * series, sign * values[best], test_to_train)
        for method, series in values.items()
        if method != best
    }
