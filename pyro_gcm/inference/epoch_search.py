"""How many epochs are best: looked for by training without some of the rows, which are scored."""

from __future__ import annotations

import copy
from typing import Any

import torch

from pyro_gcm._utils.validation import positive_int
from pyro_gcm.inference.fit import fit
from pyro_gcm.training import Diverged, FitResult

#: Share of the rows that a search holds out.
VALIDATION = 0.15
#: Epochs without a better score after which a search ends.
PATIENCE = 8
#: At a constant rate, the default, an epoch gives the same weights in a search as afterwards.
SCHEDULE = "constant"
#: How many times the epochs that suit a model most often a search goes through.
MOST = 3


def search_epochs(
    model: Any,
    x: Any,
    r: Any,
    y: Any,
    *,
    searches: int = 1,
    epochs: int | None = None,
    seed: int = 0,
    **options: Any,
) -> int:
    """The number of epochs that is best for rows that a training has not seen.

    The rows are trained on without 15 % of them, and these are predicted after each epoch; the
    weights of the model are afterwards as they were. Train with the number that is found and with
    schedule="constant", with which the searches are made.

    :param searches: how many, each without other rows.
    :param epochs: of a search, at most; by default three times those of the model.
    :param options: of `fit`, but for those that say when to stop.
    :raises ValueError: as `fit`, and for too few rows.
    :raises Diverged: as `fit`; the model is as it was.

    >>> import torch
    >>> from pyro_gcm import GCM, fit
    >>> from pyro_gcm.inference import search_epochs
    >>> x, r = torch.randn(200, 3), torch.rand(200, 2)
    >>> y = (x[:, 0] + r.sum(1) > 1).float()
    >>> model = GCM(3, 2)
    >>> epochs = search_epochs(model, x, r, y, epochs=5, progress=False)
    >>> result = fit(model, x, r, y, epochs=epochs, schedule="constant", progress=False)
    """
    searches = positive_int("searches", searches)
    most = epochs or MOST * model.training_defaults(len(y)).epochs
    stops = {"validation": VALIDATION, "patience": PATIENCE, "epochs": most, "schedule": SCHEDULE}
    before = copy.deepcopy(model.state_dict())
    known = model.is_trained, model.training_summary
    results = []
    for part in range(searches):
        try:
            results.append(fit(model, x, r, y, **{**options, **stops, "seed": seed + part}))
        except Diverged as error:
            found = str(error).split(". The model has")[0]
            raise Diverged(
                f"{found}, in a search for the number of epochs. The model is as it was: lower "
                "learning_rate or clip_norm"
            ) from None
        finally:
            model.load_state_dict(before)
            model.is_trained, model.training_summary = known
    return best_epoch(*results)


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
