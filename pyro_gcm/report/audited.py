"""The audit: a search for predictions that move against a direction."""

from __future__ import annotations

from pyro_gcm.plots.audit import draw_worst_pair
from pyro_gcm.report.page import Block, Figures, Paragraph, Section, Table, drawn
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.texts import counted, listed, percent, quoted


def audited(subject: Subject) -> Section:
    """The section on the audit."""
    title, audit = "Do predictions keep their directions?", subject.audit
    if audit is None:
        text = "No column with a direction has two different values in these rows, so there is "
        if not subject.directions:
            text = "No column has a direction, so there is "
        return Section("audit", title, [Paragraph(f"{text}nothing to search for.", "note")])
    pairs, names = f"{audit.pairs:,}", [quoted(name) for name in subject.directions]
    if audit.passed:
        verdict = f"Passed. No violation was found in {pairs} pairs."
        if not subject.is_strict:
            verdict += " This does not prove that there is none: the model is not strict."
    else:
        verdict = (
            f"Not passed. {pairs} pairs have {counted(audit.violations, 'violation')} "
            f"({percent(audit.rate)}); in the worst one the {subject.short} moves against a "
            f"direction by {subject.value(audit.largest_drop)}."
        )
    searched = (
        f"The audit compares pairs: a row of the data, and the same row with other values of "
        f"{listed(names)}, inside the range of these rows, by random steps in all of them at once "
        f"and in one at a time between neighbouring values. A {subject.short} that moves against "
        f"its direction by more than {audit.tolerance:.2g} is a violation; less, as in "
        f"{counted(audit.rounding, 'pair')} here, is rounding of the computer. The command “audit” "
        "searches longer, and around the worst pairs."
    )
    blocks: list[Block] = [Paragraph(verdict, "good" if audit.passed else "bad")]
    blocks.append(Paragraph(searched))
    if audit.witness is not None:
        rows = [
            [str(row["column"]), f"{row['pairs']:,}", f"{row['violations_alone']:,}"]
            for row in audit.by_column.to_dict("records")
        ]
        heads = ["Column", "Pairs in which it moves", "Violations in which it moves alone"]
        blocks.append(Table("Violations by column", heads, rows, (1, 2)))
        figure = drawn(
            lambda ax: draw_worst_pair(ax, audit, subject.on_axis),
            f"The prediction along the worst pair, which falls by {audit.largest_drop:.3g}.",
            "The prediction along the worst pair, which should not fall.",
        )
        blocks.append(Figures([figure]))
    return Section("audit", title, blocks, f"The audit of the directions: {verdict}")
