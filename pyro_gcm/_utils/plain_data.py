"""Plain data, and JSON of it in one layout: finite numbers, no duplicate keys, other bytes for
other values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any


def plain(
    value: Any, where: str, own: Callable[[Any, str], Any] = lambda *_: NotImplemented
) -> Any:
    """A value as JSON holds it: what numpy has as Python has it, tuples as lists.

    :param where: name of the value, for the error; those of its items follow after a dot.
    :param own: asked first about the value and each of its items, with its name: what stands for
        it, or NotImplemented.
    :raises TypeError: for a value that JSON does not have, and keys that are no strings.
    :raises ValueError: for numbers that are not finite.
    """
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    made = own(value, where)
    if made is not NotImplemented:
        return made
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where} must have strings as keys, got {key!r}")
        return {key: plain(item, f"{where}.{key}", own) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}.{i}", own) for i, item in enumerate(value)]
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        if not math.isfinite(value):
            raise ValueError(
                f"{where} must be finite, got {value}: pass None, or the text {str(value)!r}"
            )
        return float(value)
    raise TypeError(
        f"{where} must be None, a boolean, number, string, list or dict, got {type(value).__name__}"
    )


def written(value: Any) -> bytes:
    """The bytes of a value that is plain."""
    text = json.dumps(value, indent=1, ensure_ascii=True, allow_nan=False)
    return (text + "\n").encode("ascii")


def read(raw: bytes) -> Any:
    """The value, if these are just the bytes that `written` makes of it.

    :raises ValueError: for anything else, such as NaN, duplicate keys or another layout; the
        message goes on after the name of what has them.
    """
    try:
        value = json.loads(raw)
        if written(value) == raw:
            return value
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no valid JSON: {error}") from error
    raise ValueError("is JSON in another layout, or with duplicate keys")
