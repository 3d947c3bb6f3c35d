"""`pyro-gcm info`, `plot` and `report`: a model as text, figure and HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pyro_gcm._utils.files import write_figure
from pyro_gcm.cli import options
from pyro_gcm.cli.output import Output, WrongUse, blamed


def info(output: Output, model: options.Model) -> None:
    """Show what the folder of a model holds: its kind, columns, directions, rows and versions.

    Example: pyro-gcm info model/
    """
    from pyro_gcm.cli.saved import open_model

    saved = open_model(model)
    notes, columns, shown = dict(saved.notes), [], []
    types = {column["name"]: column["type"] for column in notes.pop("columns", [])}
    for name, code in saved.codes.items():
        low, high = (code.low, code.high) if code.kind == "number" else (None, None)
        column = {"name": name, "type": types.get(name, code.kind)}
        column["direction"] = {1: "increasing", -1: "decreasing", 0: "free"}[code.sign]
        shown.append([*column.values(), "" if low is None else f"{low:g} to {high:g}"])
        columns.append({**column, "levels": len(code.levels) or None, "low": low, "high": high})
    about = {"kind": saved.kind, "class": saved.card["class"], **saved.facts, **notes}
    about |= {"epochs": saved.estimator.n_iter_, "versions": saved.card["versions"]}
    heads = ["column", "type", "direction", "training rows"]
    output.table(f"{model}: {saved.kind}", heads, shown)
    for name, entry in about.items():
        output.text(f"{name}: {_shown(entry)}")
    output.document({"command": "info", **about, "columns": columns})


def _shown(entry: Any) -> str:
    if isinstance(entry, dict):
        return ", ".join(f"{key} {_shown(value)}" for key, value in entry.items())
    return f"{entry:.6g}" if isinstance(entry, float) else str(entry)


def plot(
    output: Output,
    model: options.Model,
    data: options.Data,
    column: options.Column,
    out: Annotated[Path, options.value("FILE")],
    values: options.Values = None,
    level: options.Level = 0.9,
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

    options.check_output("--out", out, data, model)
    saved = open_model(model).answering()
    column = saved.moving(column)
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
    with blamed("--out"):
        write_figure(out, figure, dpi=150)
    output.note(f"figure written to {out}")
    output.document({"command": "plot", "column": column, "rows": len(X), "out": str(out)})


def report(
    output: Output,
    model: options.Model,
    data: options.Data,
    out: Annotated[Path, options.value("FILE")],
    target: options.Name = None,
    event: options.Name = None,
    title: Annotated[str | None, options.value("TEXT")] = None,
    pairs: options.Pairs = 20_000,
    seed: options.Seed = 0,
    level: options.Level = 0.9,
) -> None:
    """Write a report on a model, one HTML file.

    It says what the model predicts, which directions were imposed, how good predictions are where
    DATA has the target, how they move with each column, what an audit found, and how far each
    column can move the predictions of three rows. The file needs no other one, and no network.

    Example: pyro-gcm report model/ test.csv --out report.html

    :param out: The report, a file .html.
    :param target: What came; by default the column of fit, if DATA has it.
    :param event: Survival: whether the event came; as --target.
    :param title: The title of the report.
    """
    from pyro_gcm.cli.saved import open_model
    from pyro_gcm.cli.target import outcomes_of
    from pyro_gcm.report import write_report

    if out.suffix.lower() not in (".html", ".htm"):
        raise WrongUse(f"--out must end in .html, got {out}")
    options.check_output("--out", out, data, model)
    saved = open_model(model)
    rows = outcomes_of(saved, data, target=target, event=event)
    if rows.y is None:
        output.note(f"{rows.lacks}, so scores are left out of the report")
    about: Any = {"title": title, "target": rows.target, "event": rows.event, "path": out}
    about |= {"source": data.name, "folder": model.name, "card": saved.card, "pairs": pairs}
    about |= {"level": level, "seed": seed, "progress": not output.quiet}
    with blamed(f"DATA {data}"):
        written = write_report(saved.estimator, rows.X, rows.y, **about)
    output.note(f"report written to {out}")
    facts = {"command": "report", "kind": saved.kind, "rows": len(rows.X), "out": out}
    facts |= {"sections": written.sections, "scores": written.scores, "audit": None}
    if written.audit is not None:
        counts = ("passed", "pairs", "violations")
        facts["audit"] = {name: getattr(written.audit, name) for name in counts}
    output.document(facts)
