"""A GCM whose latent variable is one of several networks: an ensemble as a generative model.

The settings of `MemberSettings.for_table` are fits to those that were best on validation rows of
six tables, of 300 to 200,000 rows and 7 to 276 columns. Between them the results change little: a
learning rate of 0.004 to 0.012, or half and twice the epochs, costs at most a seed's difference.
Those for times of events were chosen on test rows of simulated times and of random 150 to 500 rows
of the free light chain study, which no table of results has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.torch_state import Randomness
from pyro_gcm._utils.validation import seed_of, warn_user
from pyro_gcm.distributions import InfiniteCost
from pyro_gcm.inference.reading import Plan
from pyro_gcm.models.base import OrderEventModel
from pyro_gcm.models.build import ResponseName, cost_shape_of
from pyro_gcm.models.gcm import GCM, JOINT_PARTS
from pyro_gcm.nets.members import MemberEncoder, gather_values, parts_of
from pyro_gcm.nets.networks import ConstantCategorical, widths_of
from pyro_gcm.nets.revenue_maps import member_map
from pyro_gcm.responses import CompetingRisks, Continuous, Response, Survival
from pyro_gcm.training.options import AdamW, TrainingDefaults

#: Fewest and most rows that members leave out, so as to say when to stop: with fewer none can be
#: spared, and with more the default number of epochs does not overfit.
CROSSED_ROWS = range(20, 20_001)


@dataclass(frozen=True)
class MemberSettings:
    """Settings of a GCM with members and of its training.

    :param members: number K of members; `width`: of the two hidden layers.
    :param dropout: probability after each layer.
    :param scaling: how members first differ, "input" or "output" (`nets.MemberEncoder`); where
        they leave out rows it is "input".
    :param bins: ramps of a numeric covariate, at most; `steps`: size of those beside them, or 0.
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
    def for_table(cls, rows: int, x_dim: int, r_dim: int, numeric: int = 0) -> MemberSettings:
        """Return settings for a table without any tuning.

        - Width: the power of 2 next to 6 sqrt(columns, at most rows / 20), from 32 to 128.
        - Bins: 16; above 64 covariates, with fewer than 40 rows for each, 4, and none with fewer
          than 20 for each numeric one (`numeric`; all if 0). Chosen, as was rows / 20, on simulated
          truths (20 to 400 columns, 300 to 3,000 rows) and 300 to 3,000 training rows of blog.
        - Dropout: up to 0.2 where there are few rows for a column.
        - Batches: the power of 2 next to 5 sqrt(rows), or to an eighth of the rows if that is
          less, from 32 to 2,048.
        - Epochs: 10 for 40,000 rows, and fewer the more there are, by their cube root; but a sixth
          of the rows where that is less, since few rows are soon learned by heart.
        """
        columns, bins = x_dim + r_dim, 16
        if x_dim > 64 and rows < 40 * x_dim:
            bins = 4 if rows >= 20 * (numeric or x_dim) else 0
        return cls(
            width=_power_of_two(6.0 * math.sqrt(min(columns, rows / 20.0)), 32, 128),
            dropout=round(0.2 / (1.0 + (rows / (400.0 * columns)) ** 2), 3),
            scaling="output" if x_dim > 200 else "input",  # one first product for all members
            bins=bins,
            batch_size=_power_of_two(min(5.0 * math.sqrt(rows), rows / 8.0), 32, 2048),
            epochs=_epochs(rows, 60),
        )

    @classmethod
    def for_response(cls, response: Any, rows: int, *columns: int) -> MemberSettings:
        """Return settings for a table whose y is of this kind, those of `for_table` but for two.

        - "survival", small tables with many censored times: those of `for_table` with half its
          learning rate, no steps of x and few ramps: 2 up to 500 rows, and one more for every 250,
          up to those of `for_table`, with whose settings the networks overfit within five passes
          over a few hundred rows.
        - "binary" above 20,000 rows: no dropout where it is at most .03; up to 80,000 rows 4 epochs
          in batches of 512, and with more 0.7 times the epochs at 1.4 times the learning rate. On
          validation rows of four tables, three or four seeds each, the log score was level with
          that of longer schedules (-.0007 to +.0004 nats); that of numbers was not.

        :param response: a `Response`, or a name such as "binary"; `columns`: as in `for_table`.
        """
        settings = cls.for_table(rows, *columns)
        if response == "survival" or isinstance(response, Survival | CompetingRisks):
            few: Any = {"bins": min(settings.bins, max(2, rows // 250)), "steps": 0.0}
            return replace(settings, epochs=_epochs(rows, 30), learning_rate=0.004, **few)
        if getattr(response, "named", response) != "binary" or rows < CROSSED_ROWS.stop:
            return settings
        if settings.dropout <= 0.03:  # worth less than the sixth of a step that it takes
            settings = replace(settings, dropout=0.0)
        if rows <= 80_000:
            return replace(settings, epochs=4, batch_size=512)
        epochs, rate = max(4, round(0.7 * settings.epochs)), 1.4 * settings.learning_rate
        return replace(settings, epochs=epochs, learning_rate=rate)

    def training(self, model: nn.Module) -> TrainingDefaults:
        """Options of `fit` for a model with members.

        AdamW decays the weight matrices of encoder and costs alone, and has a rate of its own for
        the revenue maps.
        """
        maps = {id(parameter) for parameter in model.get_submodule("revenue_map").parameters()}
        parts = nn.ModuleList(model.get_submodule(part) for part in ("encoder", "cost_net"))
        decayed = {id(p) for name, p in parts.named_parameters() if name.endswith("weight")}

        def grouped(parameters: Iterable[nn.Parameter], lr: float) -> Optimizer:
            groups: dict[tuple[float, float], dict[str, Any]] = {}
            for parameter in parameters:
                rate = lr * self.map_rate if id(parameter) in maps else lr
                decay = self.weight_decay if id(parameter) in decayed else 0.0
                new: Any = {"params": [], "lr": rate, "weight_decay": decay}
                groups.setdefault((rate, decay), new)["params"].append(parameter)
            return AdamW(list(groups.values()), lr=lr, betas=(0.9, 0.99))

        return TrainingDefaults(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            optimizer=grouped,
            schedule="flat",
            clip_norm=1.0,
        )


@recorded("models.MemberGCM")
class MemberGCM(GCM):
    """A GCM whose z is one of several networks (as in TabM; Gorishniy et al., ICLR 2025).

    Generative story, every name a Pyro site::

        z ~ Categorical(1/members)     # which member
        e = e_z(x)                     # its encoding of x, a deterministic site
        c ~ p(c|e, z)                  # costs, compared with the member's own increasing map of r
        y = 1 if c < h_z(r) in the product order, else 0

    z is summed out exactly. Objective "members", the default, trains each member on its own
    likelihood; `fit_members` chooses all settings from the table. All else is as for `GCM`.

    :param x_dim: number of covariates; `r_dim`: number of revenues, all increasing.
    :param response: as for `GCM`.
    :param members: their number, or a `nets.MemberEncoder`.
    :param hidden: width of the two layers of the encoder, or widths of any number of layers; "auto"
        is that of `MemberSettings.for_table`.
    :param alternatives: number G of alternatives, and `costs` K of each.
    :param cost_family: "logistic", "normal", "laplace", a registered class of location and scale,
        or a module that takes z and e_z(x), [..., K + H], to independent costs.
    :param revenue_map: as for `GCM`, with values [..., members, (G,) K]; by default splines, for
        each member maps of its own.
    :param p0: as for `GCM`; a module takes z and e_z(x).
    :param concave: as for `GCM`; `seed`: of the initial weights; `name`: as for `GCM`.
    :raises ValueError: for sizes below 1, unknown names, or parts that do not fit together.
    """

    objectives = {
        **GCM.objectives,
        "members": Plan(hidden=("w",), untrained=JOINT_PARTS, averages=True),
    }
    default_objective = "members"
    #: Whether p(z) is that of the constructor.
    weighs_equally = True

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        response: ResponseName | Response = "binary",
        members: int | MemberEncoder = 8,
        hidden: int | Sequence[int] | str = "auto",
        alternatives: int = 3,
        costs: int = 3,
        cost_family: str | type | nn.Module = "logistic",
        revenue_map: Any = None,
        p0: str | nn.Module | None = None,
        concave: Sequence[int] = (),
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        encoder: Any = members
        sizes: Any = 64 if hidden == "auto" else hidden
        widths, seed = widths_of(sizes), seed_of(seed)
        if not isinstance(encoder, MemberEncoder):
            many = MemberSettings.for_table(10**6, x_dim, r_dim)  # rows are not known yet
            width = many.width if hidden == "auto" else widths
            with Randomness(seed).in_use():
                encoder = MemberEncoder(x_dim, encoder, width, dropout=None)
        if encoder.x_dim != x_dim:
            raise ValueError(
                f"members must encode x_dim={x_dim} covariates, got an encoder of {encoder.x_dim}"
            )
        OrderEventModel.__init__(self, x_dim, r_dim, encoder.members, name)
        self._set_concave(concave)
        self.encoder, self.members = encoder, encoder.members
        self.out_dim = self.cost_dim = encoder.out_dim
        shape = cost_shape_of(alternatives, costs)
        prior = ConstantCategorical(self.members)
        with Randomness(seed).in_use():
            if response == "continuous":
                response = Continuous(self.out_dim, (), equal_weights=True)
            self._add_costs(shape, widths, response, prior, None, cost_family, p0)
            self._add_revenues(widths, revenue_map, None, None, seed, self.members)

    # The story: what is read of x, and which map r goes through, depend on the member

    def covariates(self, z: Tensor, x: Tensor) -> Tensor:
        """z and the member's encoding e_z(x) of x [B, x_dim], [..., B, K + H]."""
        return self.encoder(z, self.x_standardizer(x))

    def c_dist(self, z: Tensor, x: Tensor) -> Any:
        """p(c|e, z), of z and e_z(x) together."""
        e = self._read_covariates(x, z)
        cost = self.cost_net(e)
        return cost if self.infinite_net is None else InfiniteCost(cost, self.infinite_net(e))

    def mapped(self, r: Tensor, covariates: Tensor | None = None) -> Tensor:
        """h_z(r) by the map of the member of each draw, or h(r) of all members."""
        mapped = super().mapped(r)
        if covariates is None:
            return mapped
        z, _ = parts_of(covariates, self.members)
        return gather_values(mapped.movedim(1, 0), z)

    def _make_map(self, given: Any, seed: int, r_dim: int, shape: tuple[int, ...]) -> nn.Module:
        """The map that is named, or splines for each member."""
        if given is None and r_dim:
            levels = self.response.r_dist() is not None
            given = member_map(r_dim, shape, levels=levels, seed=seed)
        return super()._make_map(given, seed, r_dim, shape)

    def _learn_features(self, x: Tensor) -> None:
        """Learn the features of the encoder."""
        self.encoder.learn(x, self.x_standardizer)

    # Training

    def training_defaults(self, rows: int) -> TrainingDefaults:
        """Options of `fit` where they are left out, which depend on the table."""
        return self._settings(rows).training(self)

    @property
    def draws_equally(self) -> bool:
        """Whether p(z) is 1 / members, for a `z_dist` that is not overridden."""
        return self.weighs_equally and not self._overrides("z_dist")

    @property
    def can_leave_out(self) -> bool:
        """Whether members that leave out a row do not learn it from the others."""
        return self.encoder.first.r is not None

    def adapt(self, rows: int, *, epochs: int | None) -> None:
        """The dropout, where none was named."""
        if epochs is None:
            warn_of_few(rows)
        self.encoder.choose_dropout(self._settings(rows).dropout)

    def _settings(self, rows: int) -> MemberSettings:
        return MemberSettings.for_response(self.response, rows, self.x_dim, self.r_dim)


def warn_of_few(rows: int) -> None:
    """Warn of rows so few that members are hardly trained on them."""
    if rows < CROSSED_ROWS.start:
        warn_user(
            f"members need {CROSSED_ROWS.start} rows or more to learn from, got {rows}: "
            "predictions stay near the mean of y"
        )


def _epochs(rows: int, most: int) -> int:
    return min(most, max(1, rows // 6), max(4, round(340.0 * rows ** (-1.0 / 3.0))))


def _power_of_two(value: float, smallest: int, largest: int) -> int:
    return min(largest, max(smallest, 2 ** round(math.log2(value))))
