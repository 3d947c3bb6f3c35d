"""JSON of finite numbers, without duplicate keys, in one layout: other bytes are other values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any


def plain(value: Any, where: str) -> Any:
    """A value as JSON holds it: numbers of numpy as those of Python, tuples as lists.

    :param where: name of the value, for the error.
    :raises TypeError: for a value that JSON does not have, and keys that are no strings.
    :raises ValueError: for numbers that are not finite.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where} must have strings as keys, got {key!r}")
        return {str(key): plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        if not math.isfinite(value):
            raise ValueError(
                f"{where} must be finite, got {value}: pass None, or the text {str(value)!r}"
            )
        return float(value)
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(
        f"{where} must be None, a boolean, number, string, list or dict, got {type(value).__name__}"
    )


def written(value: Any) -> bytes:
    """The bytes of a value that is plain."""
    text = json.dumps(value, indent=1, ensure_ascii=True, allow_nan=False)
    return (text + "\n").encode("ascii")


def read(raw: bytes) -> Any:
    """The value, if these are just the bytes that `written` makes of it.

    :raises ValueError: for anything else, such as NaN, duplicate keys or another layout.
    """
    try:
        value = json.loads(raw.decode("ascii"), parse_constant=_refused)
        if written(value) == raw:
            return value
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no valid JSON: {error}") from error
    raise ValueError("is JSON in another layout, or with duplicate keys")


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")
