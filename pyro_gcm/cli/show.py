"""`pyro-gcm info`, `export`, `plot` and `report`: a saved model as text, file and picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pyro_gcm._utils.files import write_figure
from pyro_gcm.cli import options
from pyro_gcm.cli.options import parts_of
from pyro_gcm.cli.output import Output, WrongUse, blamed


def info(output: Output, saved: options.Model) -> None:
    """Show what the folder of a model holds: its kind, columns, directions, rows and versions.

    Example: pyro-gcm info model/
    """
    notes, columns, shown = dict(saved.notes), [], []
    types = {column["name"]: column["type"] for column in notes.pop("columns", [])}
    for name, code in saved.codes.items():
        low, high = (code.low, code.high) if code.kind == "number" else (None, None)
        column = {"name": name, "type": types.get(name, code.kind)}
        column["direction"] = saved.direction(name)
        shown.append([*column.values(), "" if low is None else f"{low:g} to {high:g}"])
        columns.append({**column, "levels": len(code.seen) or None, "low": low, "high": high})
    about = {"kind": saved.kind, "class": saved.card["class"], **saved.facts, **notes}
    about |= {"epochs": saved.estimator.n_iter_, "versions": saved.card["versions"]}
    heads = ["column", "type", "direction", "training rows"]
    output.table(f"{saved.folder}: {saved.kind}", heads, shown)
    for name, entry in about.items():
        output.text(f"{name}: {_shown(entry)}")
    output.document({"command": "info", **about, "columns": columns})


def export(
    output: Output,
    saved: options.Model,
    file: Annotated[Path, typer.Argument(metavar="FILE.onnx")],
    times: Annotated[list[str] | None, options.value("TIMES")] = None,
) -> None:
    """Write a whole model, with its columns, into a file that ONNX runtimes of any language run.

    Example: pyro-gcm export model/ model.onnx

    :param file: The file, which `pyro-gcm audit` takes as well.
    :param times: Of a survival model: times of its curves, such as 30,90.
    """
    from pyro_gcm.io.export import export as write

    with blamed("--times"):
        at = [float(part) for part in parts_of(times or [])]
    with blamed():
        write(saved.estimator, file, format="onnx", times=at or None)
    output.text(f"wrote {file}")
    output.document({"command": "export", "file": str(file)})


def _shown(entry: Any) -> str:
    if isinstance(entry, dict):
        return ", ".join(f"{key} {_shown(value)}" for key, value in entry.items())
    return f"{entry:.6g}" if isinstance(entry, float) else str(entry)


def plot(
    output: Output,
    saved: options.Model,
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

    from pyro_gcm.plots import plot_feature_curve
    from pyro_gcm.report.subject import Subject

    options.check_output("--out", out, data, saved.folder)
    saved.answering()
    column = saved.column(column)
    grid = saved.grid(column, values)
    X, _ = saved.rows(data)
    subject = Subject(saved.estimator, X, target=saved.notes.get("target", "the target"))
    X = X.iloc[subject.sample()]
    with blamed():
        curve = saved.estimator.response_curve(X, saved.names.index(column), grid, level=level)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    plot_feature_curve(
        curve,
        rows=X[column],
        feature_name=column,
        outcome_name=subject.on_axis,
        band_name=f"{level:.0%} band",
        percent=saved.estimator.predicts_probability,
        ax=figure.subplots(),
    )
    with blamed("--out"):
        write_figure(out, figure, dpi=150)
    output.note(f"figure written to {out}, the mean over {subject.sampled()}")
    output.document({"command": "plot", "column": column, "rows": len(X), "out": str(out)})


def report(
    output: Output,
    saved: options.Model,
    data: options.Data,
    out: Annotated[Path, options.value("FILE")],
    target: options.Name = None,
    event: options.Name = None,
    title: Annotated[str | None, options.value("TEXT")] = None,
    at: Annotated[float | None, options.value("NUMBER")] = None,
    by: options.Name = None,
    pairs: options.Pairs = 20_000,
    seed: options.Seed = 0,
    level: options.Level = 0.9,
) -> None:
    """Write a report on a model, one HTML file.

    It says what the model predicts, how good predictions are where DATA has the target, what a
    threshold does, which columns matter and how, what an audit found, and what raises the highest
    predictions. If fit held rows of DATA out, the report is about these alone. The file needs no
    other one, and no network.

    Example: pyro-gcm report model/ test.csv --out report.html

    :param out: The report, a file .html.
    :param target: The outcomes; by default the column of fit, if DATA has it.
    :param event: Survival: whether the event occurred; as --target.
    :param title: The title of the report.
    :param at: The probability, or mean, that decides; by default the average prediction.
    :param by: A column of DATA whose groups are compared.
    """
    from pyro_gcm.cli.target import outcomes_of
    from pyro_gcm.report import write_report

    if out.suffix.lower() not in (".html", ".htm"):
        raise WrongUse(f"--out must end in .html, got {out}")
    options.check_output("--out", out, data, saved.folder)
    rows = outcomes_of(saved, data, target=target, event=event, by=by)
    if rows.y is None:
        output.note(f"{rows.lacks}, so scores are left out of the report")
    held = saved.held_out(rows.X)
    if held.any():
        output.note(f"the report is about the {held.sum()} rows of {data} that fit held out")
        rows = rows.take(held)
    rows.X.index += 1  # as messages count rows
    about: Any = {"title": title, "target": rows.target, "event": rows.event, "path": out}
    about |= {"at": at, "by": rows.by, "profile": saved.profile, "held_out": bool(held.any())}
    about |= {"source": data.name, "folder": saved.folder.name, "card": saved.card, "pairs": pairs}
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
