"""Reasons for an answer in words: columns that stand in its way, and values that change it."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from pyro_gcm.estimators.moving import MovingColumn

if TYPE_CHECKING:
    import pandas as pd


def reasons(model: Any, X: Any, probability: float, *, below: bool, count: int) -> pd.DataFrame:
    """The result of `Answers.reasons`.

    :param model: a fitted estimator with strict directions.
    """
    import pandas as pd

    columns = model._columns(X)
    p = model._of_rows(*model.encoding_(columns))
    reached = p < probability if below else p >= probability
    names = [str(n) for n in getattr(model, "feature_names_in_", range(len(columns)))]
    parts = []
    for at in model.encoding_.revenues:
        moving = MovingColumn(model.encoding_, columns, at)
        code = moving.code
        # The end of the training rows at which the prediction comes closest to the answer.
        end = code.low if below == (code.sign > 0) else code.high
        at_end = model._of_rows(*moving.rows(np.full(len(moving), float(end))))
        needed = moving.required([model.model_], probability, below)[0]
        found = {
            "row": np.arange(len(p)),
            "feature": names[at],
            "value": code.values_at(moving.values),
            "prediction": p,
            "gain": np.where(below, p - at_end, at_end - p),
            "required": code.values_at(needed),
            "possible": (code.low <= needed) & (needed <= code.high),
            "end": code.values_at(np.full(len(p), float(end))),
            "at_end": at_end,
            "up": code.sign > 0 if not below else code.sign < 0,
        }
        given = ~np.isnan(moving.values) & ~reached
        parts.append(pd.DataFrame(found)[given & (found["gain"] > 0.0)])
    if not parts:
        raise ValueError("reasons needs a column with a direction in monotonic_cst")
    table = pd.concat(parts).sort_values(["row", "gain"], ascending=[True, False], kind="stable")
    table = table.groupby("row").head(count)
    what = "probability" if model.predicts_probability else "prediction"
    side = f"{'below' if below else 'at least'} {probability:g}"
    table["text"] = [_told(reason, what, side) for reason in table.to_dict("records")]
    kept = ["row", "feature", "value", "prediction", "gain", "required", "possible", "text"]
    return table[kept].reset_index(drop=True)


def _told(reason: dict[str, Any], what: str, side: str) -> str:
    """One reason as a sentence."""
    is_now = f"{reason['feature']} is {_shown(reason['value'])}"
    most = "or more" if reason["up"] else "or less"
    if reason["possible"]:
        needed = _shown(reason["required"])
        return f"{is_now}; with {needed} {most} in its place the {what} would be {side}."
    return (
        f"{is_now}; with {_shown(reason['end'])}, the {'most' if reason['up'] else 'least'} in the "
        f"training rows, the {what} would be {reason['at_end']:.3g} in place of "
        f"{reason['prediction']:.3g}."
    )


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, Real) and not isinstance(value, bool) else str(value)
