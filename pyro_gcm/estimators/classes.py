"""Three or more classes of `GCMClassifier`: directions of columns for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from pyro_gcm._utils.validation import shown
from pyro_gcm.data.tables import signs_of
from pyro_gcm.responses import Classes
from pyro_gcm.responses.classes import order_of


def read_directions(
    given: Any, classes: Sequence[Any], event: int, count: int, names: Sequence[str] | None
) -> tuple[Classes, list[int]]:
    """The response of three or more classes that `monotonic_cst` describes.

    :param given: None, or a mapping from classes to directions, each as those of two classes are.
    :param event: the place of the class whose probability is the prediction.
    :param count: number of columns; `names`: theirs, if they have any.
    :returns: the response, whose revenues are the columns with a direction; and the sign of each
        column: -1 if the probability of the event falls with it, 1 for others with a direction, 0.
    :raises ValueError: for anything else, for unknown classes, and for a column whose direction is
        the same for all classes.
    """
    columns, signs, directions = by_label(given, classes, event, count, names)
    for at, column in enumerate(columns):
        if column[0] and len({*column}) == 1:
            raise ValueError(
                f"monotonic_cst must not be {column[0]:+d} for every class, as for column "
                f"{names[at] if names else at!r}: it would change no probability"
            )
    return Classes(classes=len(classes), directions=directions, event=event), signs


def by_label(
    given: Any,
    labels: Sequence[Any],
    event: int,
    count: int,
    names: Sequence[str] | None,
    what: str = "classes",
) -> tuple[list[tuple[int, ...]], list[int], list[tuple[int, ...]]]:
    """The directions of each column for all labels, its sign, and those of revenues by label.

    :param given: None, or a mapping from labels, which messages call `what`, to directions.
    :param event: the place of the label whose probability is the prediction.
    """
    given = {} if given is None else given
    if not isinstance(given, Mapping) or {*given} - {*labels}:
        raise ValueError(
            f"monotonic_cst must be a mapping from {what} to directions with "
            f"{'three or more ' if what == 'classes' else ''}{what}, {shown([*labels])}, got "
            f"{shown(given)}"
        )
    rows = []
    for each in labels:
        own = given.get(each, [0] * count)
        rows.append(signs_of(f"monotonic_cst[{each!r}]", own, count, names))
    columns = [*zip(*rows, strict=True)]
    signs = [int(any(column)) * (order_of(column, event) or 1) for column in columns]
    revenues = [
        [sign * own for own in column] for sign, column in zip(signs, columns, strict=True) if sign
    ]
    # A table without a direction has a revenue all the same, of zeros.
    return columns, signs, [*zip(*(revenues or [[0] * len(rows)]), strict=True)]


def refuse_classes(given: Any, classes: Sequence[Any], event: int) -> None:
    """Refuse a `monotonic_cst` of two classes that is a mapping from classes.

    :raises ValueError: with what it must be.
    """
    of_classes = isinstance(given, Mapping) and given and {*given} <= {*classes}
    if of_classes and not all(isinstance(sign, Real) for sign in given.values()):
        raise ValueError(
            "monotonic_cst must have directions of columns, not of classes, with two classes: "
            f"those of Pr(y = {classes[event]!r}), see positive, got {shown(given)}"
        )


def directions_of_classes(estimator: Any) -> dict[Any, dict[Any, int]]:
    """The directions of columns for each of three or more classes, or causes, by their labels.

    :param estimator: a fitted `GCMClassifier` or `GCMCompetingRisks`.
    """
    encoding, known = estimator.encoding_, estimator.model_.response.rows
    names = getattr(estimator, "feature_names_in_", range(len(encoding.columns)))
    found = {}
    causes = getattr(estimator, "causes_", None)
    labels = causes or estimator.classes_.tolist()
    for label, row in zip(labels, known, strict=True):
        columns = zip(encoding.revenues, row, strict=False)  # without one a revenue is there still
        found[label] = {names[at]: sign * encoding.columns[at].sign for at, sign in columns if sign}
    return found
