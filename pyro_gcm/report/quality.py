"""How well predictions fit what came, by kind of model."""

from __future__ import annotations

from pyro_gcm.report.content import Block, Paragraph, Section
from pyro_gcm.report.quality_of_classes import of_classes
from pyro_gcm.report.quality_of_levels import of_levels
from pyro_gcm.report.quality_of_numbers import of_numbers
from pyro_gcm.report.quality_of_times import of_times
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import quoted

_OF = {
    "classifier": of_classes,
    "regressor": of_numbers,
    "distribution": of_numbers,
    "ordinal": of_levels,
    "survival": of_times,
}


def quality(subject: Subject, scores: dict[str, float]) -> Section:
    """The section on scores and calibration; one sentence where nothing is known of what came.

    :param scores: of the estimator on these rows.
    """
    title = "How good the predictions are"
    if subject.y is None:
        text = (
            f"The data does not say what came of {quoted(subject.words.target)}, so the "
            "predictions cannot be compared with it. Scores and calibration are left out."
        )
        return Section("quality", title, [Paragraph(text, "note")])
    blocks: list[Block]
    blocks, in_short = _OF[subject.kind](subject, scores)
    return Section("quality", title, blocks, in_short)
