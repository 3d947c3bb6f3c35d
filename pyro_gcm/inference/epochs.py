"""How many epochs are best: by training without some rows, which are scored.

`search_epochs` leaves the same rows out of a whole model. Cross-fitting has each member leave out
folds of the rows. A fold is left out by several members, whose averaged prediction of its rows is
one of networks that have not seen them: one training says when to stop, and leaves out-of-fold
predictions of all rows behind (Chernozhukov et al. 2018 name the idea; that of a single training is
TabM's shared weights, which members leave out rows of by a weight of 0 in their losses).
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from pyro_gcm._utils.validation import (
    ArrayLike,
    checked_data,
    column_names,
    positive_int,
    told_once,
)
from pyro_gcm.inference.fit import fit
from pyro_gcm.inference.training_data import copies, weighed
from pyro_gcm.training import FitResult
from pyro_gcm.training.options import Adam, down

#: Share of the rows that a search holds out.
VALIDATION = 0.15
#: Epochs without a better score after which a search ends.
PATIENCE = 8
#: At a constant rate, the default, an epoch gives the same weights in a search as afterwards.
SCHEDULE = "constant"
#: How many times the epochs that suit a model most often a search goes through.
MOST = 3
#: Epochs on all rows that follow, in those up to the best one.
LAST = 0.15


def search_epochs(
    model: Any,
    x: Any,
    r: Any,
    y: Any,
    *,
    epochs: int | None = None,
    seed: int = 0,
    **options: Any,
) -> int:
    """The number of epochs that is best for rows that a training has not seen.

    The rows are trained on without 15 % of them, and these are predicted after each epoch; the
    weights of the model are afterwards as they were. Train with the number that is found and with
    schedule="constant", with which the search is made.

    :param epochs: of the search, at most; by default three times those of the model.
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
    most = epochs or MOST * model.training_defaults(len(y)).epochs
    stops = {"validation": VALIDATION, "patience": PATIENCE, "epochs": most, "schedule": SCHEDULE}
    return best_epoch(fit(copy.deepcopy(model), x, r, y, **{**options, **stops, "seed": seed}))


def best_epoch(result: FitResult) -> int:
    """Where the mean of three neighbouring validation losses is lowest."""
    loss = torch.tensor([row["validation_loss"] for row in result.rows])
    if len(loss) > 2:
        loss = torch.cat([loss[:1], loss, loss[-1:]]).unfold(0, 3, 1).mean(-1)
    return int(loss.argmin()) + 1


class Crossed(NamedTuple):
    """Predictions of training rows by members that left them out.

    :param leaves_out: whether member k leaves out fold f, [K, K].
    :param fold: of each row that counted, [n].
    :param weights: the state of the model at the best epoch, before members saw all rows.
    """

    leaves_out: Tensor
    fold: Tensor
    weights: dict[str, Any]


@told_once()
def cross_fit(
    model: Any,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    *,
    left_out: int,
    groups: Any = None,
    sample_weight: ArrayLike | None = None,
    epochs: int | None = None,
    seed: int = 0,
    **options: Any,
) -> tuple[FitResult, Crossed]:
    """Train a `MemberGCM` of which each row is left out by some members, which say when to stop.

    At a constant learning rate, averaged weights of the best epoch are kept, with a patience of 8
    epochs, or fewer for more than 1,000 rows; a few epochs follow in which all members see all
    rows, and which have no validation loss.

    :param left_out: by how many members each row is left out.
    :param groups: a label for each row, [n], of which rows with the same one are left out together;
        by default copies of a row are.
    :param epochs: at most; by default three times those of the model.
    :param options: of `fit`, but for those that say when to stop.
    :returns: the result, and what predicts rows out of fold.
    :raises ValueError: as `fit`, and unless the objective is "members" and left_out below their
        number.
    """
    count = model.members
    if not 0 < positive_int("left_out", left_out) < count or not model.can_leave_out:
        raise ValueError(
            f"left_out must be below the {count} members of a MemberGCM whose scaling is 'input', "
            f"got {left_out}"
        )
    columns = checked_data(model, x, r, y, required="xry")
    rows = len(columns["y"])
    index, weights = weighed(torch.ones(rows) if sample_weight is None else sample_weight, rows)
    labels: Any = None
    if groups is not None and (labels := np.asarray(groups)).shape != (rows,):
        shape = list(labels.shape)
        raise ValueError(f"groups must have a label for each of the {rows} rows, got shape {shape}")
    rows_of: Any = {name: column[index] for name, column in columns.items()}
    order = torch.Generator().manual_seed(seed)
    y_of = rows_of["y"]
    if labels is None and (same := copies(**rows_of)) is not None:
        label, leaders = same
        fold = folds_of(y_of[leaders], count, order)[label]
    else:
        fold = folds_of(y_of, count, order, None if labels is None else labels[index.numpy()])
    steps = [count * at // left_out for at in range(left_out)]  # a fold's members spread evenly
    k = torch.arange(count)
    leaves_out = torch.isin((k[:, None] - k) % count, torch.tensor(steps))
    counts = count / (count - left_out) * weights[:, None] * ~leaves_out.T[fold]
    most = epochs or MOST * model.training_defaults(len(fold)).epochs
    # The more rows there are, the less their loss goes up and down.
    patience = max(3, min(PATIENCE, round(PATIENCE * (1000.0 / len(fold)) ** (1.0 / 3.0))))
    stops = {"epochs": most, "patience": patience, "schedule": SCHEDULE}
    make = options.get("optimizer") or model.training_defaults(len(fold)).optimizer or Adam
    made: list[Optimizer] = []

    def kept(parameters: Any, **how: Any) -> Optimizer:
        """One optimiser for both trainings, so that the second has its moments from the start."""
        if not made:
            made.append(make(parameters, **how))
        return made[0]

    options |= {"seed": seed, "optimizer": kept}
    first = fit(model, **rows_of, sample_weight=counts, **{**options, **stops})
    crossed = Crossed(leaves_out, fold, copy.deepcopy(model.state_dict()))
    goes_on = {"epochs": max(1, round(LAST * first.best_epoch)), "schedule": down}
    goes_on |= {"standardize": False, "sample_weight": weights}
    last = fit(model, **rows_of, **{**options, **goes_on})
    done = first.rows[-1]
    later = [{**row, **{n: row[n] + done[n] for n in ("epoch", "step")}} for row in last.rows]
    result = replace(first, rows=first.rows + later)
    model.training_summary |= {
        "columns": {name: column_names(part) for name, part in (("x", x), ("r", r))},
        "left_out": left_out,
        "epochs": len(result.rows),
        "best_epoch": result.best_epoch,
    }
    return result, crossed


def folds_of(y: Tensor, count: int, order: torch.Generator, groups: Any = None) -> Tensor:
    """A random fold for every row, [n], of as equal sizes as can be.

    Rows are dealt out in the order of y, so that all folds have outcomes of every size; or groups,
    the largest first, each to the fold that has the fewest rows.

    :param y: outcomes [n] or [n, D], of which the first column counts.
    :param groups: label of each row, [n]; rows with the same one are in one fold.
    """
    n = len(y)
    if groups is None:
        shuffled = torch.randperm(n, generator=order)
        by_outcome = shuffled[y.reshape(n, -1)[shuffled, 0].argsort(stable=True)]
        fold = torch.empty(n, dtype=torch.long)
        for dealt in by_outcome.split(count):
            fold[dealt] = torch.randperm(count, generator=order)[: len(dealt)]
        return fold
    group, sizes = map(
        torch.from_numpy, np.unique(groups, return_inverse=True, return_counts=True)[1:]
    )
    of_group, rows = torch.empty(len(sizes), dtype=torch.long), [0] * count
    shuffled = torch.randperm(len(sizes), generator=order)
    for label in shuffled[sizes[shuffled].argsort(descending=True, stable=True)].tolist():
        of_group[label] = fewest = rows.index(min(rows))
        rows[fewest] += int(sizes[label])
    return of_group[group]
