"""The section on predictions, and on the columns in which a direction was imposed."""

from __future__ import annotations

import numpy as np

from pyro_gcm.report.content import Block, Paragraph, Section, Table
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import amount, counted, listed, percent, quoted

_STRICT = {1: "can only rise", -1: "can only fall", 0: "free"}
_ASSUMED = {1: "assumed to rise", -1: "assumed to fall", 0: "free"}


def directions(subject: Subject) -> Section:
    """The section on the prediction and on the columns."""
    words, imposed = subject.words, subject.directions
    blocks: list[Block] = [Paragraph(f"For each row the model predicts the {words.prediction}.")]
    if subject.kind in ("regressor", "distribution"):
        blocks.append(Paragraph("Behind the mean is a whole distribution of values, see below."))
    if not imposed:
        told = "No direction was imposed on any column: the model is free in all of them."
    elif subject.is_strict:
        told = (
            f"Directions were imposed on {counted(len(imposed), 'column')}, and they are strict. "
            f"If such a column rises and nothing else changes, the {words.short} moves in its "
            "direction or stays as it is, for every row. This holds by the construction of the "
            "model and not only on average. Nothing is promised between a row with a value and "
            "the same row without it."
        )
    else:
        told = (
            f"Directions were assumed for {counted(len(imposed), 'column')}, and they are not "
            f"strict: this kind of model draws the {words.short} towards them, but for some rows "
            "it may move the other way."
        )
    blocks += [Paragraph(told), _columns(subject)]
    in_short = f"It predicts the {words.prediction}. {_in_short(subject)}"
    return Section("prediction", "What the model predicts", blocks, in_short)


def _in_short(subject: Subject) -> str:
    parts = []
    for sign, verb in ((1, "rise"), (-1, "fall")):
        names = [quoted(name) for name, its in subject.directions.items() if its == sign]
        if names:
            parts.append(f"only {verb} with {listed(names)}")
    if not parts:
        return "No direction was imposed."
    can = "can" if subject.is_strict else "is assumed to"
    return f"It {can} {' and '.join(parts)}."


def _columns(subject: Subject) -> Table:
    """All columns, those with a direction first."""
    verbs, rows = _STRICT if subject.is_strict else _ASSUMED, []
    codes = list(zip(subject.X.columns, subject.estimator.encoding_.columns, strict=True))
    for name, code in sorted(codes, key=lambda pair: pair[1].sign == 0):
        column, outside = subject.X[name], 0.0
        if subject.is_boolean(str(name)) and code.low < code.high:
            trained = "false and true"
        elif code.kind == "number" and code.low < code.high:
            trained = f"{amount(code.low)} to {amount(code.high)}"
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            outside = float(((numbers < code.low) | (numbers > code.high)).mean())
        elif code.kind == "number":
            trained = amount(code.low)
        else:
            trained = listed([str(level) for level in code.levels], 6) if code.levels else ""
        missing = float(column.isna().mean())
        shown = [percent(share) if share else "none" for share in (missing, outside)]
        if code.kind != "number":
            shown[1] = ""
        rows.append([str(name), verbs[code.sign], trained, *shown])
    heads = ["Column", f"The {subject.words.short}", "In the training rows", "Missing here"]
    title = "Columns of the model. “Beyond” is the share of these rows outside the training range."
    return Table(title, [*heads, "Beyond"], rows, (3, 4))
