"""Three or more classes, or competing causes, side by side: directions, scores and importance."""

from __future__ import annotations

from pyro_gcm.diagnostics import reliability_curve
from pyro_gcm.estimators.classes import directions_of_classes
from pyro_gcm.report.decisions import auc_interval
from pyro_gcm.report.page import Block, Figures, Paragraph, Section, Table
from pyro_gcm.report.quality import calibration
from pyro_gcm.report.subject import Subject, percent, quoted, shortened
from pyro_gcm.responses.classes import order_of

#: Columns of the table of importance, and classes whose calibration is drawn, at most.
_COLUMNS, _MOST = 15, 4


def alternatives(subject: Subject) -> Section | None:
    """The section on all classes, or causes; None where there is one event."""
    labels, causes = subject.labels, subject.kind == "competing"
    if not causes and (subject.kind != "classifier" or len(labels) < 3):
        return None
    what = "causes" if causes else "classes"
    text = f"Other sections are about {quoted(labels[-1])}; here are all {what}, that one last."
    blocks: list[Block] = [Paragraph(text)]
    if subject.y is not None and not causes:
        blocks += _scores(subject)
    moves = {1: "can only rise", -1: "can only fall", 0: "may do either"}
    given = {str(label): own for label, own in directions_of_classes(subject.estimator).items()}
    signs = {name: [given[label].get(name, 0) for label in labels] for name in subject.X}
    rows = [
        [str(name), *(moves[order_of(own, place)] for place in range(len(labels)))]
        for name, own in signs.items()
        if any(own)
    ]
    title = f"How the {subject.short} of each moves as a column that has a direction rises"
    blocks += [Table(title, ["Column", *labels], rows)] if rows else []
    shown = [
        [str(name), *(f"{100.0 * change:.1f}" for change in own)]
        for name, own in subject.importances[:_COLUMNS].iterrows()
    ]
    title = f"Importance: mean change of each {subject.short}, in points, as a column is shuffled"
    blocks.append(Table(title, ["Column", *labels], shown, range(1, len(labels) + 1)))
    return Section("alternatives", f"All {what} side by side", blocks)


def _scores(subject: Subject) -> list[Block]:
    """Each class against all others: a row of scores, and a calibration curve."""
    heads = ["Class", "Rows", "Observed", "Mean predicted", "AUC (95 %)", "Groups as predicted"]
    rows, curves, shares = [], {}, subject.shares(subject.X)
    for label, p in zip(subject.labels, shares.T, strict=True):
        came = subject.y.astype(str) == label
        curve = reliability_curve(p, came.astype(float), bins=10)
        apart = (curve["observed"] - curve["predicted"]).abs()
        close = int((apart <= 2.0 * curve["standard_error"]).sum())
        auc = "one outcome"
        if 0.0 < came.mean() < 1.0:
            auc = "{:.3f} ({:.3f} to {:.3f})".format(*auc_interval(p, came))
        counts = [f"{came.sum():,}", percent(float(came.mean())), percent(float(p.mean()))]
        rows.append([label, *counts, auc, f"{close} of {len(curve)}"])
        curves[quoted(shortened(label))] = reliability_curve(p, came.astype(float), bins=6)
    title = (
        "Each class against all others. “Groups” are rows with similar predictions; in so "
        "many of them the observed rate is the predicted one, within two standard errors."
    )
    figure = calibration(dict([*curves.items()][-_MOST:]))
    return [Table(title, heads, rows, range(1, len(heads))), Figures([figure])]
