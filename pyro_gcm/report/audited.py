"""The audit: a search for predictions that move against a direction."""

from __future__ import annotations

from pyro_gcm.audit import MonotonicityAudit, audit_table
from pyro_gcm.estimators.kinds import monotone_prediction
from pyro_gcm.plots import plot_audit
from pyro_gcm.report.content import Block, Figure, Figures, Paragraph, Section, Table
from pyro_gcm.report.figures import as_uri, own_style
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import amount, counted, listed, percent, quoted

_SEARCHES = {
    "random": "random steps in all of these columns at once",
    "grid": "one column at a time, between neighbouring values",
}


def audit_of(subject: Subject, pairs: int) -> MonotonicityAudit | None:
    """The audit, or None where no constrained column has two values."""
    X = subject.estimator.as_read(subject.X)
    if not any(X[name].nunique() > 1 for name in subject.directions):
        return None

    def predict(table: object) -> object:
        return monotone_prediction(subject.estimator, table)

    options = {"pairs": pairs, "searches": [*_SEARCHES], "seed": subject.seed, "progress": False}
    return audit_table(predict, X, subject.directions, **options)


def audited(subject: Subject, audit: MonotonicityAudit | None) -> Section:
    """The section on the audit."""
    title, short = "Do predictions keep their directions?", subject.words.short
    if audit is None:
        text = (
            "No column has a direction, so there is nothing to search for."
            if not subject.directions
            else "No column with a direction has two different values in these rows, so there is "
            "nothing to search for."
        )
        return Section("audit", title, [Paragraph(text, "note")])
    pairs, names = f"{audit.pairs:,}", [quoted(name) for name in subject.directions]
    searched = (
        f"The audit compares pairs: a row of the data, and the same row with other values of "
        f"{listed(names)}, inside the range of these rows. A {short} that moves against its "
        f"direction by more than {audit.tolerance:.2g} is a violation; less counts as rounding of "
        "the computer. The command “audit” searches longer, and around the worst pairs."
    )
    violations = "no violations" if audit.passed else counted(audit.violations, "violation")
    if audit.passed:
        verdict = f"Passed. No violation was found in {pairs} pairs."
        if subject.is_strict:
            verdict += " The model is strict by construction; the search found nothing against it."
        else:
            verdict += " This does not prove that there is none: the model is not strict."
    else:
        verdict = (
            f"Not passed. {pairs} pairs have {violations} ({percent(audit.rate)}); in the worst "
            f"one the {short} moves the wrong way by {subject.words.value(audit.largest_drop)}."
        )
    blocks: list[Block] = [Paragraph(verdict, "good" if audit.passed else "bad")]
    blocks += [Paragraph(searched), _searches(audit)]
    if not audit.passed:
        blocks += [_columns(audit), Figures([_figure(audit, subject)])]
    in_short = f"The audit found {violations} of the directions in {pairs} pairs of rows."
    return Section("audit", title, blocks, in_short)


def _searches(audit: MonotonicityAudit) -> Table:
    rows = [
        [
            _SEARCHES[found["search"]],
            *(f"{found[name]:,}" for name in ("pairs", "violations", "rounding", "ties")),
            f"{found['largest_drop']:.2g}",
        ]
        for found in audit.frame.to_dict("records")
    ]
    heads = ["Search", "Pairs", "Violations", "Rounding", "No change", "Largest wrong move"]
    return Table("What was searched", heads, rows, (1, 2, 3, 4, 5))


def _columns(audit: MonotonicityAudit) -> Table:
    rows = [
        [str(found["column"]), f"{found['pairs']:,}", f"{found['violations_alone']:,}"]
        for found in audit.by_column.to_dict("records")
    ]
    heads = ["Column", "Pairs in which it moves", "Violations in which it moves alone"]
    return Table("Violations by column", heads, rows, (1, 2))


def _figure(audit: MonotonicityAudit, subject: Subject) -> Figure:
    import matplotlib.pyplot as plt

    with own_style():
        figure = plot_audit(audit, outcome_name=subject.words.on_axis)
        try:
            source = as_uri(figure)
        finally:
            plt.close(figure)
    caption = (
        "Left: how large the wrong moves are, for each search. Right: the prediction along the "
        "worst pair, which should not fall."
    )
    alt = f"Histograms of wrong moves; the largest is {amount(audit.largest_drop)}."
    return Figure(source, alt, caption)
