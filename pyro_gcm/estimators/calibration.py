"""Calibration of a binary model after its training, by the costs of its members alone.

Costs that are shifted or made steeper leave every prediction monotone, and all that reads the
weights of a model follows: files and exports.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_gcm._utils.validation import shown
from pyro_gcm.estimators.training import Trained, TrainingRows
from pyro_gcm.models import GCM, IGCM, MemberGCM

#: Distance between the logits of mean and rate that is left, and steps at most.
_CLOSE, _STEPS = 1e-3, 8
#: Shifts of the raw steepness that are tried. One of -0.6 makes costs of steepness 1 about 0.6.
_TRIED = (-0.6, -0.4, -0.2, 0.0, 0.2, 0.4)


def check_calibrate(value: Any, left_out: int) -> None:
    """Refuse what `calibrate` cannot be, and True without rows that members left out.

    :param left_out: by how many members each row is left out.
    """
    value = bool(value) if isinstance(value, np.bool_) else value
    if not isinstance(value, bool | str) or value not in (True, False, "auto"):
        raise ValueError(f'calibrate must be "auto", True or False, got {shown(value)}')
    if value is True and not left_out:
        raise ValueError(
            "calibrate=True needs predictions of rows that members leave out: prior='members' with "
            "two members or more, 20 rows or more, and early_stopping=True, which is the default "
            "up to 20,000 rows where epochs is None; or calibrate='auto'"
        )


def best_steepness(fitted: Trained, rows: TrainingRows) -> float:
    """The shift of the raw steepness of all costs that is best on rows that members left out.

    It is the lowest point of a parabola through the log loss of several shifts.

    :param fitted: the model, trained on the rows, of which members left some out.
    """

    def at_each(crossed: Any, x: Tensor, r: Tensor) -> Tensor:
        """Predictions [b, S]."""
        raw = crossed.cost_net.steepness_bias
        start, found = raw.detach().clone(), []
        with torch.no_grad():
            for shift in _TRIED:
                raw.copy_(start + shift)
                found.append(crossed.predict(x, r))
            raw.copy_(start)
        return torch.stack(found, 1)

    p = fitted.out_of_fold(at_each, rows.x, rows.r).double().clamp(1e-9, 1.0 - 1e-9)
    losses = -torch.where(rows.y[:, None] > 0.5, p.log(), (1.0 - p).log())
    square, slope, _ = np.polyfit(_TRIED, (rows.weights.double() @ losses).numpy(), 2)
    if square <= 0.0:
        return 0.0
    return float(np.clip(-0.5 * slope / square, _TRIED[0], _TRIED[-1]))


def make_steeper(model: MemberGCM, shift: float) -> None:
    """Shift the raw steepness of all costs of all members."""
    raw: Any = model.cost_net.steepness_bias
    with torch.no_grad():
        raw.add_(shift)


def match_base_rate(model: GCM | IGCM, rows: TrainingRows) -> None:
    """Make the mean probability of a binary model the rate of the event: the end of its training.

    Mini-batches with a learning rate that has to end somewhere leave the mean of the probabilities
    a little off the rate of the rows, by about a standard error of that rate and the same for all
    members, since they see the same batches. One shift of the costs of a member mends it. Shifts
    keep every prediction monotone.

    :param model: a trained `GCM` or `IGCM` whose `cost_net` has `loc_bias`, as those of names do.
    :param rows: those it was trained on, whose weights count.
    """
    weight = (rows.weights / rows.weights.sum()).double()
    rate = float(weight @ rows.y.double())
    bias: Any = model.cost_net.loc_bias
    target = torch.logit(torch.tensor(rate, dtype=torch.float64))

    def distance() -> Tensor:
        """From the mean probability of each member to the rate, as logits, [K]."""
        ask = model.predict_draws if model.members else model.predict
        found = torch.atleast_2d(ask(rows.x, rows.r))
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
