"""What adds up to a prediction, what stands in the way of another, and what would lead there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from pyro_gcm._utils.validation import number, positive_int, seed_of, share
from pyro_gcm.estimators.answers import Answers
from pyro_gcm.estimators.contributions import EXACT, Game
from pyro_gcm.estimators.moves import Derive, Move, checked_moves, settled_by
from pyro_gcm.estimators.recourse import Question, cheapest_changes

if TYPE_CHECKING:
    import pandas as pd


@dataclass(kw_only=True, repr=False, eq=False)
class Reasons(Answers):
    """A GCM that says why the prediction of a row is not what it is to be, and what would do."""

    def reasons(
        self, X: Any, probability: float, *, below: bool = False, count: int = 3
    ) -> pd.DataFrame:
        """Say in words why the prediction of a row is not what it is to be, and what would do.

        Those of an applicant who was refused because the probability of default is not below 0.2
        are `reasons(X, 0.2, below=True)`. A value that would do is that of `required`, and a
        whole number where all training rows have one: the model promises that any value further on
        does as well, with all other columns as they are, and texts round to that side. It is a
        statement about rows with other values; whether changing the value has that effect is
        another question.

        :param X: a table of n rows.
        :param probability: that the prediction is to reach; for a regressor a mean of y.
        :param below: whether the prediction is to be below it instead.
        :param count: of reasons of a row, at most.
        :returns: a row for each reason, the first of each row of X first: "row" (from 0),
            "feature", "value", "prediction", "gain" (how far the prediction moves towards the
            answer as the column moves to the end of the training rows, by which reasons are
            ordered), "required", "possible" (whether that lies in the training rows) and "text".
            Rows whose prediction is what it is to be have none, and missing values are no reason.

        >>> import pandas as pd
        >>> from pyro_gcm.estimators import GCMClassifier
        >>> X = pd.DataFrame({"debt": [float(value) for value in range(60)]})
        >>> model = GCMClassifier(monotonic_cst={"debt": 1}, epochs=20).fit(X, X["debt"] > 30)
        >>> model.reasons(X[50:51], 0.5, below=True)["feature"].tolist()
        ['debt']
        """
        import pandas as pd

        check = share if self.predicts_probability else number
        count, probability = positive_int("count", count), check("probability", probability)
        p = self._predict(X)
        reached = p < probability if below else p >= probability
        parts = []
        for moving, known in self._every_moving(X):
            code = moving.code
            # The end of the training rows at which the prediction comes closest to the answer.
            end = code.low if below == (code.sign > 0) else code.high
            at_end = self._of_rows(*moving.rows(np.full(len(moving), float(end))))
            goal = np.full((1, len(p)), probability)
            needed, up = moving.required(self.model_, goal, below)[0], (code.sign > 0) != below
            if code.kind == "number" and code.whole:
                needed = np.ceil(needed) if up else np.floor(needed)
            found = {
                **known,
                "prediction": p,
                "gain": np.where(below, p - at_end, at_end - p),
                "required": code.values_at(needed),
                "possible": (code.low <= needed) & (needed <= code.high),
                "end": code.values_at(np.full(len(p), float(end))),
                "at_end": at_end,
                "up": up,
            }
            given = ~np.isnan(moving.values) & ~reached
            parts.append(pd.DataFrame(found)[given & (found["gain"] > 0.0)])
        table = pd.concat(parts).sort_values(
            ["row", "gain"], ascending=[True, False], kind="stable"
        )
        table = table.groupby("row").head(count)
        what = "probability" if self.predicts_probability else "prediction"
        side = f"{'below' if below else 'at least'} {probability:g}"
        table["text"] = [_sentence(reason, what, side) for reason in table.to_dict("records")]
        kept = ["row", "feature", "value", "prediction", "gain", "required", "possible", "text"]
        return table[kept].reset_index(drop=True)

    def contributions(
        self, X: Any, background: Any, *, orders: int | None = None, seed: int = 0
    ) -> pd.DataFrame:
        """How much each column of a row adds to its prediction, beside rows of a background.

        They are Shapley values of the prediction (a probability, or a mean of y): those of a row
        add up to its prediction less the mean one of the background. A column with a direction
        whose value is better than, or as good as, that of every row of the background never lowers
        the prediction. They are statements about the model; whether a column has that effect is
        another question.

        :param X: a table of n rows.
        :param background: a table of rows to compare with, such as 100 training rows, all of which
            are predicted for every set of columns, or every order.
        :param orders: random orders of the columns for each row of the background, 2 or more. By
            default all sets of columns are asked, so that values are exact, where there are at most
            10 columns, and otherwise there are 4.
        :param seed: of the orders.
        :returns: a row for each column of each row of X, those that add or take most first: "row"
            (from 0), "feature", "value", "contribution", and its standard "error" from the choice
            of orders, 0 where values are exact.

        >>> import pandas as pd
        >>> from pyro_gcm.estimators import GCMClassifier
        >>> X = pd.DataFrame({"debt": [value / 1.0 for value in range(60)], "job": 30 * ["a", "b"]})
        >>> model = GCMClassifier(monotonic_cst={"debt": 1}, epochs=20).fit(X, X["debt"] > 30)
        >>> model.contributions(X[59:], X)["feature"].tolist()
        ['debt', 'job']
        """
        import pandas as pd

        count = positive_int("orders", 4 if orders is None else orders, minimum=2)
        generator = np.random.default_rng(seed_of(seed))
        columns, (x, r) = self._columns(X), self._rows(X)
        try:
            others = self._rows(background)
        except ValueError as error:
            raise ValueError(f"background, in place of X: {error}") from None
        exact = orders is None and len(self.encoding_.columns) <= EXACT
        names = getattr(self, "feature_names_in_", range(len(columns)))
        coded = zip(self.encoding_.columns, columns, strict=True)
        values = [
            code.numbers(column) if code.kind == "number" else column.as_labels()
            for code, column in coded
        ]
        parts = []
        for row in range(len(x)):
            own = x[row : row + 1], r[row : row + 1]
            game = Game(self._of_rows, self.encoding_, own, others)
            found = (game.exact(), 0.0) if exact else game.sampled(count, generator)
            known = {"row": row, "feature": names, "value": [value[row] for value in values]}
            table = pd.DataFrame({**known, "contribution": found[0], "error": found[1]})
            parts.append(table.sort_values("contribution", key=abs, ascending=False, kind="stable"))
        return pd.concat(parts, ignore_index=True)

    def recourse(
        self,
        X: Any,
        probability: float,
        movable: Mapping[Any, Move],
        *,
        below: bool = False,
        max_columns: int = 2,
        count: int = 3,
        derive: Derive | None = None,
    ) -> pd.DataFrame:
        """The cheapest change of a few columns with which the prediction is what it is to be.

        Columns take the values that their `Move` leaves, and of all such changes the one that is
        returned first costs least; where none is enough, none of them is. Both are proved by branch
        and bound, to the last bit, as predictions never fall in the direction of a column. They are
        statements about rows with other values; whether changing the values has that effect is
        another question.

        :param X: a table of n rows. A value that is missing stays so.
        :param probability: that the prediction is to reach; for a regressor a mean of y.
        :param movable: the columns that may change, with or without a direction, and how.
        :param below: whether the prediction is to be below it instead.
        :param max_columns: that change together, at most.
        :param count: of changes of a row, at most. Each next one is the cheapest of those that do
            not change all columns of one before it.
        :param derive: where columns go together: a function from the columns of numbers, arrays of
            rows by name, to those with a direction that follow from movable ones, such as
            `lambda c: {"ratio": c["debt"] / c["income"]}`. Each must rise or fall in one movable
            column while the others stay, as sums and ratios do: this is not checked. Movable
            columns still go only where they help by themselves.
        :returns: a row for each change, the cheapest of each row of X first: "row" (from 0),
            "changes", the new values by column, none where no change is enough; "cost", infinite
            there; "prediction", after the change, or where none is enough the nearest that one
            comes; and "text". Rows whose prediction is what it is to be have none.
        :raises ValueError: for a column that is not known, what a `Move` cannot be, and more than
            65,536 choices of columns and of values of those without a direction.

        >>> import pandas as pd
        >>> from pyro_gcm.estimators import GCMClassifier, Move
        >>> X = pd.DataFrame({"debt": [float(value) for value in range(60)]})
        >>> model = GCMClassifier(monotonic_cst={"debt": 1}, epochs=20).fit(X, X["debt"] > 30)
        >>> found = model.recourse(X[50:51], 0.5, {"debt": Move(cost=2.0)}, below=True)
        >>> bool(found["cost"][0] == 2.0 * (50.0 - found["changes"][0]["debt"]))
        True
        """
        import pandas as pd

        check = share if self.predicts_probability else number
        probability, count = check("probability", probability), positive_int("count", count)
        most, columns = positive_int("max_columns", max_columns), self._columns(X)
        names: list[Any] = list(getattr(self, "feature_names_in_", range(len(columns))))
        rows, signs = len(columns[0].is_missing), self.directions_
        moves = checked_moves(movable, self.encoding_, names, signs, rows)
        turns = [-sign if below else sign for sign in signs]
        settled = None if derive is None else settled_by(derive, self.encoding_, names, moves)
        asked = self._of_rows, self.encoding_, moves, turns, probability, below, most, settled
        what = "probability" if self.predicts_probability else "prediction"
        side = f"{'below' if below else 'at least'} {probability:g}"
        found = []
        for row, values, cost, prediction in cheapest_changes(Question(*asked), columns, count):
            parts = []
            for at, value in values.items():
                code, one = self.encoding_.columns[at], columns[at].take(np.array([row]))
                now = code.numbers(one)[0] if code.kind == "number" else one.as_labels()[0]
                more = {1: " or more", -1: " or less", 0: ""}[turns[at]]
                parts.append(f"{names[at]} {_exact(value)}{more} in place of {_shown(now)}")
            text = f"with {' and '.join(parts)} the {what} would be {side}."
            if not parts:
                text = f"no such change is enough: the {what} would be {prediction:.3g} at best."
            new = {names[at]: value for at, value in values.items()}
            found.append((row, new, cost, prediction, text[0].upper() + text[1:]))
        return pd.DataFrame(found, columns=["row", "changes", "cost", "prediction", "text"])


def _sentence(reason: dict[str, Any], what: str, side: str) -> str:
    """One reason as a sentence."""
    is_now = f"{reason['feature']} is {_shown(reason['value'])}"
    most = "or more" if reason["up"] else "or less"
    if reason["possible"]:
        needed = _shown(reason["required"], reason["up"])
        return f"{is_now}; with {needed} {most} in its place the {what} would be {side}."
    return (
        f"{is_now}; with {_shown(reason['end'])}, the {'most' if reason['up'] else 'least'} in the "
        f"training rows, the {what} would be {reason['at_end']:.3g} in place of "
        f"{reason['prediction']:.3g}."
    )


def _shown(value: Any, up: bool | None = None) -> str:
    """A value with six digits, rounded up or down if so asked."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    way = {None: ROUND_HALF_EVEN, True: ROUND_CEILING, False: ROUND_FLOOR}[up]
    return f"{float(Context(6, way).create_decimal_from_float(float(value))):.6g}"


def _exact(value: Any) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, Real) else str(value)
