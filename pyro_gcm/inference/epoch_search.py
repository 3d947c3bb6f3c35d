"""How many epochs are best: looked for by training without some of the rows, which are scored."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from pyro_gcm._validation import positive_int
from pyro_gcm.training import FitResult
from pyro_gcm.training.checkpoint import Checkpoint
from pyro_gcm.training.workers import Alone

#: Share of the rows that a search holds out.
VALIDATION = 0.15
#: Epochs without a better score after which a search ends.
PATIENCE = 8
#: At a constant rate an epoch gives the same weights in a search as in the training that follows.
SCHEDULE = "constant"
#: How many times the epochs that suit a model most often a search goes through.
MOST = 3


class Search(NamedTuple):
    """What searches found.

    :param parts: on how many parts of the rows.
    :param epochs: that are best, or None without a search.
    :param results: of the searches; none where a checkpoint knows what they found.
    """

    parts: int = 0
    epochs: int | None = None
    results: tuple[FitResult, ...] = ()


def search_epochs(
    fit: Callable[..., FitResult], options: dict[str, Any], rows: int, workers: Alone
) -> Search:
    """Train without some of the rows as often as the model or the user asks; see `fit`.

    The weights of the model are afterwards as they were.

    :param fit: `pyro_gcm.fit`, and `options`: of the fit on all rows, the model among them.
    :param rows: number of rows that count.
    :raises ValueError: for searches in rows that hold others out already, or are read anew.
    """
    model, asked = options["model"], options["searches"]
    share = options["validation"]
    free = options["data"] is None and isinstance(share, int | float) and share == 0.0
    if isinstance(asked, FitResult):
        return Search(len(asked.searches), len(asked.rows))
    if asked is not None and positive_int("searches", asked, minimum=0) and not free:
        raise ValueError("searches must be 0 with data or validation, as they hold rows out")
    by_default = asked is None and free and options["epochs"] is None
    saved = Checkpoint(options["checkpoint"])
    with workers.used():
        state = workers.from_first(saved.read)
    with saved.undamaged():
        known = {} if state is None else state["identity"]
        if (by_default or asked) and known.get("searches"):
            return Search(int(known["searches"]), int(known["epochs"]))
    default = model.training_defaults(rows)
    count = default.searches if by_default and not model.is_trained else asked
    if not count:  # nor where a model that is trained already has seen all rows
        return Search()
    epochs = options["epochs"] or MOST * default.epochs
    own = {"epochs": epochs, "validation": VALIDATION, "patience": PATIENCE, "searches": 0}
    own = {**options, **own, "schedule": SCHEDULE, "checkpoint": None, "callback": None}
    before, is_trained = copy.deepcopy(model.state_dict()), model.is_trained
    results = []
    try:
        for part in range(count):
            results.append(fit(**{**own, "seed": options["seed"] + part}))
            model.load_state_dict(before)
    finally:
        model.load_state_dict(before)
        model.is_trained, model.training_summary = is_trained, None
    return Search(count, best_epoch(*results), tuple(results))


def best_epoch(*searches: FitResult) -> int:
    """Where the mean of three neighbouring validation losses is lowest, over all searches."""
    losses = [[row["validation_loss"] for row in search.rows] for search in searches]
    longest = max(map(len, losses))  # one that has ended stays as it was
    loss = torch.tensor([own + own[-1:] * (longest - len(own)) for own in losses]).mean(0)
    if len(loss) < 3:
        return int(loss.argmin()) + 1
    padded = torch.cat([loss[:1], loss, loss[-1:]])
    return int(padded.unfold(0, 3, 1).mean(1).argmin()) + 1
