"""Questions to a fitted estimator beside its predictions: values, costs and curves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch import Tensor, nn

from pyro_gcm._utils.validation import number, share, warn_user
from pyro_gcm.data.tables import Column
from pyro_gcm.estimators.directions import (
    MovingColumn,
    OfRows,
    first_between,
    index_of,
)
from pyro_gcm.estimators.encoding import ColumnEncoding
from pyro_gcm.estimators.estimator import MonotoneEstimator, in_numpy
from pyro_gcm.estimators.targets import Array
from pyro_gcm.models.build import PriorName

if TYPE_CHECKING:
    import pandas as pd


@dataclass(kw_only=True, repr=False, eq=False)
class Answers(MonotoneEstimator):
    """A GCM, which is strictly monotone, so that it has answers in the units of the columns."""

    prior: Literal["members"] | PriorName | nn.Module = "members"
    members: int = 8
    dropout: float | None = None

    def required(
        self,
        X: Any,
        feature: str | int,
        probability: float,
        *,
        below: bool = False,
        level: float = 0.9,
    ) -> pd.DataFrame:
        """The value of one constrained column at which the prediction reaches a level.

        The value that comes back does what was asked for: with it in place `predict_proba`, or
        `predict` of a regressor, is at least `probability`, or below it with `below=True`. Of all
        values that do, it is the one next to those that do not. Infinite means that no value does,
        if it lies where the prediction comes closer, and otherwise that every value does. A
        category has None where no level does. Booleans and whole numbers are taken as numbers, so
        the value may lie between two of theirs.

        :param X: a table of n rows; what it has in `feature` does not matter.
        :param feature: name or index of the column, whose direction is in `monotonic_cst`.
        :param probability: of the event, in (0, 1); for a regressor a mean of y.
        :param level: of the band, see `predict_bands`; it has no ends where there are no bands.
        :returns: a row for each of X: "required"; "lower" and "upper", the same asked of the
            ends of its band; and "beyond", whether it is beyond the training rows, of which a
            warning tells.
        """
        import pandas as pd

        moving, level = self._moving(X, feature), share("level", level)
        check = share if self.predicts_probability else number
        probability = check("probability", probability)
        code, goals = moving.code, np.full((1, len(moving)), probability)
        if self.rows_behind_ is not None:
            goals = np.concatenate([goals, self._levels(level, probability, moving.x)])
        required, *ends = moving.required(self.model_, goals, below)
        found = {"required": required}
        if ends:
            found |= {"lower": np.minimum(*ends), "upper": np.maximum(*ends)}
        beyond = (found["required"] < code.low) | (found["required"] > code.high)
        if beyond.any():
            low, high = code.values_at(np.array([code.low, code.high]))
            warn_user(
                f"{code.label}: {beyond.sum()} of {len(beyond)} required values are beyond the "
                f"training rows, which go from {low} to {high}"
            )
        found = {name: code.values_at(value) for name, value in found.items()}
        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame({**found, "beyond": beyond}, index=index)

    def explain(self, X: Any, *, above: float | None = None, level: float = 0.9) -> pd.DataFrame:
        """How likely another value of one column would change the outcome, and from which on.

        The model says that the event happens where a latent cost stays below the columns. For one
        column, with all others as they are, that cost is a value of the column: the one from which
        on the event happens. Its distribution given the more probable outcome follows from the
        predictions alone::

            Pr(cost <= t | no event at v) = (p(t) - p(v)) / (1 - p(v)),   t beyond v
            Pr(cost <= t | event at v)    = p(t) / p(v),                  t short of v

        in the order in which p rises. This is what the model says of the same row with another
        value; whether changing the value has that effect is another question.

        :param X: a table of n rows.
        :param above: for a regressor, the number that y has to exceed: that is the event then.
        :param level: of the interval of the cost.
        :returns: a row for each row of X and each constrained column: "row", "feature", "value",
            "probability" of the event and the "outcome" taken as given (the event or not);
            "flip_probability", that another value of this column among the training rows would have
            changed the outcome; "cost", its median in units of the column, and "lower"
            and "upper". They are infinite, or None for a category, where it is beyond the values
            of the training rows.
        """
        import pandas as pd

        level = share("level", level)
        event = self._event_of(above)
        p = event(*self._rows(X))
        happens = p >= 0.5
        parts = []
        for moving, known in self._every_moving(X):
            code, given = moving.code, ~np.isnan(moving.values)
            best, worst = (code.high, code.low)[:: code.sign]
            turned = np.where(happens, worst, best)
            at_turned = event(*moving.rows(turned))
            with np.errstate(invalid="ignore", divide="ignore"):  # in the branch not taken
                flip = np.where(happens, 1.0 - at_turned / p, (at_turned - p) / (1.0 - p))
            found = {**known, "probability": p, "outcome": happens}
            found["flip_probability"] = np.where(given, np.clip(flip, 0.0, 1.0), np.nan)
            tail = 0.5 * (1.0 - level)
            # In the order in which p rises: the quantiles of a column that falls turn round.
            shares = np.array([tail, 0.5, 1.0 - tail])[:: code.sign, None]
            levels = np.where(happens, shares * p, p + shares * (1.0 - p))
            costs = first_between(event, moving, levels.ravel())
            costs = np.where(given, costs.reshape(levels.shape), np.nan)
            if code.kind != "number":
                costs = np.ceil(code.sign * costs) * code.sign
            lower, cost, upper = map(code.values_at, costs)
            parts.append(pd.DataFrame({**found, "cost": cost, "lower": lower, "upper": upper}))
        return pd.concat(parts).sort_values("row", kind="stable", ignore_index=True)

    def _event_of(self, above: float | None) -> OfRows:
        """The probability of the event that is explained, as a function of x and r."""
        if self.predicts_probability:
            if above is not None:
                raise ValueError("above is for regressors; a classifier explains its event")
            return self._of_rows
        if not isinstance(above, Real) or not abs(above) < np.inf:
            raise ValueError(f"above must be the number that y has to exceed, got {above!r}")
        return partial(self._above, float(above))

    def _above(self, value: float, x: Tensor, r: Tensor) -> Array:
        """Pr(y > value) of rows of the model, [n]."""
        return 1.0 - in_numpy(self.model_.predictive(x, r).cdf(np.full(len(x), value)))

    def response_curve(
        self, X: Any, feature: str | int, values: Any = None, *, level: float = 0.9
    ) -> pd.DataFrame:
        """The mean prediction over the rows of X as one column takes other values in all of them.

        This is partial dependence (Friedman 2001), and strict where the column has a direction.

        :param X: a table of n rows.
        :param feature: name or index of the column.
        :param values: of the column, in its units; by default 41 between the 1st and the 99th
            percentile of X, or all levels of a category.
        :param level: of the band, see `predict_bands`.
        :returns: a row for each value, with "prediction", and "lower" and "upper" of its
            bands on average, where there are any.
        """
        import pandas as pd

        columns, level = self._columns(X), share("level", level)
        names = getattr(self, "feature_names_in_", None)
        at = index_of(feature, self.encoding_, names, free=True)
        code, column = self.encoding_.columns[at], columns[at]
        grid = code.positions(_grid(code, column) if values is None else values)
        if grid.ndim != 1 or not len(grid) or np.isnan(grid).any():
            raise ValueError(f"values must be a list of values of {code.label}, got {values!r}")
        if feature in ("prediction", "lower", "upper"):
            raise ValueError(
                f"{code.label} has the name of a column of the result: pass its index as feature"
            )
        means, bands, moved = [], [], [*columns]
        for value in code.values_at(grid):
            moved[at] = code.filled(column, value)
            x, r = self.encoding_(moved)
            p = self._of_rows(x, r)
            means.append(p.mean())
            if self.rows_behind_ is not None:
                bands.append([end.mean() for end in self._ends(p, x, level)])
        found = {str(feature): code.values_at(grid), "prediction": np.array(means)}
        if bands:
            found["lower"], found["upper"] = np.array(bands).T
        return pd.DataFrame(found)

    def _every_moving(self, X: Any) -> Iterator[tuple[MovingColumn, dict[str, Any]]]:
        """Each constrained column, free to move, with the rows, its name and its values."""
        columns = self._columns(X)
        moves = [at for at in self.encoding_.revenues if self.directions_[at]]
        if not moves:
            raise ValueError("X must have a column with a direction in monotonic_cst")
        names = getattr(self, "feature_names_in_", range(len(columns)))
        for at in moves:
            moving = MovingColumn(self.encoding_, columns, at)
            known = {"row": np.arange(len(moving)), "feature": names[at]}
            yield moving, known | {"value": moving.code.values_at(moving.values)}

    def _moving(self, X: Any, feature: str | int) -> MovingColumn:
        """The rows of a table with one of their columns free to move."""
        columns = self._columns(X)
        at = index_of(feature, self.encoding_, getattr(self, "feature_names_in_", None))
        return MovingColumn(self.encoding_, columns, at)


def _grid(code: ColumnEncoding, column: Column) -> Any:
    """Values for a curve: all levels, or those between the outer percentiles."""
    if code.kind != "number":
        return code.seen
    values = code.numbers(column)
    given = values[~np.isnan(values)]
    low, high = np.quantile(given, [0.01, 0.99]) if len(given) else [code.loc] * 2
    return np.unique(np.linspace(float(low), float(high), 41))
