"""`pyro-gcm info`, `plot` and `report`: a model as text, figure and HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pyro_gcm._utils.files import undamaged, write_figure
from pyro_gcm.cli.errors import WrongUse, blamed
from pyro_gcm.cli.options import (
    Column,
    Data,
    Json,
    Large,
    Level,
    Model,
    Name,
    Pairs,
    Quiet,
    Seed,
    check_figure,
    check_output,
    value,
)
from pyro_gcm.cli.output import Output

#: What `info` prints for a direction.
_DIRECTIONS = {1: "increasing", -1: "decreasing", 0: "free"}


def info(model: Model, as_json: Json = False, quiet: Quiet = False) -> None:
    """Show what the folder of a model holds.

    That is its kind, columns, directions, rows and versions, as its card has them; no model is
    made.

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
    for name, entry in about.items():
        output.text(f"{name}: {_shown(entry)}")
    output.document({"command": "info", **about, "columns": columns})


def _described(card: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The facts about a model, and about each of its columns."""
    from pyro_gcm.cli.saved import kind_of, notes_of
    from pyro_gcm.estimators.encoding import TableEncoding

    notes, data = notes_of(card), card["architecture"]["data"]
    codes = TableEncoding.from_json(data["columns"]).columns
    types = {column["name"]: column["type"] for column in notes.pop("columns", [])}
    columns = [
        {
            "name": name,
            "type": types.get(name, code.kind),
            "direction": _DIRECTIONS[code.sign],
            "levels": len(code.levels) or None,
            "low": code.low if code.kind == "number" else None,
            "high": code.high if code.kind == "number" else None,
        }
        for name, code in zip(data["names"] or [c.label for c in codes], codes, strict=True)
    ]
    about: dict[str, Any] = {"kind": kind_of(card), "class": card["class"]}
    if "classes" in data:
        about["labels"] = data["classes"][1]
    if about["kind"] == "classifier":
        about["positive"] = about["labels"][data["event_column"]]
    about |= {**notes, "epochs": data["iterations"], "versions": card["versions"]}
    return about, columns


def _shown(entry: Any) -> str:
    if isinstance(entry, dict):
        return ", ".join(f"{key} {_shown(value)}" for key, value in entry.items())
    return f"{entry:.6g}" if isinstance(entry, float) else str(entry)


def _extent(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:g} to {high:g}"


def plot(
    model: Model,
    data: Data,
    column: Column,
    out: Annotated[Path, value("FILE")],
    values: Annotated[list[str] | None, value("VALUES")] = None,
    level: Level = 0.9,
    large: Large = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw the mean prediction as a column moves.

    The figure has the band of the mean, and how many rows are where.

    Example: pyro-gcm plot model/ data.csv --column debt --out debt.png

    :param out: The figure: .png, .svg, .pdf and others.
    :param values: Where the curve is drawn: 0:100:11, or 1,2,5.
    """
    from matplotlib.figure import Figure

    from pyro_gcm.cli.saved import open_model
    from pyro_gcm.plots import plot_feature_curve

    check_figure("--out", out)
    check_output("--out", out, data, model)
    saved = open_model(model).answering()
    grid = saved.grid(column, values)
    X, _ = saved.rows(data)
    with blamed():
        curve = saved.estimator.response_curve(X, saved.names.index(column), grid, level=level)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    models = "bootstrap models" if saved.estimator.bootstrap_models_ else "members"
    plot_feature_curve(
        curve,
        rows=X[column],
        feature_name=column,
        outcome_name=saved.prediction_name,
        band_name=f"{level:.0%} of the {models}",
        percent=saved.estimator.predicts_probability,
        ax=figure.subplots(),
    )
    write_figure(out, figure, dpi=150)
    output = Output(as_json, quiet)
    output.note(f"figure written to {out}")
    output.document({"command": "plot", "column": column, "rows": len(X), "out": str(out)})


def report(
    model: Model,
    data: Data,
    out: Annotated[Path, value("FILE")],
    target: Name = None,
    event: Name = None,
    title: Annotated[str | None, value("TEXT")] = None,
    pairs: Pairs = 20_000,
    seed: Seed = 0,
    level: Level = 0.9,
    large: Large = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a report that people read, one HTML file.

    It says what the model predicts, which directions were imposed, how good predictions are where
    DATA has the target, how they move with each column, what an audit found, and what stands in the
    way in three rows. The file needs no other one, and no network.

    Example: pyro-gcm report model/ test.csv --out report.html

    :param out: The report, a file .html.
    :param target: What came; by default the column of fit, if DATA has it.
    :param event: Survival: whether the event came; as --target.
    :param title: The title of the report.
    """
    from pyro_gcm.cli.saved import open_card, open_model
    from pyro_gcm.cli.target import outcomes_of
    from pyro_gcm.report import write_report

    if out.suffix.lower() not in (".html", ".htm"):
        raise WrongUse(f"--out must end in .html, got {out}")
    check_output("--out", out, data, model)
    saved = open_model(model)
    rows = outcomes_of(saved, data, target=target, event=event)
    output = Output(as_json, quiet)
    if rows.y is None:
        output.note(f"{rows.lacks}, so scores are left out of the report")
    with blamed(f"DATA {data}"):
        written = write_report(
            saved.estimator,
            rows.X,
            rows.y,
            path=out,
            title=title,
            target=rows.target,
            labels=saved.labels or None,
            event=rows.event,
            source=data.name,
            folder=model.name,
            card=open_card(model),
            pairs=pairs,
            level=level,
            seed=seed,
            progress=not quiet,
        )
    output.note(f"report written to {out}")
    audit = written.audit
    output.document(
        {
            "command": "report",
            "kind": saved.kind,
            "rows": len(rows.X),
            "out": str(out),
            "sections": written.sections,
            "scores": written.scores,
            "audit": audit
            and {name: getattr(audit, name) for name in ("passed", "pairs", "violations")},
        }
    )
