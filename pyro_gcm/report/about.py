"""What the model predicts, from which columns, and how it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pyro_gcm.report.page import Block, Paragraph, Section, Table
from pyro_gcm.report.subject import Subject, amount, counted, listed, percent, quoted


def prediction(subject: Subject) -> Section:
    """The section on the prediction, the rows and the columns."""
    rows, fitted = counted(len(subject.X), "row"), subject.estimator.training_.get("rows")
    rows += f" of the file {subject.source}" if subject.source else ""
    text = f"For each row the model predicts the {subject.prediction}. This report looks at {rows}."
    text += f" The model was fitted to {counted(fitted, 'row')}." if fitted else ""
    count = counted(len(subject.directions), "column")
    if not subject.directions:
        imposed = "No direction was imposed on any column: the model is free in all of them."
    elif subject.is_strict:
        imposed = (
            f"Directions were imposed on {count}, and they are strict. If such a column rises and "
            f"nothing else changes, the {subject.short} moves in its direction or stays as it is, "
            "for every row. This holds by the construction of the model and not only on average. "
            "Nothing is promised between a row with a value and the same row without it."
        )
    else:
        imposed = (
            f"Directions were assumed for {count}, and they are not strict: this kind of model "
            f"draws the {subject.short} towards them, but for some rows it may move the other way."
        )
    moves = []
    for sign, verb in ((1, "rise"), (-1, "fall")):
        names = [quoted(name) for name, sign_of in subject.directions.items() if sign_of == sign]
        moves += [f"only {verb} with {listed(names)}"] if names else []
    can = "can" if subject.is_strict else "is assumed to"
    directions = f"It {can} {' and '.join(moves)}." if moves else "No direction was imposed."
    in_short = f"For {rows}, the model predicts the {subject.prediction}. {directions}"
    blocks: list[Block] = [Paragraph(text), Paragraph(imposed), _columns(subject)]
    return Section("prediction", "What the model predicts", blocks, in_short)


def _columns(subject: Subject) -> Table:
    """All columns, those with a direction first."""
    can = "can only" if subject.is_strict else "assumed to"
    codes = list(zip(subject.X.columns, subject.estimator.encoding_.columns, strict=True))
    rows = []
    for name, code in sorted(codes, key=lambda pair: pair[1].sign == 0):
        column, outside = subject.X[name], ""
        if code.kind != "number":
            trained = listed([str(level) for level in code.levels], 6) if code.levels else ""
        else:
            trained = f"{amount(code.low)} to {amount(code.high)}"
            if subject.is_boolean(str(name)) and code.low < code.high:
                trained = "false and true"
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            outside = percent(float(((numbers < code.low) | (numbers > code.high)).mean()))
        direction = {1: f"{can} rise", -1: f"{can} fall", 0: "free"}[code.sign]
        rows.append([str(name), direction, trained, percent(column.isna().mean()), outside])
    heads = ["Column", f"The {subject.short}", "In the training rows", "Missing here", "Beyond"]
    title = "Columns of the model. “Beyond” is the share of these rows outside the training range."
    return Table(title, heads, rows, (3, 4))


def model_card(subject: Subject) -> Section:
    """The section on the model, how it was trained, and with which versions."""
    estimator, saved = subject.estimator, subject.card or {}
    facts = {
        "kind": subject.kind,
        "class": type(estimator).__name__,
        "folder": subject.folder,
        "rows": estimator.training_.get("rows"),
        "epochs": estimator.n_iter_,
        "loss": estimator.training_.get("loss"),
    }
    facts = {name: amount(value) for name, value in facts.items() if value is not None}
    noted = [row for row in _noted(saved.get("metrics", {})) if row[0] not in facts]
    title = "The model; its training rows, passes over them, and loss of a row in the last pass"
    settings = estimator.get_params(deep=False)
    settings = {name: settings[name] for name in sorted({*settings} - {"monotonic_cst", "verbose"})}
    tables = (
        (title, ["What", "Value"], facts.items()),
        ("Noted when it was saved", ["What", "Value"], noted),
        (
            "Settings; None is a value that follows from the table",
            ["Setting", "Value"],
            settings.items(),
        ),
        ("Versions when it was saved", ["Program", "Version"], saved.get("versions", {}).items()),
    )
    texts = ((title, heads, [[*map(str, row)] for row in rows]) for title, heads, rows in tables)
    return Section("card", "Model card", [Table(*table) for table in texts if table[2]])


def _noted(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of all numbers, texts and short lists, at any depth."""
    for key, value in metrics.items():
        values = value if isinstance(value, list) else [value]
        if isinstance(value, Mapping):
            yield from _noted(value)
        elif value is not None and not any(isinstance(v, list | dict) for v in values):
            yield key.replace("_", " "), ", ".join(map(amount, values))
