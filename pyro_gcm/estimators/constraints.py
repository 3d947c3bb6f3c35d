"""Directions of columns, and which columns are categories: from options to one entry a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pyro_gcm._utils.validation import without_tensor
from pyro_gcm.data.tables import Column, known_name


def directions(monotonic_cst: Any, count: int, names: Sequence[str] | None) -> list[int]:
    """+1, -1 or 0 for each column, as `HistGradientBoostingClassifier` reads `monotonic_cst`.

    :param monotonic_cst: None, an entry a column, or a mapping from names of columns.
    :param names: of the columns, if they have any.
    :raises ValueError: for other entries, another number of them, and unknown names.
    """
    if monotonic_cst is None:
        return [0] * count
    monotonic_cst = without_tensor(monotonic_cst)
    index = getattr(monotonic_cst, "index", ())  # of a Series; that of a list is a method
    if not callable(index) and any(isinstance(name, str) for name in index):
        raise ValueError(
            "monotonic_cst is a Series with names, which would be read by position: pass "
            "monotonic_cst.to_dict()"
        )
    if isinstance(monotonic_cst, Mapping):
        if names is None:
            raise ValueError(
                "monotonic_cst names columns, but X has no names: pass a DataFrame, or an entry "
                "for each column"
            )
        monotonic_cst = {known_name(str(n), names): entry for n, entry in monotonic_cst.items()}
        unknown = [name for name in monotonic_cst if name not in names]
        if unknown:
            raise ValueError(
                f"monotonic_cst names columns that X does not have: {unknown}; it has {list(names)}"
            )
        entries = [monotonic_cst.get(name, 0) for name in names]
    else:
        entries = list(np.asarray(monotonic_cst, dtype=object).ravel())
        if len(entries) != count:
            raise ValueError(
                f"monotonic_cst must have an entry for each of the {count} columns of X, got "
                f"{len(entries)}"
            )
    for entry in entries:
        if isinstance(entry, bool | str) or entry not in (-1, 0, 1):
            raise ValueError(f"monotonic_cst must have the entries -1, 0 and 1, got {entry!r}")
    return [int(entry) for entry in entries]


def categories(
    categorical_features: Any, columns: Sequence[Column], names: Sequence[str] | None
) -> list[bool]:
    """Whether each column is a category.

    :param categorical_features: "from_dtype", None, a mask, indices, or names of columns.
    :raises ValueError: for what names no column, and for text in a column that is no category.
    """
    if isinstance(categorical_features, str):
        if categorical_features != "from_dtype":
            raise ValueError(
                "categorical_features must be 'from_dtype', None, a mask, indices or names, got "
                f"{categorical_features!r}"
            )
        # An array has one type, which says nothing of a column.
        chosen = [column.categorical and names is not None for column in columns]
    else:
        listed = without_tensor(categorical_features)
        chosen = _chosen(listed, len(columns), names)
    for column, is_category in zip(columns, chosen, strict=True):
        if column.numbers is None and not is_category:
            example = next(label for label in column.as_labels() if label is not None)
            raise ValueError(
                f"{column.label} of X has text or categories, such as {example!r}: name it in "
                "categorical_features, pass a DataFrame with categorical_features='from_dtype', or "
                "make it numbers"
            )
    return chosen


def _chosen(wanted: Any, count: int, names: Sequence[str] | None) -> list[bool]:
    if wanted is None:
        return [False] * count
    entries = [*wanted] if isinstance(wanted, list) else [*np.asarray(wanted, object).ravel()]
    if len(entries) == count and all(isinstance(entry, bool | np.bool_) for entry in entries):
        return [bool(entry) for entry in entries]
    known, found = {name: at for at, name in enumerate(names or ())}, [False] * count
    for entry in entries:
        at = entry
        if isinstance(entry, str | tuple):
            at = known.get(known_name(str(entry), names or ()))
        if not isinstance(at, int | np.integer) or isinstance(at, bool) or not 0 <= at < count:
            raise ValueError(
                f"categorical_features must be names or indices of columns, or a mask of all, got "
                f"{entry!r}, and X has {f'the columns {names}' if names else f'{count} columns'}"
            )
        if at == entry and known.get(str(at), at) != at:
            raise ValueError(
                f"categorical_features has {at}, which is the index of {(names or ())[int(at)]!r} "
                f"and the name of another column: pass {str(at)!r} for the name"
            )
        found[int(at)] = True
    return found
