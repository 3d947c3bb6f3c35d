"""`pyro-gcm fit`."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Annotated, Any

from pyro_gcm.cli.errors import WrongUse, blamed, listed, one_line
from pyro_gcm.cli.lists import list_of, possible_parts
from pyro_gcm.cli.options import (
    Data,
    Json,
    Quiet,
    check_device,
    check_folder,
    file_option,
    flag,
    number_option,
    option,
    real,
    share_option,
)
from pyro_gcm.cli.output import Output, plain


def fit(
    data: Data,
    target: Annotated[str, option("COLUMN", "What is predicted; the time of a survival model.")],
    out: Annotated[Path, file_option("Where the model is saved.", "FOLDER")],
    increasing: Annotated[
        str | None, option("COLUMNS", "Columns in which the prediction rises, such as a,b.")
    ] = None,
    decreasing: Annotated[
        str | None, option("COLUMNS", "Columns in which the prediction falls.")
    ] = None,
    ignore: Annotated[
        str | None, option("COLUMNS", "Columns that are left out, such as id,name.")
    ] = None,
    text: Annotated[
        str | None,
        option(
            "COLUMNS", "Columns of a CSV file that are categories, such as codes written in digits."
        ),
    ] = None,
    missing: Annotated[
        str | None,
        option("LIST", "Fields that are missing values, beside empty ones, such as ?,-."),
    ] = None,
    decimal: Annotated[
        str, option("MARK", "Mark of the fraction in a CSV file: . or a comma.")
    ] = ".",
    thousands: Annotated[
        str | None, option("MARK", "Mark of the thousands in a CSV file, such as a comma.")
    ] = None,
    kind: Annotated[
        str | None,
        option(
            "KIND",
            "classifier, regressor, distribution (a regressor that assumes no shape), ordinal "
            "or survival; by default two values make a classifier and numbers a regressor.",
        ),
    ] = None,
    event: Annotated[
        str | None,
        option("COLUMN", "Survival: whether the event came (1) or not by that time (0)."),
    ] = None,
    horizon: Annotated[
        float | None,
        option(
            "TIME",
            "Survival: the risk is that of the event by then; by default the median time.",
            parser=real,
        ),
    ] = None,
    levels: Annotated[
        str | None, option("LEVELS", "Ordinal: all levels, from low to high, as a,b,c.")
    ] = None,
    positive: Annotated[
        str | None,
        option(
            "VALUE",
            "Classifier: the value whose probability is predicted; by default the last one in "
            "sorted order.",
        ),
    ] = None,
    test_share: Annotated[
        float | None, share_option("Hold out a share of the rows and print their scores.")
    ] = None,
    seed: Annotated[int, number_option(0, "Seed of the training and of the split.", 2**32 - 1)] = 0,
    epochs: Annotated[
        int | None,
        number_option(1, "Passes over the rows; by default found on a part of the rows."),
    ] = None,
    members: Annotated[int, number_option(1, "Networks that make up the model.")] = 8,
    bootstrap: Annotated[
        int, number_option(0, "Models that are fitted to bootstrap samples, for bands.")
    ] = 0,
    device: Annotated[str, option("TEXT", "auto, cpu, cuda, or another device of torch.")] = (
        "auto"
    ),
    overwrite: Annotated[
        bool, flag("--overwrite", "Replace a model that was saved in the folder.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a table and save it.

    The types of the columns are read from the table and shown, with the role of each. Text becomes
    categories, and values may be missing. Nothing is left behind before the model is fitted. In a
    list of columns or values, quotes keep blanks and commas: --increasing 'a,"b, c"'. A list may
    be given in parts: --increasing a --increasing b.

    Example: pyro-gcm fit data.csv --target y --increasing a,b --decreasing c --out model/
    """
    from pyro_gcm.cli.columns import (
        check_finite,
        column_of,
        columns_of,
        doubt_of,
        letters_in_order,
        roles_of,
    )
    from pyro_gcm.cli.reading import Reading
    from pyro_gcm.cli.tables import read_table
    from pyro_gcm.cli.target import target_of
    from pyro_gcm.estimators.kinds import KINDS

    if kind is not None and kind not in KINDS:
        raise WrongUse(f"--kind must be one of {listed([*KINDS])}, got {kind!r}")
    check_folder(out, overwrite)
    reading = Reading.of_options(missing, decimal, thousands)
    is_csv = data.suffix.lower() == ".csv"
    of_csv = {"--text": text, "--decimal": reading.decimal != ".", "--thousands": thousands}
    for name, given in of_csv.items():
        if given and not is_csv:
            raise WrongUse(f"{name} is for CSV files, whose columns have no types, got {data}")
    table = read_table(data, reading, possible_parts(text), [target])
    frame = table.frame
    column_of("--target", target, [*frame.columns], str(data))
    roles = roles_of(
        frame,
        str(data),
        reading if is_csv else None,
        columns_of("--text", text, [*frame.columns], str(data)),
        target=target,
        event=event,
        increasing=increasing,
        decreasing=decreasing,
        ignore=ignore,
    )
    labels = []  # with the letters of the file, in the order of their values
    if event is None and kind in (None, "classifier", "ordinal"):
        labels = letters_in_order(frame[target], table.written[target])
    if labels and (kind or levels or len(labels) == 2):
        frame[target] = table.written[target].where(frame[target].notna())
        if kind == "ordinal":
            levels = levels or list_of(labels)
        elif levels is None:
            positive = positive or labels[-1]
    about = {"kind": kind, "event": event, "levels": levels, "positive": positive}
    found = target_of(frame, target, **about)
    check_finite(frame[roles.inputs], str(data))
    if horizon is not None and (found.kind != "survival" or not 0.0 < horizon < math.inf):
        raise WrongUse(
            f"--horizon must be a time above 0, for --kind survival, got {horizon:g} for "
            f"{found.kind}"
        )
    check_device(device)
    train, test = found.split(test_share, seed)
    columns = roles.described(frame)
    output = Output(as_json, quiet)
    output.table(
        f"{data}: {len(frame)} rows, {found.kind}" + (f", {reading}" if reading.options else ""),
        ["column", "type", "role", "missing"],
        [[*map(str, column.values())] for column in columns],
    )
    for name in roles.inputs:
        if is_csv and (sentence := doubt_of(frame[name])):
            output.note(f"column {name!r} {sentence}")
    if not roles.directions:
        warnings.warn("no column has a direction, see --increasing", stacklevel=1)
    for name in roles.directions:
        if frame[name].nunique() == 1:
            warnings.warn(f"column {name!r} has the same value in all rows", stacklevel=1)
    estimator = found.estimator(
        roles.directions,
        horizon=horizon,
        members=members,
        epochs=epochs,
        bootstrap=bootstrap,
        random_state=seed,
        device=device,
        verbose=not quiet,
    )
    output.note(f"fitting a {type(estimator).__name__} to {len(train)} rows")
    X = frame[roles.inputs]
    with blamed(f"DATA {data}"):
        estimator.fit(X.iloc[train], found.y[train])
    estimator.set_params(verbose=False)
    notes: dict[str, Any] = {
        "target": target,
        "columns": columns,
        "rows": len(train),
        "test_rows": len(test),
        "scores": {},
    }
    if reading.options:
        notes["reading"] = reading.options
    if found.kind == "regressor":
        notes["response"] = estimator.response_
    if found.kind == "survival":
        estimator.event_codes_ = found.codes
        notes |= {"event": event, "horizon": float(estimator.model_.response.reference)}
    _save(estimator, out, notes, overwrite)
    if len(test):
        notes["scores"] = reached = _scores(estimator, X.iloc[test], found.y[test])
        if reached:
            rows = [[name, f"{value:.4f}"] for name, value in reached.items()]
            output.table(f"{len(test)} rows that were held out", ["score", "value"], rows)
        _save(estimator, out, notes, overwrite=True)
    output.note(f"model saved in {out}")
    made: dict[str, Any] = {"class": type(estimator).__name__, "epochs": estimator.n_iter_}
    if hasattr(estimator, "classes_"):
        made["labels"] = estimator.classes_.tolist()
    if found.kind == "classifier":
        made["positive"] = made["labels"][estimator.event_column_]
    output.document({"command": "fit", "kind": found.kind, **notes, **made, "out": str(out)})


def _save(estimator: Any, out: Path, notes: dict[str, Any], overwrite: bool) -> None:
    """Save a fitted estimator with what the command line has to know of it."""
    import pyro_gcm
    from pyro_gcm.cli.saved import NOTES

    with blamed("--out"):
        pyro_gcm.save(estimator, out, metrics={NOTES: plain(notes)}, overwrite=overwrite)


def _scores(estimator: Any, X: Any, y: Any) -> dict[str, float]:
    """Scores of rows that were held out, with a warning of those that there cannot be."""
    from pyro_gcm.estimators.kinds import scores

    try:
        found = scores(estimator, X, y)
    except Exception as error:  # the model is there, whatever is wrong with these rows
        warnings.warn(f"no score of the rows held out: {one_line(error)}", stacklevel=1)
        return {}
    for name, value in found.items():
        if not math.isfinite(value):
            warnings.warn(f"{name} of the rows held out is {value}", stacklevel=1)
    return found
