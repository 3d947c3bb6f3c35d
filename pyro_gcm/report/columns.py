"""The columns of a model: their ranges, drift from the training rows, which matter, groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pyro_gcm.plots.axes import AS_IT_IS, PALETTE
from pyro_gcm.report.page import Block, Figures, Paragraph, Section, Table, drawn
from pyro_gcm.report.subject import Subject, amount, counted, listed, percent, quoted, shortened

#: Tenths of a column of numbers, and levels of another one, at most, that a profile counts.
_TENTHS, _LEVELS = np.linspace(0.1, 0.9, 9), 20
#: The smallest share that a population stability index takes, and from where on it is named.
_LEAST, _DRIFT = 1e-4, 0.1
#: Bars of the figure, and groups of a table, at most; parts of a column of numbers.
_BARS, _GROUPS, _PARTS = 15, 30, 4


def profile_of(X: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """How often training rows have which values, for `write_report`, which looks for drift.

    :param X: the training rows.
    :returns: by the name of a column the upper ends of tenths of its numbers ("ends"), or its most
        frequent values as text ("levels"), and the shares of the rows there: of each, of the rest,
        and of missing values.

    >>> profile_of(pd.DataFrame({"job": ["smith", "clerk", "smith", None]}))["job"]
    {'levels': ['smith', 'clerk'], 'shares': [0.5, 0.25, 0.0, 0.25]}
    """
    found = {}
    for name in X:
        column, entry = X[name].dropna(), dict[str, Any]()
        if pd.api.types.is_numeric_dtype(column):
            ends = np.quantile(column.to_numpy(np.float64), _TENTHS) if len(column) else []
            entry["ends"] = np.unique(ends).tolist()
        else:
            entry["levels"] = [*column.astype(str).value_counts().index[:_LEVELS]]
        found[str(name)] = {**entry, "shares": _shares(entry, X[name]).tolist()}
    return found


def _shares(entry: Mapping[str, Any], column: pd.Series[Any]) -> Any:
    given = column.dropna()
    if "ends" in entry:
        count = len(entry["ends"])
        place = np.searchsorted(entry["ends"], pd.to_numeric(given, errors="coerce"))
    else:
        count = len(entry["levels"])
        place = pd.Index(entry["levels"]).get_indexer(given.astype(str))
        place = np.where(place < 0, count, place)
    missing = len(column) - len(given)
    return np.append(np.bincount(place, minlength=count + 1), missing) / max(1, len(column))


def stability_index(entry: Mapping[str, Any], column: pd.Series[Any]) -> float:
    """The population stability index of a column against the profile of the training rows."""
    there = np.maximum(entry["shares"], _LEAST)
    here = np.maximum(_shares(entry, column), _LEAST)
    return float(((here - there) * np.log(here / there)).sum())


def table_of_columns(subject: Subject) -> list[Block]:
    """All columns, those with a direction first, and which of them have drifted."""
    can = "can only" if subject.is_strict else "assumed to"
    codes = list(zip(subject.X.columns, subject.estimator.encoding_.columns, strict=True))
    rows, drifted = [], []
    for name, code in sorted(codes, key=lambda pair: pair[1].sign == 0):
        column, outside = subject.X[name], ""
        if code.kind != "number":
            trained = listed([str(level) for level in code.seen], 6) if code.seen else ""
        else:
            trained = f"{amount(code.low)} to {amount(code.high)}"
            if subject.is_boolean(str(name)) and code.low < code.high:
                trained = "false and true"
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            outside = percent(float(((numbers < code.low) | (numbers > code.high)).mean()))
        direction = {1: f"{can} rise", -1: f"{can} fall", 0: "free"}[code.sign]
        rows.append([str(name), direction, trained, percent(column.isna().mean()), outside])
        if entry := subject.profile.get(str(name)):
            index = stability_index(entry, column)
            rows[-1].append(f"{index:.2f}")
            drifted += [f"{quoted(name)} ({index:.2f})"] if index >= _DRIFT else []
    heads = ["Column", f"The {subject.short}", "In the training rows", "Missing here", "Beyond"]
    title = "Columns of the model. “Beyond” is the share of these rows outside the training range."
    if not subject.profile:
        return [Table(title, heads, rows, (3, 4))]
    text = (
        "Drift is the population stability index of a column, between these rows and the training "
        "rows in tenths of its values: the sum of (new share - old share) x log(new share / old "
        "share). From 0.1 on it is usually looked into, and from 0.25 on the model is doubted; few "
        f"rows give large values by chance. From {_DRIFT} on: {listed(drifted) or 'no column'}."
    )
    return [Table(title, [*heads, "Drift"], rows, (3, 4, 5)), Paragraph(text)]


def importance(subject: Subject) -> Section:
    """The section on which columns matter."""
    found = subject.importance
    bars, value = found[:_BARS][::-1], subject.value

    def draw(ax: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        colors = [PALETTE[0 if name in subject.directions else 4] for name in bars.index]
        scale = 100.0 if subject.is_share else 1.0
        ax.barh(range(len(bars)), scale * bars.to_numpy(), color=colors)
        ax.set_yticks(range(len(bars)), [shortened(name) for name in bars.index], **AS_IT_IS)
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.tick_params("y", labelsize="small")
        unit = " (points)" if subject.is_share else ""
        ax.set_xlabel(f"change of the {subject.short}{unit}")
        ax.grid(False, axis="y")

    shown = ", ".join(f"{name} {value(change)}" for name, change in found[:_BARS].items())
    text = (
        f"By how much the {subject.short} of a row changes on average, up or down, if the values "
        f"of one column are shuffled among {subject.sampled()}. Blue bars are columns with a "
        "direction, orange ones are free. A column that says the same as another one shares its "
        "importance with it."
    )
    rest = f" {counted(len(found) - _BARS, 'column')} more matter less." * (len(found) > _BARS)
    figure = drawn(draw, f"Importance of the columns: {shown}.", f"Most important above.{rest}")
    in_short = f"The columns that matter most are {listed([*map(quoted, found.index)][:3])}."
    blocks: list[Block] = [Paragraph(text), Figures([figure])]
    return Section("importance", "Which columns matter", blocks, in_short)


def groups(subject: Subject) -> Section | None:
    """The section on groups of rows side by side; None if none were asked for."""
    if subject.by is None:
        return None
    from sklearn.metrics import roc_auc_score

    name, labels = subject.by.name, subject.by
    if pd.api.types.is_numeric_dtype(labels) and labels.nunique() > 2 * _PARTS:
        labels = pd.qcut(labels, _PARTS, duplicates="drop")
    labels = labels.astype(object).where(labels.notna(), "missing")
    observed, event, rows = subject.observed, subject.kind == "classifier", []
    heads = ["Group", "Rows", f"Mean {subject.short}"]
    heads += ["Observed"] if observed is not None else []
    heads += [f"At {subject.value(subject.at)} or above"] if subject.is_share else []
    heads += ["AUC"] if observed is not None and event else []
    counts = labels.value_counts()
    for label in counts.index[:_GROUPS]:
        here = (labels == label).to_numpy()
        p = subject.predictions[here]
        row = [amount(label), f"{len(p):,}", subject.value(p.mean())]
        if observed is not None:
            row.append(subject.value(observed[here].mean()))
        if subject.is_share:
            row.append(percent(float((p >= subject.at).mean())))
        if observed is not None and event:
            both = 0.0 < observed[here].mean() < 1.0
            row.append(f"{roc_auc_score(observed[here], p):.3f}" if both else "one outcome")
        rows.append(row)
    text = (
        f"Rows by {quoted(name)}. Differences between groups say nothing about their cause, and in "
        "small groups they are often chance."
    )
    if len(counts) > _GROUPS:
        text += f" {counted(len(counts) - _GROUPS, 'smaller group')} are left out."
    table = Table(f"Groups by {quoted(name)}", heads, rows, range(1, len(heads)))
    return Section("groups", "Groups side by side", [Paragraph(text), table])
