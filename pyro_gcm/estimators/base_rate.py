"""The last step of a classifier's training: its mean probability becomes the rate of the event.

Mini-batches with a learning rate that has to end somewhere leave the mean of the probabilities a
little off the rate of the rows, by about a standard error of that rate and the same for all
members, since they see the same batches. One shift of the costs of a member mends it. Shifts keep
every prediction monotone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_gcm.estimators.training import TrainingRows
from pyro_gcm.models import GCM, IGCM

#: Distance between the logits of mean and rate that is left, and steps at most.
_CLOSE, _STEPS = 1e-3, 8


def match_base_rate(model: GCM | IGCM, rows: TrainingRows) -> None:
    """Shift the costs of a binary model, for members each by itself.

    :param model: a trained `GCM` or `IGCM` whose `cost_net` has `loc_bias`, as those of names do.
    :param rows: those it was trained on, whose weights count.
    """
    weight = torch.ones(len(rows.y)) if rows.weight is None else rows.weight
    weight = (weight / weight.sum()).double()
    rate = float(weight @ rows.y.double())
    bias: Any = model.cost_net.loc_bias
    target = torch.logit(torch.tensor(rate, dtype=torch.float64))

    def distance() -> Tensor:
        """From the mean probability of each member to the rate, as logits, [K]."""
        if model.members:
            found = model.predict_draws(rows.x, rows.r)
        else:
            found = model.predict(rows.x, rows.r)[None]
        return torch.logit(found.double().cpu() @ weight) - target

    start = bias.detach().clone()
    shift, gap = torch.zeros(len(bias), dtype=torch.float64), distance()
    slope = torch.full_like(gap, -1.0)  # of the distance: dearer costs, fewer events
    for _ in range(_STEPS):
        if not gap.isfinite().all() or (gap.abs() < _CLOSE).all():
            break
        step = (-gap / slope).clamp(-1.0, 1.0)
        shift = shift + step
        with torch.no_grad():
            bias.copy_(start + shift[:, None].to(start))
        before, gap = gap, distance()
        secant = (gap - before) / step
        slope = torch.where((secant < -1e-3) & secant.isfinite(), secant, slope)
