"""How many epochs are best: looked for by training without some of the rows, which are scored."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from pyro_gcm._utils.validation import positive_int
from pyro_gcm._utils.writing import check_writable
from pyro_gcm.training import Diverged, FitResult
from pyro_gcm.training.checkpoint import Checkpoint
from pyro_gcm.training.workers import Workers

#: Share of the rows that a search holds out.
VALIDATION = 0.15
#: Epochs without a better score after which a search ends.
PATIENCE = 8
#: At a constant rate, the default, an epoch gives the same weights in a search as afterwards.
SCHEDULE = "constant"
#: How many times the epochs that suit a model most often a search goes through.
MOST = 3


class Search(NamedTuple):
    """The result of the searches.

    :param parts: on how many parts of the rows.
    :param epochs: that are best, or None without a search.
    :param results: of the searches; none where a checkpoint knows what they found.
    """

    parts: int = 0
    epochs: int | None = None
    results: tuple[FitResult, ...] = ()


def search_epochs(
    fit: Callable[..., FitResult], options: dict[str, Any], rows: int, workers: Workers
) -> Search:
    """Train without some of the rows as often as the model or the user asks; see `fit`.

    The weights of the model are afterwards as they were.

    :param fit: `pyro_gcm.fit`, and `options`: of the fit on all rows, the model among them.
    :param rows: number of rows that count.
    :raises ValueError: for searches in rows that hold others out already, or are read anew.
    """
    model, asked, share = options["model"], options["searches"], options["validation"]
    free = options["data"] is None and isinstance(share, int | float) and share == 0.0
    if isinstance(asked, FitResult):
        if not free or options["epochs"] is not None:
            raise ValueError("searches must be left out with data, validation or epochs")
        return Search(len(asked.searches), asked.best_epoch)
    if asked is not None:
        asked = positive_int("searches", asked, minimum=0)
        if asked and not free:
            raise ValueError("searches must be 0 with data or validation, as they hold rows out")
        if asked and not 0 < round(VALIDATION * rows) < rows:
            raise ValueError(f"searches must be 0 with fewer than 4 rows, got {rows}")
    default = model.training_defaults(rows)
    saved = Checkpoint(options["checkpoint"])
    with workers.used():
        state = workers.from_first(saved.read)
    if state is not None:
        with saved.undamaged(ValueError):
            known = state["identity"]
            if known.get("searches") and asked:
                return Search(int(known["searches"]), int(known["epochs"]))
            if asked:
                raise ValueError("checkpoint is of another run: without a search for the epochs")
    if not asked or state is not None:
        return Search()
    if saved.path is not None and workers.rank == 0:
        check_writable(saved.path)
    results = _searched(fit, options, asked, MOST * default.epochs)
    return Search(asked, best_epoch(*results), results)


def _searched(
    fit: Callable[..., FitResult], options: dict[str, Any], count: int, most: int
) -> tuple[FitResult, ...]:
    """The results of the searches.

    :param most: epochs of a search where `options` have none.
    """
    model, settings = options["model"], replace(options["settings"], patience=PATIENCE)
    if settings.schedule == "default":
        settings = replace(settings, schedule=SCHEDULE)
    own = {**options, "validation": VALIDATION, "settings": settings, "searches": 0}
    own |= {"epochs": options["epochs"] or most, "checkpoint": None, "callback": None}
    before = copy.deepcopy(model.state_dict())
    is_trained, summary = model.is_trained, model.training_summary

    def restore() -> None:
        model.load_state_dict(before)
        model.is_trained, model.training_summary = is_trained, summary

    results = []
    try:
        for part in range(count):
            results.append(fit(**{**own, "seed": options["seed"] + part}))
            restore()
    except Diverged as error:
        found = str(error).split(". The model has")[0]
        raise Diverged(
            f"{found}, in a search for the number of epochs. The model is as it was: lower "
            "learning_rate or clip_norm"
        ) from None
    finally:
        restore()
    return tuple(results)


def best_epoch(*searches: FitResult) -> int:
    """Where the mean of three neighbouring validation losses is lowest, over all searches.

    Of several searches it is the first epoch that is no worse by a standard error of the difference
    between them: rows held out are few then, and to train too long costs more than too short.
    """
    losses = [[row["validation_loss"] for row in search.rows] for search in searches]
    longest = max(map(len, losses))  # one that has ended stays as it was
    loss = torch.tensor([own + own[-1:] * (longest - len(own)) for own in losses])
    if longest > 2:
        padded = torch.cat([loss[:, :1], loss, loss[:, -1:]], 1)
        loss = padded.unfold(1, 3, 1).mean(-1)
    best = int(loss.mean(0).argmin())
    if len(searches) == 1:
        return best + 1
    worse = loss - loss[:, best : best + 1]
    error = worse.std(0) / len(searches) ** 0.5
    return int((worse.mean(0) <= error).nonzero()[0]) + 1
