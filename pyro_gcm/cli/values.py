"""Values of a column in an option: a range or a list."""

from __future__ import annotations

from typing import Any

from pyro_gcm._utils.lists import parts_of
from pyro_gcm._utils.validation import LARGEST
from pyro_gcm.cli.errors import WrongUse, listed
from pyro_gcm.cli.numbers import numbers

_EXAMPLE = "0:100:11 or 1,2,5"
#: Values of a range, at most.
_MOST = 100_000


def values_of(text: str, code: Any) -> list[Any]:
    """The values that `--values` names of a column.

    :param code: how the model reads the column.
    :raises WrongUse: for values that the column cannot have.
    """
    if code.kind != "number":
        of_text = {str(level).removesuffix(".0"): level for level in code.levels}
        names = parts_of(text, of_text)
        unknown = [name for name in names if name not in of_text]
        if unknown:
            raise WrongUse(f"--values must be among {listed([*of_text])}, got {unknown[0]!r}")
        return [of_text[name] for name in names]
    found = _range(text) if ":" in text else numbers("--values", text, _EXAMPLE)
    if not all(abs(value) <= LARGEST for value in found):
        raise WrongUse(f"--values must be finite, and at most {LARGEST:.0e} in size, got {text!r}")
    return found


def _range(text: str) -> list[float]:
    """Equal steps from the first to the last value."""
    import numpy as np

    parts = text.split(":")
    count = parts[-1].strip()
    if len(parts) != 3 or not count.isdigit() or not 2 <= int(count) <= _MOST:
        raise WrongUse(
            f"--values must be low:high:count with a count of 2 to {_MOST:,}, such as 0:100:11, "
            f"got {text!r}"
        )
    low, high = numbers("--values", ",".join(parts[:2]), _EXAMPLE)
    found: list[float] = np.linspace(low, high, int(count)).tolist()
    return found
