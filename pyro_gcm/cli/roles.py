"""What each column of a table is for: the target, a direction, free, or ignored."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyro_gcm._utils.lists import as_argument
from pyro_gcm.cli.columns import can_have_direction, columns_of, type_of
from pyro_gcm.cli.errors import WrongUse
from pyro_gcm.cli.forms import strange_form
from pyro_gcm.cli.reading import Reading

if TYPE_CHECKING:
    import pandas as pd

#: Signs of the roles with a direction.
SIGNS = {"increasing": 1, "decreasing": -1}


@dataclass(frozen=True)
class Roles:
    """The role of each column by its name, in the order of the table."""

    roles: dict[str, str]

    @property
    def inputs(self) -> list[str]:
        """The columns that the model reads."""
        return [name for name, role in self.roles.items() if role in (*SIGNS, "free")]

    @property
    def directions(self) -> dict[str, int]:
        """+1 or -1 of each constrained column."""
        return {name: SIGNS[role] for name, role in self.roles.items() if role in SIGNS}

    def described(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """Name, type, role and number of missing values of each column."""
        return [
            {
                "name": name,
                "type": type_of(frame[name]),
                "role": role,
                "missing": int(frame[name].isna().sum()),
            }
            for name, role in self.roles.items()
        ]


def roles_of(
    frame: pd.DataFrame,
    where: str,
    reading: Reading | None,
    text: Collection[str],
    **named: str | None,
) -> Roles:
    """The roles that options give to the columns of a table; the others are free.

    :param where: what has these columns.
    :param reading: how their fields were read, if they had no types.
    :param text: columns that are text in any case.
    :param named: by the name of an option, the columns that it names, or None.
    :raises WrongUse: for unknown columns, columns that are named twice, and those of a type that no
        model reads.
    """
    known = [str(name) for name in frame.columns]
    roles: dict[str, str] = {}
    for option, names in named.items():
        for name in columns_of(f"--{option}", names, known, where):
            if roles.get(name) == option:
                raise WrongUse(f"--{option} names {name!r} twice")
            if name in roles:
                raise WrongUse(f"--{roles[name]} and --{option} both name {name!r}")
            roles[name] = option
    for name in known:
        option = roles.get(name, "free")
        if option != "ignore":
            _check(frame[name], option, where, None if name in text else reading)
    found = Roles({name: _role(roles.get(name, "free")) for name in known})
    if not found.inputs:
        raise WrongUse(f"DATA {where} must have a column beside the target, and has none")
    return found


def _check(column: pd.Series[Any], option: str, where: str, reading: Reading | None) -> None:
    """Refuse a column that cannot have a role.

    :param reading: of a column whose type was found out.
    """
    name, kind = column.name, type_of(column)
    if reading is not None and kind.startswith("text") and (why := strange_form(column, reading)):
        raise WrongUse(f"DATA {where}: column {name!r} {why}")
    if option in SIGNS and not can_have_direction(column):
        raise WrongUse(
            f"--{option} {name!r} must have numbers, booleans or an ordered category, and has "
            f"{kind}, such as {column.dropna().tolist()[0]!r}"
        )
    if option == "free" and kind.startswith(("date", "other")):
        raise WrongUse(
            f"DATA {where}: column {name!r} has a type that no model reads, {kind}: "
            f"--ignore {as_argument(str(name))}, or write a number in its place"
        )


def _role(option: str) -> str:
    return "ignored" if option == "ignore" else option
