"""`write_report`: one HTML file on a fitted estimator, its first section and its last one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pyro_gcm._utils.files import check_writable, usable, write_file
from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import number, positive_int, seed_of, share, shown, told_once
from pyro_gcm.data.frames import as_frame
from pyro_gcm.estimators.estimator import MonotoneEstimator
from pyro_gcm.estimators.kinds import outcomes_of
from pyro_gcm.report.alternatives import alternatives
from pyro_gcm.report.causes import of_causes
from pyro_gcm.report.columns import groups, importance, table_of_columns
from pyro_gcm.report.counts import of_counts
from pyro_gcm.report.decisions import decisions
from pyro_gcm.report.directions import audited, curves, explained
from pyro_gcm.report.page import Block, Paragraph, Section, Table, page
from pyro_gcm.report.quality import of_classes, of_levels, of_numbers, of_times
from pyro_gcm.report.subject import Subject, amount, counted, listed, quoted

if TYPE_CHECKING:
    import pandas as pd

    from pyro_gcm.audit import MonotonicityAudit


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
@told_once()
def write_report(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    path: str | Path,
    title: str | None = None,
    target: str = "y",
    event: str = "the event",
    source: str | None = None,
    folder: str | None = None,
    card: Mapping[str, Any] | None = None,
    at: float | None = None,
    by: Any = None,
    profile: Mapping[str, Any] | None = None,
    held_out: bool = False,
    pairs: int = 20_000,
    level: float = 0.9,
    seed: int = 0,
    progress: bool = True,
) -> WrittenReport:
    """Write a report on a fitted estimator into one HTML file that needs nothing else.

    It says in plain words what the model predicts, which directions were imposed, how good and how
    calibrated predictions are where outcomes are given, what a threshold does, which columns
    matter, how predictions move with them, what an audit found, three rows explained, groups side
    by side, and how the model was made. Pictures are inside the
    file. The same call writes the same bytes on the same machine.

    :param estimator: a fitted estimator of `pyro_gcm.estimators` that saw a DataFrame with names.
    :param X: a DataFrame of at least 10 rows with the columns of the estimator, in any order.
    :param y: the outcomes, as `fit` of the estimator takes them, [n]; without them the section on
        scores and calibration is left out.
    :param path: the file, which ends in .html; it is written as a whole.
    :param title: of the report; by default it names the target.
    :param target: name of what is predicted, with its unit.
    :param event: of a survival model, what happens.
    :param source: where the rows come from, such as the name of a file.
    :param folder: where the estimator was loaded from; `card`: its card, as `io.read_card` returns
        it.
    :param at: the probability, or mean, that decides: costs and explained rows are about it; by
        default the average prediction.
    :param by: a label for each row, [n], whose groups are compared; a Series with its name.
    :param profile: of the training rows, as `profile_of` returns it, with which these are compared.
    :param held_out: whether the model has seen none of these rows, which the report then says.
    :param pairs: of the audit, at most.
    :param level: of the bands.
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
    X, exposure = _rows(estimator, X), _exposure_of(estimator, X)
    y = None if y is None else outcomes_of(estimator, y)
    given = len(next(iter(y.values())) if isinstance(y, dict) else X if y is None else y)
    if given != len(X):
        raise ValueError(f"y must have one entry for each of the {len(X)} rows, got {given}")
    subject = Subject(
        estimator,
        X,
        y,
        target=target,
        event=event,
        source=source,
        folder=folder,
        card=card,
        threshold=_threshold(estimator, at),
        by=_labels(by, len(X)),
        profile=profile or {},
        held_out=held_out,
        exposure=exposure,
        pairs=positive_int("pairs", pairs, minimum=3),
        level=share("level", level),
        seed=seed_of(seed),
    )
    options: Any = {"desc": "report", "disable": not progress, "delay": 2, "unit": "part"}
    made = [section(subject) for section in tqdm(_SECTIONS, **options)]
    sections = [section for section in made if section is not None]
    about = subject.prediction if subject.is_share else f"model of {target}"
    write_file(path, page(title or f"Report on the {about}", sections).encode())
    return WrittenReport(path, [part.title for part in sections], subject.scores, subject.audit)


def _rows(estimator: Any, X: Any) -> pd.DataFrame:
    """The columns of the estimator of a table, in their order, as a DataFrame of pandas."""
    if not isinstance(estimator, MonotoneEstimator) or not estimator.__sklearn_is_fitted__():
        raise TypeError(f"estimator must be fitted and of pyro_gcm.estimators, got {estimator!r}")
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        raise ValueError("estimator must have been fitted to a DataFrame, whose columns have names")
    table = as_frame(X)
    if table is None:
        raise TypeError(f"X must be a DataFrame, got {shown(X)}")
    frame: pd.DataFrame = table.to_pandas()[list(names)]
    if len(frame) < 10:
        raise ValueError(f"X must have at least 10 rows, got {len(frame)}")
    return frame


def _exposure_of(estimator: Any, X: Any) -> npt.NDArray[np.float64] | None:
    """The exposures of counts that a table has a column of."""
    named = getattr(estimator, "exposure", None)
    if named is None:
        return None
    found: npt.NDArray[np.float64] = estimator.exposure_of(X)
    return found


def _threshold(estimator: Any, at: float | None) -> float | None:
    if at is None:
        return None
    return (share if estimator.predicts_probability else number)("at", at)


def _labels(by: Any, rows: int) -> pd.Series[Any] | None:
    import pandas as pd

    if by is None:
        return None
    labels: pd.Series[Any] = pd.Series(by).reset_index(drop=True)
    if len(labels) != rows:
        raise ValueError(f"by must have one entry for each of the {rows} rows, got {len(labels)}")
    return labels.rename(str(labels.name or "by"))


def _quality(subject: Subject) -> Section:
    """The section on scores and calibration; one sentence where there are no outcomes."""
    title = "How good the predictions are"
    if subject.y is None:
        text = (
            f"The table has no outcomes of {quoted(subject.target)} to compare the predictions "
            "with, so scores and calibration are left out."
        )
        return Section("quality", title, [Paragraph(text, "note")])
    blocks, in_short = _QUALITY_OF[subject.kind](subject)
    if subject.held_out:
        known = "The model was fitted without these rows, so the scores are fair."
    else:
        known = (
            "The report cannot know whether these rows are among those that the model was fitted "
            "to. If they are, the scores flatter it: judge a model on rows that it has not seen."
        )
    return Section("quality", title, [*blocks, Paragraph(known, "note")], in_short)


def _prediction(subject: Subject) -> Section:
    """The section on the prediction, the rows and the columns."""
    rows, fitted = counted(len(subject.X), "row"), subject.estimator.training_.get("rows")
    rows += f" of the file {subject.source}" if subject.source else ""
    rows += ", which were held out of the training" if subject.held_out else ""
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
            f"draws the {subject.short} towards them, but for some rows it may violate them."
        )
    moves = []
    for sign, verb in ((1, "rise"), (-1, "fall")):
        names = [quoted(name) for name, sign_of in subject.directions.items() if sign_of == sign]
        moves += [f"only {verb} with {listed(names)}"] if names else []
    can = "can" if subject.is_strict else "is assumed to"
    directions = f"It {can} {' and '.join(moves)}." if moves else "No direction was imposed."
    in_short = f"For {rows}, the model predicts the {subject.prediction}. {directions}"
    blocks: list[Block] = [Paragraph(text), Paragraph(imposed), *table_of_columns(subject)]
    return Section("prediction", "What the model predicts", blocks, in_short)


def _model_card(subject: Subject) -> Section:
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
        if key == "rows_of_fit":  # which are for programs
            continue
        values = value if isinstance(value, list) else [value]
        if isinstance(value, Mapping):
            yield from _noted(value)
        elif value is not None and not any(isinstance(v, list | dict) for v in values):
            yield key.replace("_", " "), ", ".join(map(amount, values))


_QUALITY_OF = {
    "classifier": of_classes,
    "regressor": of_numbers,
    "distribution": of_numbers,
    "ordinal": of_levels,
    "survival": of_times,
    "count": of_counts,
    "competing": of_causes,
}
#: One for each question of the reader, in the order of the report.
_SECTIONS = (
    *(_prediction, _quality, alternatives, decisions, importance, curves),
    *(audited, explained, groups, _model_card),
)
