"""`pyro-gcm fit`."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

from pyro_gcm.cli import options
from pyro_gcm.cli.output import Output, WrongUse, blamed, one_line, plain


def fit(
    output: Output,
    data: options.Data,
    target: Annotated[str, options.value("COLUMN")],
    out: Annotated[Path, options.value("FOLDER")],
    increasing: options.Names = None,
    decreasing: options.Names = None,
    concave: options.Names = None,
    ignore: options.Names = None,
    group: options.Name = None,
    order: Annotated[list[str] | None, options.value("COLUMN=LEVELS")] = None,
    text: options.Names = None,
    missing: Annotated[list[str] | None, options.value("LIST")] = None,
    decimal: Annotated[str, options.value("MARK")] = ".",
    thousands: Annotated[str | None, options.value("MARK")] = None,
    kind: Annotated[
        Literal[
            "classifier", "regressor", "distribution", "ordinal", "survival", "competing", "count"
        ]
        | None,
        options.value("KIND"),
    ] = None,
    event: options.Name = None,
    exposure: options.Name = None,
    horizon: Annotated[float | None, options.value("TIME")] = None,
    levels: Annotated[list[str] | None, options.value("LEVELS")] = None,
    positive: Annotated[str | None, options.value("VALUE")] = None,
    test_share: Annotated[float | None, options.value("SHARE", min=0.0, max=1.0)] = None,
    seed: Annotated[int, options.value("NUMBER", min=0, max=2**32 - 1)] = 0,
    epochs: Annotated[int | None, options.value("NUMBER", min=1)] = None,
    members: Annotated[int, options.value("NUMBER", min=1)] = 8,
    device: Annotated[str, options.value("TEXT")] = "auto",
    overwrite: Annotated[bool, options.flag("--overwrite")] = False,
) -> None:
    """Fit a model to a table and save it.

    The types of the columns are read from the table and shown, with the role of each. Text becomes
    categories, and values may be missing. Nothing is left behind before the model is fitted. In a
    list of columns or values, quotes keep blanks and commas: --increasing 'a,"b, c"'. A list may
    be given in parts: --increasing a --increasing b.

    Example: pyro-gcm fit data.csv --target y --increasing a,b --decreasing c --out model/

    :param target: What is predicted; the time of a survival model.
    :param out: Where the model is saved.
    :param increasing: Columns in which the prediction rises, such as a,b.
    :param decreasing: Columns in which the prediction falls. With three or more classes a column of
        these two lists is for a class, as in --decreasing bus:fare,car:fuel, and so for causes.
    :param concave: Classifier: columns of --increasing, from 0 on, with diminishing returns.
    :param ignore: Columns that are left out, such as id,name.
    :param group: Rows with the same value here, such as those of one customer, are held out
        together; the model does not read the column.
    :param order: The levels of a column from low to high, as grade=C,B,A, which can then have a
        direction; once for each such column.
    :param text: Columns of a CSV file that are categories, such as codes written in digits.
    :param missing: Fields that are missing values, beside empty ones, such as ?,-.
    :param decimal: Mark of the fraction in a CSV file: . or a comma.
    :param thousands: Mark of the thousands in a CSV file, such as a comma.
    :param kind: classifier, regressor, distribution (a regressor that assumes no shape), ordinal,
        survival, competing or count; by default two values make a classifier, numbers a regressor.
    :param event: Survival: whether the event occurred (1) or not by that time (0). Competing: which
        cause came first, text or numbers, and nothing or 0 where none had by that time.
    :param exposure: Count: how long events were counted, such as years; directions are those of
        the rate.
    :param horizon: Survival: the risk is that of the event by then; by default the median time.
    :param levels: Ordinal: all levels, from low to high, as a,b,c.
    :param positive: Classifier: the value whose probability is predicted; by default the last one
        in sorted order. Competing: the cause, by default the first one.
    :param test_share: Hold out a share of the rows and print their scores.
    :param seed: Seed of the training and of the split.
    :param epochs: Passes over the rows; by default found on a part of the rows.
    :param members: Networks that make up the model.
    :param device: auto, cpu, cuda, or another device of torch.
    :param overwrite: Replace a model that was saved in the folder.
    """
    from pyro_gcm.cli.columns import (
        SIGNS,
        by_class,
        check_types,
        columns_of,
        counts_rows,
        doubt_of,
        for_classes,
        put_in_order,
        roles_of,
        type_of,
    )
    from pyro_gcm.cli.tables import Reading, as_written, names_of, read_table

    reading = Reading.of_options(missing or (), decimal, thousands)
    is_csv = data.suffix.lower() == ".csv"
    if (text or reading.options) and not is_csv:
        named = "--text" if text else str(reading)
        raise WrongUse(f"{named} is for CSV files, whose columns have no types, got {data}")
    known = names_of(data)
    directed, classes = by_class({"increasing": increasing, "decreasing": decreasing}, known)
    lists: dict[str, Any] = {"target": [target], "event": event and [event]}
    lists |= {"group": group and [group], **directed, "ignore": ignore}
    lists |= {"exposure": exposure and [exposure]}
    of_text = columns_of("--text", text, known, str(data))
    roles = roles_of(known, str(data), lists)
    bent = columns_of("--concave", concave, known, str(data)) or None
    if other := [column for column in bent or () if roles[column] != "increasing"]:
        raise WrongUse(f"--concave must name columns of --increasing, got {other[0]!r}")

    # What follows takes seconds to import.
    import pyro_gcm
    from pyro_gcm import estimators
    from pyro_gcm._utils.files import check_writable
    from pyro_gcm.cli.saved import NOTES, ROWS, about_rows, facts_of
    from pyro_gcm.cli.target import target_of
    from pyro_gcm.data.tables import read_table as check_inputs
    from pyro_gcm.estimators.kinds import KINDS, scores
    from pyro_gcm.io import check_replaceable

    with blamed("--out"):
        check_replaceable(out, overwrite)
        check_writable(out, is_folder=True)
    frame = read_table(data, reading, of_text)
    put_in_order(frame, order or (), str(data))
    check_types(frame, roles, str(data), reading if is_csv else None, of_text)
    counting = [c for c, role in roles.items() if role == "free" and counts_rows(frame[c])]
    roles |= dict.fromkeys(counting, "ignored")
    letters = as_written(data, frame, [target])[target]
    about = {"event": event, "horizon": horizon, "levels": levels, "positive": positive}
    about |= {"exposure": exposure, "concave": bent}
    by_default = None if not classes else "classifier" if event is None else "competing"
    found = target_of(frame, target, letters, kind or by_default, about)
    directions = {name: SIGNS[role] for name, role in roles.items() if role in SIGNS}
    monotonic_cst = found.directions(event or target, directions, classes)
    X = frame[[name for name, role in roles.items() if role in (*SIGNS, "free", "exposure")]]
    with blamed(f"DATA {data}"):  # before rows are held out, whose numbers change
        check_inputs(X)
    groups = None if group is None else frame[group].to_numpy()
    train, test = _split(found, test_share, seed, groups)
    for column in bent or ():
        roles[column] += ", concave"
    for column in {column: None for own in classes.values() for column in own}:
        roles[column] = for_classes(column, classes)
    columns = [
        {"name": name, "type": type_of(frame[name]), "role": role}
        | {"missing": int(frame[name].isna().sum())}
        for name, role in roles.items()
    ]
    output.table(
        f"{data}: {len(frame)} rows, {found.kind}" + (f", {reading}" if reading.options else ""),
        ["column", "type", "role", "missing"],
        [list(column.values()) for column in columns],
    )
    if found.kind in ("classifier", "competing"):
        output.text(found.about_event(event or target, [*directions]))
    for number in counting:
        output.note(f"column {number!r} counts the rows and is left out; a direction keeps it")
    for name in X if is_csv else ():
        if doubt := doubt_of(X[name]):
            output.note(f"column {name!r} {doubt}")
    if not directions:
        warnings.warn("no column has a direction, see --increasing", stacklevel=1)
    settings: dict[str, Any] = {"epochs": epochs, "device": device}
    settings |= {"members": members, "random_state": seed, "verbose": not output.quiet}
    name = KINDS[found.kind]
    estimator = getattr(estimators, name)(monotonic_cst=monotonic_cst, **settings, **found.options)
    output.note(f"fitting a {name} to {len(train)} rows")
    with blamed(f"DATA {data}"):
        together = None if groups is None else groups[train]
        estimator.fit(X.iloc[train], found.y[train], groups=together)
    estimator.set_params(verbose=False)
    notes: dict[str, Any] = {"target": target, "columns": columns, "rows": len(train)}
    notes |= {"test_rows": len(test), "scores": {}}
    if reading.options:
        notes["reading"] = reading.options
    if found.kind == "regressor":
        notes["response"] = estimator.response_
    if event is not None:
        notes |= {"event": event, "horizon": estimator.horizon_}

    of_rows = about_rows(estimator.as_read(X), train, test)

    def save(replace: bool) -> None:
        with blamed("--out"):
            metrics = {NOTES: plain(notes), ROWS: plain(of_rows)}
            pyro_gcm.save(estimator, out, metrics=metrics, overwrite=replace)

    save(overwrite)
    if len(test):
        try:
            notes["scores"] = scores(estimator, X.iloc[test], found.y[test])
        except Exception as error:  # the model is there, whatever is wrong with these rows
            warnings.warn(f"no score of the rows held out: {one_line(error)}", stacklevel=1)
        for score, reached in notes["scores"].items():
            if not math.isfinite(reached):
                warnings.warn(f"{score} of the rows held out is {reached}", stacklevel=1)
        rows = [[score, f"{reached:.4f}"] for score, reached in notes["scores"].items()]
        output.table(f"{len(test)} rows that were held out", ["score", "value"], rows)
        save(True)
    output.note(f"model saved in {out}")
    made = {"class": name, "epochs": estimator.n_iter_, **facts_of(estimator), "out": out}
    output.document({"command": "fit", **notes, **made})


def _split(found: Any, share: float | None, seed: int, groups: Any) -> tuple[Any, Any]:
    """The rows to fit to, and those held out; both have both classes of a classifier.

    :param groups: of rows that stay together, [n], or None.
    """
    import numpy as np
    from sklearn.model_selection import GroupShuffleSplit, train_test_split

    rows = np.arange(len(found.y))
    if share is None:
        return rows, rows[:0]
    parts: Any = {"test_size": share, "random_state": seed}
    strata = found.y if found.kind == "classifier" else None
    with blamed("--test-share"):
        if groups is None:
            train, test = train_test_split(rows, stratify=strata, **parts)
        else:
            train, test = next(GroupShuffleSplit(1, **parts).split(rows, groups=groups))
    return np.sort(train), np.sort(test)
