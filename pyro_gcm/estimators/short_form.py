"""A fitted estimator in a few lines of HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

from pyro_gcm.estimators.kinds import kind_of

_ARROWS = {1: "rises with it", -1: "falls with it"}
#: Columns that are listed, at most.
_MOST = 20


def short_form(estimator: Any) -> str:
    """A table of the kind, the columns with directions, the training rows and the loss.

    :param estimator: fitted.
    """
    codes = estimator.encoding_.columns
    names = getattr(estimator, "feature_names_in_", range(len(codes)))
    imposed = [(name, code) for name, code in zip(names, codes, strict=True) if code.sign]
    rows = [("kind", kind_of(estimator))]
    for name, code in imposed[:_MOST]:
        range_ = f", {code.low:g} to {code.high:g} in training" if code.kind == "number" else ""
        rows.append((str(name), f"prediction {_ARROWS[code.sign]}{range_}"))
    if len(imposed) > _MOST:
        rows.append(("further columns with a direction", str(len(imposed) - _MOST)))
    rows.append(("columns without a direction", str(len(codes) - len(imposed))))
    training = estimator.training_
    if "rows" in training:
        rows.append(("training rows", f"{training['rows']:,}"))
    rows.append(("epochs", f"{estimator.n_iter_:,}"))
    if "loss" in training:
        rows.append(("loss a row in the last epoch", f"{training['loss']:.4g}"))
    left = ' style="text-align: left"'
    cells = "".join(
        f"<tr><th{left}>{escape(name)}</th><td{left}>{escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table><caption{left}>{type(estimator).__name__}, fitted</caption>{cells}</table>"
