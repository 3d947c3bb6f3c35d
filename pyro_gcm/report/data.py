"""Which rows the report looks at."""

from __future__ import annotations

from pyro_gcm.report.content import Block, Paragraph, Section
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import counted


def data(subject: Subject, source: str | None) -> Section:
    """The section on the rows."""
    rows, fitted = counted(len(subject.X), "row"), subject.estimator.training_.get("rows")
    where = f"The report looks at {rows}" + (f" of the file {source}." if source else ".")
    blocks: list[Block] = [Paragraph(where)]
    if fitted:
        blocks.append(Paragraph(f"The model was fitted to {counted(fitted, 'row')}."))
    if subject.y is not None:
        text = (
            "The report cannot know whether these rows are among those that the model was fitted "
            "to. If they are, the scores below flatter it: judge a model on rows that it has not "
            "seen."
        )
        blocks.append(Paragraph(text, "note"))
    in_short = f"The report looks at {rows}" + (f" of {source}." if source else ".")
    return Section("rows", "The rows", blocks, in_short)
