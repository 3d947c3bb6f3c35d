"""The subject of a report: an estimator, rows, their outcomes, and how sentences name them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyro_gcm.audit import MonotonicityAudit, audit_table
from pyro_gcm.estimators.answers import Answers
from pyro_gcm.estimators.kinds import kind_of, monotone_prediction, scores
from pyro_gcm.estimators.targets import places_of

Array = npt.NDArray[np.float64]


@dataclass
class Subject:
    """An estimator and rows, with their names in the report.

    :param X: a pandas DataFrame with the columns of the estimator, in their order.
    :param y: the outcomes as `estimators.kinds.outcomes_of` returns them, or None.
    :param target: name of the column that is predicted; `event`: what happens, of a survival model.
    :param source, folder: of the rows and of the model; `card`: its card.
    :param pairs: of the audit, at most.
    :param level: of the bands.
    :param threshold: the prediction that decides, or None.
    :param by: a label for each row, whose groups stand side by side, or None.
    :param profile: of the training rows, see `report.columns.profile_of`.
    :param exposure: of counts, [n], where they have a column of them.
    :param held_out: whether these rows are known to have been held out of the training.
    """

    estimator: Any
    X: pd.DataFrame
    y: Any = None
    target: str = "y"
    event: str = "the event"
    source: str | None = None
    folder: str | None = None
    card: Mapping[str, Any] | None = None
    pairs: int = 20_000
    level: float = 0.9
    seed: int = 0
    threshold: float | None = None
    by: pd.Series[Any] | None = None
    profile: Mapping[str, Any] = field(default_factory=dict)
    held_out: bool = False
    exposure: Array | None = None

    # The model and the rows

    @cached_property
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
        pairs = zip(self.X.columns, self.estimator.directions_, strict=True)
        return {str(name): sign for name, sign in pairs if sign}

    @property
    def lacks(self) -> str:
        """Why there is no strict direction, in words; empty if there is one."""
        if not self.directions:
            return "No column has a direction"
        kind = type(self.estimator).__name__
        return "" if self.is_strict else f"{kind} has no strict directions"

    @cached_property
    def predictions(self) -> Array:
        """The monotone prediction of each row, [n]."""
        return monotone_prediction(self.estimator, self.X)

    @property
    def average(self) -> float:
        """The mean prediction."""
        return float(self.predictions.mean())

    @property
    def at(self) -> float:
        """The prediction against which rows are explained: the one that decides, or the average."""
        if self.threshold is not None:
            return self.threshold
        # `required` asks for a share that is neither 0 nor 1.
        return min(max(self.average, 1e-9), 1.0 - 1e-9) if self.is_share else self.average

    @cached_property
    def observed(self) -> Array | None:
        """What a prediction is the mean of, [n], float64; None without outcomes, and of times."""
        if self.y is None or self.kind in ("survival", "competing"):
            return None
        if self.kind == "classifier":
            return np.asarray(
                self.y == self.estimator.classes_[self.estimator.event_column_], float
            )
        if self.kind == "ordinal":
            return places_of(self.y, self.estimator.classes_).astype(float)
        if self.kind == "count":
            return np.asarray(self.y, np.float64) / self.exposures
        return np.asarray(self.y, np.float64)

    def shares(self, X: pd.DataFrame) -> Array:
        """The prediction, after those of other classes or causes by `labels` if there are any."""
        if self.kind == "competing":
            every = self.estimator.predict_cumulative_incidence(X, [self.horizon])[:, 0]
            return np.roll(every, -1, 1)
        if self.kind == "classifier" and len(self.labels) > 2:
            event, every = self.estimator.event_column_, self.estimator.predict_proba(X)
            return np.column_stack([np.delete(every, event, 1), every[:, event]])
        return monotone_prediction(self.estimator, X)[:, None]

    @cached_property
    def importances(self) -> pd.DataFrame:
        """Mean absolute changes of `shares` as a column is shuffled, by name, from the top."""
        from sklearn.inspection import permutation_importance

        X = self.X.iloc[self.sample()]

        def minus_change(estimator: Any, moved: pd.DataFrame, p: Array) -> dict[str, float]:
            changes = np.abs(self.shares(moved) - p).mean(0)
            return {str(place): -float(change) for place, change in enumerate(changes)}

        options: Any = {"scoring": minus_change, "n_repeats": 2, "random_state": self.seed}
        found = permutation_importance(self.estimator, X, self.shares(X), **options)
        columns = {place: own.importances_mean for place, own in found.items()}
        table = pd.DataFrame(columns, pd.Index([str(name) for name in X]))
        return table.sort_values(table.columns[-1], ascending=False, kind="stable")

    @property
    def importance(self) -> pd.Series[float]:
        """That of the prediction."""
        return self.importances.iloc[:, -1]

    @cached_property
    def typical(self) -> dict[str, Any]:
        """The middle number, or the most frequent value, of each column that has any, by name."""
        found: dict[str, Any] = {}
        for name in map(str, self.X):
            values = self.X[name].dropna()
            if len(values):
                is_number = pd.api.types.is_numeric_dtype(values) and values.dtype != bool
                found[name] = values.median() if is_number else values.mode().iloc[0]
        return found

    @cached_property
    def scores(self) -> dict[str, float]:
        """The scores on these rows, by name; none without outcomes."""
        X = self.X
        if self.exposure is not None:
            X = X.assign(**{self.estimator.exposure: self.exposure})
        return {} if self.y is None else scores(self.estimator, X, self.y)

    @property
    def exposures(self) -> Array:
        """The exposures of counts, [n]."""
        return np.ones(len(self.X)) if self.exposure is None else self.exposure

    @cached_property
    def audit(self) -> MonotonicityAudit | None:
        """The audit, or None where no constrained column has two values."""
        X = self.estimator.as_read(self.X)
        if not any(X[name].nunique() > 1 for name in self.directions):
            return None

        def predict(table: object) -> object:
            return monotone_prediction(self.estimator, table)

        options: Any = {"searches": ["random", "grid"], "seed": self.seed, "progress": False}
        return audit_table(predict, X, self.directions, pairs=self.pairs, **options)

    @property
    def band(self) -> str:
        """The name of a band; empty if there are no bands."""
        rows = self.estimator.rows_behind_
        return "" if rows is None else f"{percent(self.level)} band, of {rows:.0f} rows"

    def place(self, name: str) -> int:
        """The index of a column."""
        return [str(column) for column in self.X].index(name)

    def is_boolean(self, name: str) -> bool:
        """Whether a column has only true, false and gaps."""
        from pandas.api.types import infer_dtype

        return infer_dtype(self.X.iloc[:, self.place(name)], skipna=True) == "boolean"

    def sample(self, most: int = 1_000) -> npt.NDArray[np.intp]:
        """Positions of all rows, or of so many that are drawn at random."""
        if len(self.X) <= most:
            return np.arange(len(self.X))
        return np.sort(np.random.default_rng(self.seed).permutation(len(self.X))[:most])

    def sampled(self, most: int = 1_000) -> str:
        """Return the phrase for the rows of `sample`."""
        if len(self.X) <= most:
            return counted(len(self.X), "row")
        return f"{counted(most, 'row')} that were drawn at random from all"

    # Their names

    @cached_property
    def labels(self) -> list[str]:
        """The levels, classes or causes, that of the prediction last, as text."""
        if self.kind == "competing":
            return [*self.estimator.causes_[1:], self.estimator.causes_[0]]
        names = [str(label) for label in getattr(self.estimator, "classes_", ())]
        event = getattr(self.estimator, "event_column_", None)
        return names if event is None else [*names[:event], *names[event + 1 :], names[event]]

    @property
    def is_share(self) -> bool:
        """Whether predictions are probabilities."""
        return self.kind in ("classifier", "survival", "competing")

    @property
    def horizon(self) -> float:
        """The time of the risk of a survival model, or of incidences."""
        response = self.estimator.model_.response
        parts = response.parts if self.kind == "competing" else [response]
        return float(getattr(parts[0], "reference", math.nan))

    def happening(self, happens: bool = True) -> str:
        """The event of a prediction that is a probability, or its opposite."""
        if self.kind in ("survival", "competing"):
            one = [quoted(self.labels[-1]), "first"] if self.labels else [self.event]
            one.insert(1, "comes" if happens else "does not come")
            return f"{' '.join(one)} by {quoted(self.target)} = {amount(self.horizon)}"
        if not happens and len(self.labels) > 2:
            return f"{quoted(self.target)} is not {quoted(self.labels[-1])}"
        return f"{quoted(self.target)} is {quoted(self.labels[-1 if happens else 0])}"

    @property
    def prediction(self) -> str:
        """The name of a prediction, in full."""
        if self.is_share:
            return f"probability that {self.happening()}"
        if self.kind == "ordinal":
            ends = f"0 is {quoted(self.labels[0])} and {len(self.labels) - 1} is "
            return f"mean place of {quoted(self.target)}, where {ends}{quoted(self.labels[-1])}"
        if self.kind == "count":
            named = self.estimator.exposure
            unit = "exposure" if named is None else quoted(named)
            return f"rate of {quoted(self.target)}, the mean number in one unit of {unit}"
        return f"mean of {quoted(self.target)}"

    @property
    def short(self) -> str:
        """The name of a prediction, in a word or two."""
        names = {
            "classifier": "probability",
            "survival": "risk",
            "competing": "incidence",
            "ordinal": "mean place",
            "count": "rate",
        }
        return names.get(self.kind, "mean")

    @property
    def on_axis(self) -> str:
        """The name of a prediction, on the axis of a figure."""
        if self.kind == "survival":
            return f"risk by {amount(self.horizon)}"
        if self.kind == "competing":
            return f"incidence of {shortened(self.labels[-1])} by {amount(self.horizon)}"
        predicted = quoted(shortened(self.labels[-1])) if self.is_share else shortened(self.target)
        return f"{self.short} of {predicted}"

    def value(self, prediction: float) -> str:
        """A prediction with its unit."""
        return percent(prediction) if self.is_share else amount(prediction)


def amount(value: Any) -> str:
    """A value of a column: a number with at most four digits that count, or a level as it is."""
    if pd.isna(value):
        return "missing"
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if not hasattr(value, "__float__"):
        return str(value)
    number = float(value)
    if not math.isfinite(number):
        return "infinite"
    whole = number == round(number) or abs(number) >= 1e4
    return f"{number:,.0f}" if whole and abs(number) < 1e15 else f"{number:,.4g}"


def percent(share: float) -> str:
    """A share in percent with one decimal, none of which is 0 or 100 % that is not just that."""
    value = 100.0 * share
    if share not in (0.0, 1.0) and not 0.05 <= value < 99.95:
        return "below 0.1\u00a0%" if value < 0.05 else "above 99.9\u00a0%"
    return f"{value:.1f}".removesuffix(".0") + "\u00a0%"


def counted(number: int, name: str) -> str:
    """A number with its noun, such as "1 row" or "2,000 rows"."""
    return f"{number:,} {name}" + ("" if number == 1 else "s")


def listed(texts: Sequence[str], most: int = 8) -> str:
    """Texts in a sentence, the first ones where there are many."""
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most} more"
    return "".join(texts) if len(texts) < 2 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def quoted(name: object) -> str:
    """A name of a column or a level in quotation marks."""
    return f"“{name}”"


def shortened(name: str, most: int = 24) -> str:
    """The beginning of a name, where a figure has no room for all of it."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
