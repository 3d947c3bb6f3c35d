"""Cross-fitting of members: each leaves out folds of the rows, and tells how well it predicts them.

A fold is left out by several members, whose averaged prediction of its rows is one of networks that
have not seen them. One training then says when to stop, and leaves out-of-fold predictions of all
rows behind (Chernozhukov et al. 2018 name the idea; that of a single training is TabM's shared
weights, which members leave out rows of by a weight of 0 in their losses).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor


class CrossFit(NamedTuple):
    """Which members leave out which rows.

    :param members: K, as many as there are folds.
    :param left_out: by how many of them each row is left out, from 1 to K - 1.
    """

    members: int
    left_out: int

    @property
    def leaves_out(self) -> Tensor:
        """Whether member k leaves out fold f, [K, K]; a fold's members are spread evenly."""
        steps = [self.members * at // self.left_out for at in range(self.left_out)]
        k = torch.arange(self.members)
        return torch.isin((k[:, None] - k) % self.members, torch.tensor(steps))

    def log_shares(self, fold: Tensor, *, held_out: bool) -> Tensor:
        """log of the weights of the members for rows of these folds [B], [K, 1, B].

        :param held_out: for the prediction of members that leave a row out, not for training.
        """
        among = self.leaves_out if held_out else ~self.leaves_out
        log_share = -math.log(self.left_out if held_out else self.members - self.left_out)
        table = torch.where(among, log_share, -math.inf).to(fold.device)
        return table[:, fold].unsqueeze(1)


def patience_of(rows: int) -> int:
    """Epochs without a better loss out of fold after which training stops: 8 to 3.

    The more rows there are, the less their loss goes up and down.
    """
    return max(3, min(8, round(8.0 * (1000.0 / rows) ** (1.0 / 3.0))))


class Crossed(NamedTuple):
    """Predictions of training rows by members that left them out.

    :param design: which members leave out which folds.
    :param fold: of each row that counted, [n].
    :param weights: the state of the model at the best epoch, before members saw all rows.
    """

    design: CrossFit
    fold: Tensor
    weights: dict[str, Any]


def folds_of(y: Tensor, count: int, order: torch.Generator, groups: Tensor | None = None) -> Tensor:
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
    _, group, sizes = groups.unique(return_inverse=True, return_counts=True)
    of_group, rows = torch.empty(len(sizes), dtype=torch.long), [0] * count
    shuffled = torch.randperm(len(sizes), generator=order)
    for label in shuffled[sizes[shuffled].argsort(descending=True, stable=True)].tolist():
        of_group[label] = fewest = rows.index(min(rows))
        rows[fewest] += int(sizes[label])
    return of_group[group]
