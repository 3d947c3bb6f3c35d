"""`pyro-gcm info`, `plot` and `report`: a model as text, figure and HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pyro_gcm._utils.files import undamaged
from pyro_gcm.cli.errors import WrongUse, blamed, one_line
from pyro_gcm.cli.options import (
    Column,
    Data,
    Json,
    Level,
    Model,
    Pairs,
    Quiet,
    Seed,
    check_figure,
    check_output,
    file_option,
    option,
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
    for name, value in about.items():
        output.text(f"{name}: {_shown(value)}")
    output.document({"command": "info", **about, "columns": columns})


def _described(card: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The facts about a model, and about each of its columns."""
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
        about["labels"] = data["classes"][1]
    if about["kind"] == "classifier":
        about["positive"] = about["labels"][data["event_column"]]
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


def plot(
    model: Model,
    data: Data,
    column: Column,
    out: Annotated[Path, file_option("The figure: .png, .svg, .pdf and others.")],
    values: Annotated[
        str | None, option("VALUES", "Where the curve is drawn: 0:100:11, or 1,2,5.")
    ] = None,
    level: Level = 0.9,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw the mean prediction as a column moves.

    The figure has the band of the mean, and how many rows are where.

    Example: pyro-gcm plot model/ data.csv --column debt --out debt.png
    """
    from pyro_gcm.cli.saved import open_model

    check_figure("--out", out)
    check_output("--out", out, data)
    saved = open_model(model).answering()
    grid = saved.grid(column, values)
    X, _ = saved.rows(data)
    with blamed("DATA"):
        curve = saved.estimator.response_curve(X, saved.names.index(column), grid, level=level)

    from matplotlib.figure import Figure

    from pyro_gcm._utils.files import write_figure
    from pyro_gcm.plots import plot_feature_curve

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
    with blamed("--out"):
        write_figure(out, figure, dpi=150)
    output = Output(as_json, quiet)
    output.note(f"figure written to {out}")
    output.document({"command": "plot", "column": column, "rows": len(X), "out": str(out)})


def report(
    model: Model,
    data: Data,
    out: Annotated[Path, file_option("The report, a file .html.")],
    target: Annotated[
        str | None, option("COLUMN", "What came; by default the column of fit, if DATA has it.")
    ] = None,
    event: Annotated[
        str | None, option("COLUMN", "Survival: whether the event came; as --target.")
    ] = None,
    title: Annotated[str | None, option("TEXT", "The title of the report.")] = None,
    pairs: Pairs = 20_000,
    seed: Seed = 0,
    level: Level = 0.9,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a report that people read, one HTML file.

    It says what the model predicts, which directions were imposed, how good predictions are where
    DATA has the target, how they move with each column, what an audit found, and what stands in the
    way in three rows. The file needs no other one, and no network.

    Example: pyro-gcm report model/ test.csv --out report.html
    """
    from pyro_gcm.cli.saved import open_card, open_model
    from pyro_gcm.cli.target import outcomes_of
    from pyro_gcm.report import write_report

    if out.suffix.lower() not in (".html", ".htm"):
        raise WrongUse(f"--out must end in .html, got {out}")
    check_output("--out", out, data)
    saved = open_model(model)
    found = outcomes_of(saved, data, target=target, event=event)
    output = Output(as_json, quiet)
    if found.y is None:
        output.note(f"{found.lacks}, so scores are left out of the report")
    with blamed(f"DATA {data}"):
        try:
            written = write_report(
                saved.estimator,
                found.X,
                found.y,
                path=out,
                title=title,
                target=found.target,
                labels=saved.labels if hasattr(saved.estimator, "classes_") else None,
                event=found.event,
                source=data.name,
                folder=model.name,
                card=open_card(model),
                pairs=pairs,
                level=level,
                seed=seed,
                progress=not quiet,
            )
        except OSError as error:
            raise WrongUse(f"--out: {one_line(error)}") from error
    output.note(f"report written to {out}")
    audit = written.audit
    output.document(
        {
            "command": "report",
            "kind": saved.kind,
            "rows": len(found.X),
            "out": str(out),
            "sections": written.sections,
            "scores": written.scores,
            "audit": audit
            and {name: getattr(audit, name) for name in ("passed", "pairs", "violations")},
        }
    )
