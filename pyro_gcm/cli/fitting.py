"""The work of `fit` around the training: checks of options, the estimator, rows held out."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_gcm._utils.console import one_line
from pyro_gcm.cli.errors import WrongUse, blamed
from pyro_gcm.cli.output import plain
from pyro_gcm.cli.saved import NOTES
from pyro_gcm.cli.target import Target
from pyro_gcm.estimators.kinds import KINDS


def check_folder(out: Path, overwrite: bool) -> None:
    """Refuse a folder that cannot be written, or has what must not be lost."""
    from pyro_gcm.io.folder import check_place, check_replaceable

    with blamed("--out"):
        try:
            check_replaceable(Path(os.path.realpath(out)), overwrite)
        except FileExistsError as error:
            told = str(error).replace("pass overwrite=True", "pass --overwrite")
            raise FileExistsError(told) from error
        check_place(out)


def check_device(device: str) -> None:
    """Refuse a device that torch does not have here."""
    import torch

    try:
        torch.empty(0, device="cpu" if device == "auto" else device)
    except (AssertionError, RuntimeError) as error:
        raise WrongUse(
            f"--device must be auto, cpu, cuda or another device that torch finds, got {device!r}"
        ) from error


def check_horizon(horizon: float | None, kind: str) -> None:
    """Refuse a horizon of another kind of model, and one that is no time."""
    if horizon is not None and (kind != "survival" or not 0.0 < horizon < math.inf):
        raise WrongUse(
            f"--horizon must be a time above 0, for --kind survival, got {horizon:g} for {kind}"
        )


def estimator_of(target: Target, directions: Mapping[str, int], **options: Any) -> Any:
    """The estimator for a target, not yet fitted.

    :param options: of the estimator; the horizon is that of a survival model alone.
    """
    from pyro_gcm import estimators

    kind = KINDS[target.kind]
    if target.kind != "survival":
        options.pop("horizon")
    if target.kind == "distribution":  # that of a regressor is the better one for the rows
        options["response"] = kind.response
    made = getattr(estimators, kind.classes[0])
    return made(monotonic_cst=dict(directions), **target.options, **options)


def split(
    target: Target, share: float | None, seed: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The rows to fit to, and those held out; both have both classes of a classifier."""
    rows = np.arange(len(target.y))
    if share is None:
        return rows, rows[:0]
    held, least = math.ceil(share * len(rows)), 2 if target.kind == "classifier" else 1
    if not least <= held <= len(rows) - least:
        raise WrongUse(
            f"--test-share must leave {least} or more rows on either side, and {share:g} of "
            f"{len(rows)} rows holds out {held}"
        )
    from sklearn.model_selection import train_test_split

    strata = target.y if target.kind == "classifier" else None
    with blamed("--test-share"):
        train, test = train_test_split(rows, test_size=share, random_state=seed, stratify=strata)
    return np.sort(train), np.sort(test)


def save_model(estimator: Any, out: Path, notes: Mapping[str, Any], overwrite: bool) -> None:
    """Save a fitted estimator with what the command line has to know of it."""
    import pyro_gcm

    with blamed("--out"):
        pyro_gcm.save(estimator, out, metrics={NOTES: plain(notes)}, overwrite=overwrite)


def scores_of(estimator: Any, X: Any, y: Any) -> dict[str, float]:
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
