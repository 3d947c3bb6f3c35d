"""What each column of a table is for: the target, a direction, free, or ignored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyro_gcm.cli.columns import can_have_direction, columns_of, type_of
from pyro_gcm.cli.errors import WrongUse

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


def roles_of(frame: pd.DataFrame, where: str, **named: str | None) -> Roles:
    """The roles that options give to the columns of a table; the others are free.

    :param where: what has these columns.
    :param named: by the name of an option, the columns that it names, or None.
    :raises WrongUse: for unknown columns, columns that are named twice, and those of a type that no
        model reads.
    """
    known = [str(name) for name in frame.columns]
    roles: dict[str, str] = {}
    for option, text in named.items():
        for name in columns_of(f"--{option}", text, known, where):
            if roles.get(name) == option:
                raise WrongUse(f"--{option} names {name!r} twice")
            if name in roles:
                raise WrongUse(f"--{roles[name]} and --{option} both name {name!r}")
            roles[name] = option
            if option in SIGNS and not can_have_direction(frame[name]):
                raise WrongUse(
                    f"--{option} {name!r} must have numbers, booleans or an ordered category, and "
                    f"has {type_of(frame[name])}, such as {frame[name].dropna().iloc[0]!r}"
                )
    for name in known:
        if name not in roles and type_of(frame[name]).startswith(("date", "other")):
            raise WrongUse(
                f"DATA {where}: column {name!r} has a type that no model reads, "
                f"{type_of(frame[name])}: --ignore {name}, or write a number in its place"
            )
    found = Roles({name: _role(roles.get(name, "free")) for name in known})
    if not found.inputs:
        raise WrongUse(f"DATA {where} must have a column beside the target, and has none")
    return found


def _role(option: str) -> str:
    return "ignored" if option == "ignore" else option
