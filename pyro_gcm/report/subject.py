"""The subject of a report: a fitted estimator, rows of a table, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pyro_gcm.estimators.answers import Answers
from pyro_gcm.estimators.kinds import kind_of, monotone_prediction
from pyro_gcm.report.wording import Words, counted

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]


@dataclass
class Subject:
    """An estimator and rows, with their names in the report.

    :param X: a pandas DataFrame with the columns of the estimator, in their order.
    :param y: the outcomes as `estimators.kinds.outcomes_of` returns them, or None.
    :param level: share of the members or bootstrap models in a band, at least.
    """

    estimator: Any
    X: pd.DataFrame
    y: Any
    words: Words
    level: float
    seed: int

    @property
    def kind(self) -> str:
        """The kind of the estimator."""
        return kind_of(self.estimator.response)

    @property
    def is_strict(self) -> bool:
        """Whether predictions cannot move against a direction."""
        return isinstance(self.estimator, Answers)

    @cached_property
    def directions(self) -> dict[str, int]:
        """+1 or -1 of each constrained column, by name."""
        codes = zip(self.X.columns, self.estimator.encoding_.columns, strict=True)
        return {str(name): code.sign for name, code in codes if code.sign}

    @cached_property
    def predictions(self) -> Array:
        """The monotone prediction of each row, [n]."""
        return monotone_prediction(self.estimator, self.X)

    @property
    def average(self) -> float:
        """The mean prediction."""
        return float(self.predictions.mean())

    @property
    def band_of(self) -> str:
        """The models behind the bands, in words; empty if there are no bands."""
        if self.estimator.bootstrap_models_:
            return f"{len(self.estimator.bootstrap_models_)} bootstrap models"
        count = self.estimator.model_.members
        return f"{count} members" if count else ""

    def is_boolean(self, name: str) -> bool:
        """Whether a column has only true, false and gaps."""
        from pandas.api.types import infer_dtype

        place = list(map(str, self.X.columns)).index(name)
        return infer_dtype(self.X.iloc[:, place], skipna=True) == "boolean"

    def named(self, most: int) -> str:
        """Return the phrase for the rows of `some`."""
        if len(self.X) <= most:
            return counted(len(self.X), "row")
        return f"{counted(most, 'row')} that were drawn at random from all"

    def sample(self, most: int) -> npt.NDArray[np.intp]:
        """Positions of all rows, or of so many that are drawn at random."""
        if len(self.X) <= most:
            return np.arange(len(self.X))
        return np.sort(np.random.default_rng(self.seed).permutation(len(self.X))[:most])
