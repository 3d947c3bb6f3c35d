"""`pyro-gcm report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pyro_gcm._utils.console import one_line
from pyro_gcm.cli.errors import WrongUse
from pyro_gcm.cli.numbers import path, share, whole
from pyro_gcm.cli.options import Data, Json, Level, Model, Quiet
from pyro_gcm.cli.output import Output


def report(
    model: Model,
    data: Data,
    out: Annotated[
        Path, typer.Option(parser=path, metavar="FILE", help="The report, a file .html.")
    ],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="What came; by default the column of fit, if DATA has it.",
        ),
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Survival: whether the event came; as --target."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the report.")] = None,
    pairs: Annotated[
        int,
        typer.Option(parser=whole(3), metavar="NUMBER", help="Pairs of the audit, at most."),
    ] = 20_000,
    seed: Annotated[
        int, typer.Option(parser=whole(0), metavar="NUMBER", help="Seed of all random choices.")
    ] = 0,
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
    from pyro_gcm.cli.errors import blamed
    from pyro_gcm.cli.outcomes import outcomes_of
    from pyro_gcm.cli.saved import open_card, open_model
    from pyro_gcm.cli.tables import check_output
    from pyro_gcm.report import write_report

    share("--level", level)
    if out.suffix.lower() not in (".html", ".htm"):
        raise WrongUse(f"--out must end in .html, got {out}")
    check_output("--out", out, [data])
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
