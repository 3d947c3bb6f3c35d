"""How the fields of a CSV file are read: which are missing, and how numbers are written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyro_gcm._utils.lists import as_argument, parts_of
from pyro_gcm.cli.errors import WrongUse

if TYPE_CHECKING:
    import pandas as pd

#: Missing values of a column whose other fields are numbers or booleans, as R and pandas write
#: them, in any case; in a column of text they are text.
_ABSENT = ["NA", "N/A", "#NA", "#N/A", "<NA>", "NULL", "None", "NaN", "-NaN"]
_ABSENT += ["1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]  # NaN of C on Windows
ABSENT = frozenset({*_ABSENT, *map(str.lower, _ABSENT)})
#: Signs that are alike: minus, blanks and apostrophes.
_ALIKE = str.maketrans({"\u2212": "-", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2019": "'"})
_NUMBER = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf|infinity)", re.ASCII | re.IGNORECASE)
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class Reading:
    """How fields are read.

    :param missing: fields that are missing values, beside empty ones.
    :param decimal: the mark before the fraction of a number, "." or ",".
    :param thousands: the mark between groups of three digits, or "".
    """

    missing: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""

    @classmethod
    def of_options(
        cls, missing: str | None = None, decimal: str = ".", thousands: str | None = None
    ) -> Reading:
        """The reading that the options of `fit` ask for.

        :raises WrongUse: for marks that numbers cannot have.
        """
        if decimal not in (".", ","):
            raise WrongUse(f"--decimal must be . or , (a full stop or a comma), got {decimal!r}")
        if thousands is not None and (len(thousands) != 1 or re.match(r"[\w+-]", thousands)):
            raise WrongUse(
                "--thousands must be one sign that is no letter, digit, + or -, such as , or ', "
                f"got {thousands!r}"
            )
        if thousands == decimal:
            raise WrongUse(f"--thousands and --decimal must differ, and both are {decimal!r}")
        named = {part.strip() for part in parts_of(missing or "")}
        return cls(tuple(sorted(named)), decimal, thousands or "")

    @property
    def options(self) -> dict[str, Any]:
        """The options that differ from the defaults, as keyword arguments."""
        return {name: v for name, v in asdict(self).items() if v != getattr(Reading, name)}

    def __str__(self) -> str:
        """The options as a shell takes them; "the default" without any."""
        values = {name: shlex.quote(str(value)) for name, value in self.options.items()}
        if self.missing:
            values["missing"] = as_argument(*self.missing)
        return " ".join(f"--{name} {value}" for name, value in values.items()) or "the default"

    def is_missing(self, field: str) -> bool:
        """Whether a field of a column of text is a missing value."""
        return not field or field.strip() in self.missing

    def is_absent(self, field: str) -> bool:
        """Whether a field of a column of numbers or booleans is a missing value."""
        return field.strip().lower() in ABSENT or self.is_missing(field)

    def number(self, field: str) -> float | None:
        """The number that a field has, whole ones as `int`, or None."""
        plain = field.translate(_ALIKE).strip()
        if self.thousands:
            mark, point = re.escape(self.thousands.translate(_ALIKE)), re.escape(self.decimal)
            if re.fullmatch(rf"[-+]?\d{{1,3}}({mark}\d{{3}})+({point}\d*)?", plain):
                plain = re.sub(mark, "", plain)
        if self.decimal == ",":
            plain = plain.replace(".", "?").replace(",", ".")
        if not _NUMBER.fullmatch(plain):
            return None
        with suppress(ValueError):
            return int(plain)
        return float(plain)

    def typed(self, fields: pd.Series[Any]) -> pd.Series[Any]:
        """A column with the type that all its fields have: numbers, booleans, or text.

        :param fields: text, or NaN where one is missing.
        """
        import numpy as np

        places, levels = _levels_of(fields)
        given = [level for level in levels if not self.is_absent(level)]
        values: Any = self._numbers(given)
        if values is None and {level.strip().lower() for level in given} <= {*_BOOLEANS}:
            values = np.array([_BOOLEANS[level.strip().lower()] for level in given])
        if values is None:
            return self.text(fields)
        at = {level: place for place, level in enumerate(given)}
        places = np.array([*(at.get(level, -1) for level in levels), -1])[places]
        if (places < 0).any():  # the last value stands for a missing one
            wide = object if values.dtype.kind == "b" else np.float64
            values = np.append(values.astype(wide), np.nan)
        return _series(values[places], fields)

    def text(self, fields: pd.Series[Any]) -> pd.Series[Any]:
        """A column of text, in which NA and the like are text."""
        import numpy as np

        places, levels = _levels_of(fields)
        values = [None if self.is_missing(level) else level for level in levels]
        return _series(np.array([*values, None], dtype=object)[places], fields)

    def _numbers(self, fields: Sequence[str]) -> Any:
        """The numbers of different fields as an array, or None."""
        import numpy as np
        import pandas as pd

        if self.decimal == ".":
            with suppress(ValueError):
                return _plain(pd.to_numeric(np.array(fields, dtype=object)))
        found = []
        for field in fields:
            value = self.number(field)
            if value is None:
                return None
            found.append(value)
        return _plain(np.array(found))


def _plain(numbers: Any) -> Any:
    """Numbers as 64 bits hold them."""
    return numbers if numbers.dtype.kind in "iuf" else numbers.astype("float64")


def _levels_of(fields: pd.Series[Any]) -> tuple[Any, list[str]]:
    """The different fields, and the place of each row's among them, -1 for NaN."""
    import pandas as pd

    places, levels = pd.factorize(fields)
    return places, levels.tolist()


def _series(values: Any, like: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd

    return pd.Series(values, index=like.index, name=like.name)
