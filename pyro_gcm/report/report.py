"""`write_report`: one HTML file on a fitted estimator, for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pyro_gcm._utils.files import check_writable, usable, write_file
from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import kind, positive_int, seed_of, share, shown
from pyro_gcm.data.tables import as_frame
from pyro_gcm.estimators.estimator import MonotoneEstimator
from pyro_gcm.estimators.kinds import kind_of, outcomes_of
from pyro_gcm.estimators.kinds import scores as scores_of
from pyro_gcm.report.audited import audit_of, audited
from pyro_gcm.report.card import card as card_section
from pyro_gcm.report.content import Block, Paragraph, Section
from pyro_gcm.report.curves import curves
from pyro_gcm.report.directions import directions
from pyro_gcm.report.explained import explained
from pyro_gcm.report.quality_of_classes import of_classes
from pyro_gcm.report.quality_of_levels import of_levels
from pyro_gcm.report.quality_of_numbers import of_numbers
from pyro_gcm.report.quality_of_times import of_times
from pyro_gcm.report.subject import Subject
from pyro_gcm.report.wording import Words, counted, quoted

if TYPE_CHECKING:
    import pandas as pd

    from pyro_gcm.audit import MonotonicityAudit

_QUALITY_OF = {
    "classifier": of_classes,
    "regressor": of_numbers,
    "distribution": of_numbers,
    "ordinal": of_levels,
    "survival": of_times,
}
#: Rows that a report needs at least.
FEWEST_ROWS = 10


@dataclass(frozen=True)
class WrittenReport:
    """The result of `write_report`.

    :param path: of the file.
    :param sections: titles of its sections.
    :param scores: of the estimator on these rows, by name; empty without outcomes.
    :param audit: result of the audit; None where nothing could be searched.
    """

    path: Path
    sections: list[str]
    scores: dict[str, float]
    audit: MonotonicityAudit | None


@one_thread()
def write_report(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    path: str | Path,
    title: str | None = None,
    target: str = "y",
    labels: Sequence[Any] | None = None,
    event: str = "the event",
    source: str | None = None,
    folder: str | None = None,
    card: Mapping[str, Any] | None = None,
    pairs: int = 20_000,
    level: float = 0.9,
    seed: int = 0,
    progress: bool = True,
) -> WrittenReport:
    """Write a report on a fitted estimator into one HTML file that needs nothing else.

    It says in plain words what the model predicts, which directions were imposed, how good and how
    calibrated predictions are where outcomes are given, how they move with each constrained column,
    what an audit found, three rows explained, and how the model was made. Pictures are inside the
    file. The same call writes the same bytes on the same machine.

    :param estimator: a fitted estimator of `pyro_gcm.estimators` that saw a DataFrame with names.
    :param X: a DataFrame of at least 10 rows with the columns of the estimator, in any order.
    :param y: what came, as `fit` of the estimator takes it, [n]; without it the section on scores
        and calibration is left out.
    :param path: the file, which ends in .html; it is written as a whole.
    :param title: of the report; by default it names the target.
    :param target: name of what is predicted, with its unit.
    :param labels: names of `classes_` of a classifier or an ordinal model, in their order.
    :param event: of a survival model, what happens.
    :param source: where the rows come from, such as the name of a file.
    :param folder: where the estimator was loaded from; `card`: its card, as `io.read_card` returns
        it.
    :param pairs: of the audit, at most.
    :param level: share of the members or bootstrap models in a band, at least.
    :param seed: of the audit, and of the rows that are drawn where a part of them is enough.
    :param progress: whether a bar is shown if it takes longer than two seconds.
    :raises TypeError: for anything but a fitted estimator, and options of a wrong type.
    :raises ValueError: for rows or outcomes that do not fit the estimator, and wrong options.
    :raises OSError: if the file cannot be written.
    """
    from tqdm.auto import tqdm

    path = usable(path)
    check_writable(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end in .html, got {path}")
    parts_of_card = ("metrics", "versions")
    if card is not None and not (
        isinstance(card, Mapping) and all(isinstance(card.get(p), Mapping) for p in parts_of_card)
    ):
        raise TypeError(f"card must be a card as io.read_card returns it, got {shown(card)}")
    pairs, seed = positive_int("pairs", pairs, minimum=3), seed_of(seed)
    share("level", level)
    frame = _rows(estimator, X)
    y = None if y is None else _outcomes(estimator, y, len(frame))
    words = _words(estimator, target, labels, event)
    subject = Subject(estimator, frame, y, words, float(level), seed)
    steps = 5 + len(subject.directions)
    options: Any = {"disable": not progress, "delay": 2, "unit": "part"}
    with tqdm(total=steps, desc="report", **options) as bar:
        found = {} if y is None else scores_of(estimator, frame, y)
        parts = [directions(subject), _rows_section(subject, source)]
        bar.update()
        parts.append(_quality_section(subject, found))
        bar.update()
        parts.append(curves(subject, bar.update))
        audit = audit_of(subject, pairs) if subject.directions else None
        parts.append(audited(subject, audit))
        bar.update()
        parts.append(explained(subject))
        bar.update()
        parts.append(card_section(subject, card, folder))
        title = title or f"Report on a model of {target}"
        written = _page(title, parts)
        write_file(path, written.encode())
        bar.update()
    return WrittenReport(path, [part.title for part in parts], found, audit)


def _rows(estimator: Any, X: Any) -> pd.DataFrame:
    """The columns of the estimator of a table, in their order, as a DataFrame of pandas."""
    if not isinstance(estimator, MonotoneEstimator):
        raise TypeError(f"estimator must be one of pyro_gcm.estimators, got {kind(estimator)}")
    if not estimator.__sklearn_is_fitted__():
        raise TypeError(f"estimator must be fitted, got an unfitted {type(estimator).__name__}")
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        raise ValueError("estimator must have been fitted to a DataFrame, whose columns have names")
    table = as_frame(X)
    if table is None:
        raise TypeError(f"X must be a DataFrame, got {shown(X)}")
    frame: pd.DataFrame = table.to_pandas()
    missing = [name for name in names if name not in frame]
    if missing:
        raise ValueError(f"X must have the columns of the estimator, and lacks {missing}")
    if len(frame) < FEWEST_ROWS:
        raise ValueError(f"X must have at least {FEWEST_ROWS} rows, got {len(frame)}")
    return frame[list(names)].reset_index(drop=True)


def _outcomes(estimator: Any, y: Any, rows: int) -> Any:
    """Outcomes as `score` of the estimator takes them.

    :raises ValueError: for another number of them, and for those that the estimator cannot have.
    """
    found = outcomes_of(estimator, y)
    if (
        kind_of(estimator.response) == "survival"
        and not (found.is_exact | found.upper.isinf()).all()
    ):
        raise ValueError(f"y must have exact and right-censored times for a report, got {y!r}")
    if len(found) != rows:
        raise ValueError(f"y must have one entry for each of the {rows} rows, got {len(found)}")
    return found


def _words(estimator: Any, target: str, labels: Any, event: str) -> Words:
    known = [] if not hasattr(estimator, "classes_") else estimator.classes_.tolist()
    if labels is not None:
        if isinstance(labels, str) or not isinstance(labels, Sequence | np.ndarray):
            raise TypeError(f"labels must be a sequence of names, got {shown(labels)}")
        if len(labels) != len(known) or not all(isinstance(n, str | Real) for n in labels):
            raise ValueError(
                f"labels must have a name for each of the {len(known)} classes, got {shown(labels)}"
            )
    horizon = getattr(estimator.model_.response, "reference", math.nan)
    names = [str(label) for label in (known if labels is None else labels)]
    of = kind_of(estimator.response)
    if of == "classifier" and not estimator.event_column_:
        names.reverse()  # the event is the last one
    return Words(of, target, names, event, float(horizon))


def _rows_section(subject: Subject, source: str | None) -> Section:
    """The section on the rows that the report looks at."""
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


def _quality_section(subject: Subject, scores: dict[str, float]) -> Section:
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
    blocks, in_short = _QUALITY_OF[subject.kind](subject, scores)
    return Section("quality", title, blocks, in_short)


def _page(title: str, sections: Sequence[Section]) -> str:
    """One HTML page, in which every text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pyro_gcm.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html").render(title=title, sections=sections)
