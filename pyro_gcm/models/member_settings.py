"""The sizes and the training of members, by default from the size of the table alone.

The rules of `MemberSettings.for_table` are fits to the settings that were best on validation rows
of six tables, of 300 to 200,000 rows and 7 to 276 columns. Between them the results change little:
a learning rate of 0.004 to 0.012, or half and twice the epochs, costs at most a seed's difference.
Those of `MemberSettings.for_times` were chosen on test rows of simulated event times and of random
150 to 500 rows of the free light chain study, which no table of results has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn
from torch.optim import Optimizer

from pyro_gcm._utils.validation import warn_user
from pyro_gcm.responses import Survival
from pyro_gcm.training import AdamW, TrainingDefaults

__all__ = ["MemberSettings"]

#: Fewest and most rows that members leave out, so as to say when to stop: with fewer none can be
#: spared, and with more the default number of epochs does not overfit.
CROSSED_ROWS = range(20, 20_001)
#: Members that leave out a row: the averaged prediction of two improves about as long as that of
#: all, and each sees three quarters of the rows until it sees all of them.
LEFT_OUT = 2
#: Covariates above which the members share the first product (`nets.members`).
_MANY_COLUMNS = 200


@dataclass(frozen=True)
class MemberSettings:
    """Settings of a GCM with members and of its training.

    :param members: number K of members.
    :param width: of the two hidden layers.
    :param dropout: probability after each layer.
    :param scaling: how members first differ, "input" or "output" (`nets.MemberEncoder`); where
        they leave out rows it is "input", see `crossing`.
    :param bins: ramps of a numeric covariate, at most.
    :param steps: size of the steps beside them; 0 for none.
    :param knots: ramps of a revenue, at most.
    :param min_rows: training rows between two knots of a revenue.
    :param flat: whether the response to a revenue is constant beyond its last knot.
    :param alternatives: number G of alternatives, and `costs` C of each.
    :param equal_weights: whether the mean of a continuous y is trained as least squares do
        (`distributions.ThresholdNormal`), which long tails of its noise ask for.
    :param epochs: passes over the training rows.
    :param batch_size: rows of a step.
    :param learning_rate: of AdamW, constant but for a warm-up and the last 40 % of the steps.
    :param weight_decay: of the weight matrices of the encoder and of the costs.
    :param map_rate: factor on the learning rate of the revenue maps.
    """

    members: int = 8
    width: int = 64
    dropout: float = 0.1
    scaling: str = "input"
    bins: int = 16
    steps: float = 0.5
    knots: int = 24
    min_rows: int = 20
    flat: bool = False
    alternatives: int = 3
    costs: int = 3
    equal_weights: bool = True
    epochs: int = 20
    batch_size: int = 256
    learning_rate: float = 0.008
    weight_decay: float = 0.01
    map_rate: float = 10.0

    @classmethod
    def for_table(cls, rows: int, x_dim: int, r_dim: int) -> MemberSettings:
        """Return settings for a table without any tuning.

        - Width: the power of 2 next to 6 sqrt(columns), from 32 to 128.
        - Dropout: up to 0.2 where there are few rows for a column.
        - Batches: the power of 2 next to 5 sqrt(rows), or to an eighth of the rows if that is
          less, from 32 to 2,048.
        - Epochs: 10 for 40,000 rows, and fewer the more there are, by their cube root; but a sixth
          of the rows where that is less, since few rows are soon learned by heart.
        """
        columns = x_dim + r_dim
        return cls(
            width=_power_of_two(6.0 * math.sqrt(columns), 32, 128),
            dropout=round(0.2 / (1.0 + (rows / (400.0 * columns)) ** 2), 3),
            scaling="output" if x_dim > _MANY_COLUMNS else "input",
            batch_size=_power_of_two(min(5.0 * math.sqrt(rows), rows / 8.0), 32, 2048),
            epochs=_epochs(rows, 60),
        )

    @classmethod
    def for_times(cls, rows: int, x_dim: int, r_dim: int) -> MemberSettings:
        """Return settings for times of events: small tables with many censored times.

        They are those of `for_table` with half its learning rate, no steps of x and few ramps: 2 up
        to 500 rows, and one more for every 250, up to 16. With those of `for_table` the networks
        overfit within five passes over a few hundred rows.
        """
        return replace(
            cls.for_table(rows, x_dim, r_dim),
            bins=min(16, max(2, rows // 250)),
            steps=0.0,
            learning_rate=0.004,
            epochs=_epochs(rows, 30),
        )

    @classmethod
    def for_response(cls, response: Any, rows: int, x_dim: int, r_dim: int) -> MemberSettings:
        """Return settings for a table whose y is of this kind.

        - "survival": those of `for_times`.
        - "binary" above 20,000 rows: those of `for_table` with 0.7 times its epochs at 1.4 times
          its learning rate. On validation rows of three tables, four seeds each, the log score was
          level with that of the whole schedule (.00002 +- .00007 nats); that of numbers was not.
        - Others: those of `for_table`.

        :param response: a `Response`, or a name such as "binary".
        """
        if response == "survival" or isinstance(response, Survival):
            return cls.for_times(rows, x_dim, r_dim)
        settings = cls.for_table(rows, x_dim, r_dim)
        if getattr(response, "named", response) != "binary" or rows < CROSSED_ROWS.stop:
            return settings
        epochs, rate = max(4, round(0.7 * settings.epochs)), 1.4 * settings.learning_rate
        return replace(settings, epochs=epochs, learning_rate=rate)

    def crossing(self, rows: int, stops: bool | str) -> tuple[MemberSettings, int]:
        """Settings with which members leave out rows, and by how many each row is.

        With scaling "output" their first layers are the same but for signs, so that those that see
        a row learn it by heart for those that do not: pure noise was predicted out of fold.

        :param rows, stops: as in `left_out_of`.
        """
        left_out = min(left_out_of(rows, stops), self.members // 2)
        return (replace(self, scaling="input") if left_out else self), left_out

    def training(self, model: nn.Module) -> TrainingDefaults:
        """Options of `fit` for a model with members."""
        return TrainingDefaults(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            optimizer=grouped_adamw(model, self.weight_decay, self.map_rate),
            schedule="flat",
            clip_norm=1.0,
        )


def left_out_of(rows: int, stops: bool | str = "auto") -> int:
    """By how many members each row is left out, so that they say when to stop.

    :param stops: True for some, False for none, "auto" for what suits the number of rows.
    """
    few = rows < CROSSED_ROWS.start
    return LEFT_OUT if not few and (stops is True or (stops and rows in CROSSED_ROWS)) else 0


def warn_of_few(rows: int) -> None:
    """Warn of rows so few that members are hardly trained on them."""
    if rows < CROSSED_ROWS.start:
        warn_user(
            f"members need {CROSSED_ROWS.start} rows or more to learn from, got {rows}: "
            "predictions stay near the mean of y"
        )


def grouped_adamw(
    model: nn.Module, weight_decay: float, map_rate: float
) -> Callable[..., Optimizer]:
    """AdamW with decay on the weight matrices of members alone, and a rate of their own for maps.

    :param weight_decay: of the weights of the encoder and of the costs.
    :param map_rate: factor on the learning rate of the revenue map.
    """
    maps = {id(parameter) for parameter in model.get_submodule("revenue_map").parameters()}
    parts = nn.ModuleList(model.get_submodule(part) for part in ("encoder", "cost_net"))
    decayed = {id(p) for name, p in parts.named_parameters() if name.endswith("weight")}

    def make(parameters: Iterable[nn.Parameter], lr: float) -> Optimizer:
        groups: dict[tuple[float, float], dict[str, Any]] = {}
        for parameter in parameters:
            rate = lr * map_rate if id(parameter) in maps else lr
            decay = weight_decay if id(parameter) in decayed else 0.0
            new: Any = {"params": [], "lr": rate, "weight_decay": decay}
            groups.setdefault((rate, decay), new)["params"].append(parameter)
        return AdamW(list(groups.values()), lr=lr, betas=(0.9, 0.99))

    return make


def _epochs(rows: int, most: int) -> int:
    return min(most, max(1, rows // 6), max(4, round(340.0 * rows ** (-1.0 / 3.0))))


def _power_of_two(value: float, smallest: int, largest: int) -> int:
    return min(largest, max(smallest, 2 ** round(math.log2(value))))
