"""`pyro-gcm info`."""

from __future__ import annotations

from typing import Any

from pyro_gcm._utils.archive import undamaged
from pyro_gcm.cli.errors import blamed
from pyro_gcm.cli.options import Json, Model, Quiet
from pyro_gcm.cli.output import Output

#: What `info` prints for a direction.
_DIRECTIONS = {1: "increasing", -1: "decreasing", 0: "free"}


def info(model: Model, as_json: Json = False, quiet: Quiet = False) -> None:
    """Show what the folder of a model holds.

    That is its kind, columns, directions, rows and versions. Every file is compared with the
    digests in the manifest; no model is made.

    Example: pyro-gcm info model/
    """
    from pyro_gcm.cli.saved import open_card

    card = open_card(model)
    with blamed("MODEL"), undamaged(f"{model}: card.json"):
        about, columns = _described(card)
    output = Output(as_json, quiet)
    output.table(
        f"{model}: {about['kind']}",
        ["column", "type", "direction", "training rows"],
        [[c["name"], c["type"], c["direction"], _extent(c["low"], c["high"])] for c in columns],
    )
    for name, value in about.items():
        output.text(f"{name}: {_shown(value)}")
    output.document({"command": "info", **about, "columns": columns})


def _described(card: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is known of a model, and of each of its columns."""
    from pyro_gcm.cli.saved import kind_of, notes_of
    from pyro_gcm.estimators.encoding import TableEncoding

    notes, data = notes_of(card), card["architecture"]["data"]
    codes = TableEncoding.from_json(data["columns"]).columns
    names = data["names"] or [code.label for code in codes]
    types = {column["name"]: column["type"] for column in notes.get("columns", [])}
    columns = [
        {
            "name": name,
            "type": types.get(name, code.kind),
            "direction": _DIRECTIONS[code.sign],
            "levels": len(code.levels) or None,
            "low": code.low if code.kind == "number" else None,
            "high": code.high if code.kind == "number" else None,
        }
        for name, code in zip(names, codes, strict=True)
    ]
    about: dict[str, Any] = {"kind": kind_of(card), "class": card["class"]}
    if "classes" in data:
        about["labels"] = notes.get("labels", data["classes"][1])
    if about["kind"] == "classifier":
        about["positive"] = about["labels"][data.get("event_column", 1)]
    about |= {
        **{key: value for key, value in notes.items() if key != "columns"},
        "epochs": data["iterations"],
        "versions": card["versions"],
    }
    return about, columns


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(entry)}" for key, entry in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _extent(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:g} to {high:g}"
