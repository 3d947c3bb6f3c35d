"""What tells one training run from another in a checkpoint."""

from __future__ import annotations

from typing import Any


def described(part: Any) -> str:
    """The class and the scalar attributes of a bound or a model, to identify it in a checkpoint."""
    options = {
        name: value
        for name, value in sorted(vars(part).items())
        if isinstance(value, bool | int | float | str) and not name.startswith("_")
    }
    return f"{type(part).__name__}{options}"


def same_run(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    """Raise ValueError if a checkpoint with one identity is not of the run with the other."""
    if theirs["learning_rate"] > mine["learning_rate"]:  # a run that diverged may go on so
        theirs = {**theirs, "learning_rate": mine["learning_rate"]}
    other = [
        f"{name} is {theirs.get(name)} there, {mine.get(name)} here"
        for name in {**mine, **theirs}
        if theirs.get(name) != mine.get(name)
    ]
    if other:
        raise ValueError("checkpoint is of another run: " + ", ".join(other[:5]))
