"""How members are trained on a table that nobody tuned anything on.

The rules are fits to the settings that were best on validation rows of six tables of 300 to 200,000
rows and 7 to 276 columns; `python -m reproduce members` shows what they give there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn
from torch.optim import Optimizer

from pyro_gcm.training import AdamW, TrainingDefaults

LEARNING_RATE = 0.005
WEIGHT_DECAY = 0.01
#: Factor on the learning rate of the revenue maps.
MAP_RATE = 10.0
CLIP_NORM = 1.0
#: Covariates above which the members share the first product; see `nets.batch_ensemble`.
MANY_COLUMNS = 200


def width(columns: int) -> int:
    """Width of the hidden layers for a number of covariates and revenues, a power of 2."""
    return min(128, max(32, 2 ** round(math.log2(6.0 * math.sqrt(columns)))))


def dropout(rows: int, columns: int) -> float:
    """Probability of dropout: up to 0.2 where there are few rows for a column."""
    return 0.2 / (1.0 + (rows / (400.0 * columns)) ** 2)


def batch_size(rows: int) -> int:
    """Rows of a batch, a power of 2 near 2.6 sqrt(rows)."""
    return min(1024, max(32, 2 ** round(math.log2(2.6 * math.sqrt(rows)))))


def epochs(rows: int) -> int:
    """Passes over the rows: 10 for 40,000 of them, and fewer the more there are."""
    return min(60, max(4, round(340.0 * rows ** (-1.0 / 3.0))))


def defaults(model: Any, rows: int) -> TrainingDefaults:
    """Options of `fit` for a model with members."""
    return TrainingDefaults(
        epochs=epochs(rows),
        batch_size=batch_size(rows),
        learning_rate=LEARNING_RATE,
        optimizer=grouped_adamw(model),
        schedule="flat",
        clip_norm=CLIP_NORM,
    )


def grouped_adamw(
    model: Any, *, weight_decay: float = WEIGHT_DECAY, map_rate: float = MAP_RATE
) -> Callable[..., Optimizer]:
    """AdamW for a model with members: decay on weight matrices alone, maps at a rate of their own.

    :param weight_decay: of the weights of the encoder and of the costs.
    :param map_rate: factor on the learning rate of the revenue map.
    """
    maps = {id(parameter) for parameter in model.revenue_map.parameters()}
    decayed = {
        id(parameter)
        for part in (model.encoder, model.cost_net)
        for name, parameter in part.named_parameters()
        if name.endswith("weight")
    }

    def make(parameters: Iterable[nn.Parameter], lr: float) -> Optimizer:
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for parameter in parameters:
            rate = lr * map_rate if id(parameter) in maps else lr
            decay = weight_decay if id(parameter) in decayed else 0.0
            groups.setdefault((rate, decay), []).append(parameter)
        return AdamW(
            [
                {"params": group, "lr": rate, "weight_decay": decay}
                for (rate, decay), group in groups.items()
            ],
            lr=lr,
            betas=(0.9, 0.99),
        )

    return make
