"""Unordered classes with directions: a race in which each class has a cost and revenues."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import positive_int, shown
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.race import MinimumGumbel, RacedClass
from pyro_gcm.prediction.draws import Draws, Rows
from pyro_gcm.prediction.predictive import SampledPredictive
from pyro_gcm.responses.response import MakeMap, Model, Response
from pyro_gcm.responses.several import DirectedMaps
from pyro_gcm.training.result import entropy


class ClassPredictive(SampledPredictive):
    """A predictive distribution of unordered classes 0, 1, .., L-1."""

    def probabilities(self) -> Tensor:
        """Pr(y = k) of every class, [B, L], in float64; they sum to 1 to a few ulp."""

        def block(draws: Draws, rows: Rows) -> Tensor:
            return draws.mean(draws.p_y.probabilities64()).T

        return self._average(block, torch.float64)


@recorded("models.Classes")
class Classes(Response, name="classes"):
    """One of L classes without an order, each with directions of its own.

    Every class has a cost, and an increasing map of the revenues that speak for it; y is the class
    whose revenue exceeds its cost by most, in units of the scale of that cost. The costs are
    Gumbel, so that Pr(y | z, x, r) is a softmax, which z mixes. What speaks for class k alone
    raises Pr(y = k) and lowers that of every other class; what speaks against it does the opposite.
    What speaks for some classes raises the probability that one of them comes, and promises nothing
    of each. A revenue that has no direction for a class says nothing of its cost.

    The prediction is the probability of one class, `event`; `model.response_model(k)` predicts
    another one, and `model.predictive(x, r).probabilities()` has all.

    :param classes: their number L, at least 2.
    :param directions: for every class +1 for a revenue that speaks for it, -1 for one that speaks
        against it, and 0 for one that says nothing of it, [L, r_dim]; by default all speak for
        `event`.
    :param event: the class of predictions, by default the last.
    :raises ValueError: for directions of another shape, and for a revenue with the same direction
        for all classes, which could not change anything.
    """

    predicts = "probability"
    is_probability = True
    predictive = ClassPredictive
    log_likelihood_bound = 0.0
    needs_gcm = "its classes have directions of their own"
    cost_family = MinimumGumbel

    def __init__(
        self,
        x_dim: int = 0,
        hidden: Any = 16,
        *,
        classes: int = 3,
        directions: Sequence[Sequence[int]] | None = None,
        event: int = -1,
    ) -> None:
        super().__init__()
        self.classes = positive_int("classes", classes, minimum=2)
        if event not in range(-classes, classes):
            raise ValueError(f"event must be a class from 0 to {classes - 1}, got {shown(event)}")
        self.event, self.given = event % classes, directions

    def check_r_dim(self, r_dim: int) -> None:
        """Any number: without revenues there are no directions."""

    def costs_of(self, costs: int) -> int:
        """One for each class, of every alternative."""
        return self.classes

    def check_parts(self, revenue_map: Any, p0: Any) -> None:
        """Refuse one map for all classes, and infinite costs."""
        if isinstance(revenue_map, nn.Module):
            raise ValueError(
                "revenue_map must be a name with response='classes', each of which has a map of "
                f"its own, got {type(revenue_map).__name__}"
            )
        if p0 is not None:
            raise ValueError("p0 must be left out with response='classes': one of them comes")

    def revenue_maps(self, make: MakeMap, r_dim: int, shape: tuple[int, ...]) -> nn.Module:
        """A map for every class, of the revenues that have a direction for it."""
        rows = self.given
        if rows is None:
            rows = [[int(k == self.event)] * r_dim for k in range(self.classes)]
        rows = [list(row) for row in rows]
        if len(rows) != self.classes or any(
            len(row) != r_dim or not {*row} <= {-1, 0, 1} for row in rows
        ):
            raise ValueError(
                f"directions must have +1, -1 or 0 for each of the {self.classes} classes and "
                f"{r_dim} revenues, got {shown(self.given)}"
            )
        for place, column in enumerate(zip(*rows, strict=True)):
            if column[0] and len({*column}) == 1:
                raise ValueError(
                    f"directions must not be {column[0]:+d} for every class, as for revenue "
                    f"{place}: it would change no probability"
                )
        self.rows, one = rows, (*shape[:-1], 1)
        self.directions = self._order(self.event)
        maps = [make(sum(map(abs, row)), one) if any(row) else Nothing(one) for row in rows]
        return DirectedMaps(maps, rows)

    def _order(self, event: int) -> list[int]:
        return [order_of(column, event) for column in zip(*self.rows, strict=True)]

    def prepare(self, model: Any, cost_shape: tuple[int, ...]) -> None:
        """Take the place of the only response of a model."""
        self.attach(model)

    def check_outcome(self, y: Tensor) -> None:
        """Whole numbers from 0 to L - 1."""
        strange = (y != y.round()) | (y < 0) | (y > self.classes - 1)
        if strange.any():
            raise ValueError(
                f"y must be a class from 0 to {self.classes - 1} for {self.classes} classes, got "
                f"{sorted(set(y[strange].tolist()))[:5]}; responses.Classes(classes=...) has "
                "more of them"
            )

    def constant_loss(self, y: Tensor, share: Tensor) -> float | None:
        """That of the shares of the classes."""
        return entropy(y, share)

    def target(self, y: Tensor) -> Tensor:
        """1 for the class of predictions, 0 for others."""
        return (y == self.event).to(y)

    def standardized(self, y: Tensor) -> Tensor:
        """Classes as numbers from -1 to 1."""
        return 2.0 * y / (self.classes - 1) - 1.0

    def prediction_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Float64, in which the probabilities of all classes sum to 1."""
        return torch.float64

    def event_named(self, name: str | None) -> str:
        """The class of predictions."""
        return f"{name or 'y'} = {self.event}"

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> RacedClass:
        """p(y | z, x, r)."""
        return RacedClass(event, self.event, validate_args=False)

    def expected(self, p_y: RacedClass) -> Tensor:
        """The probability of the class of predictions, with gradients."""
        return p_y.expected()

    def model_of(self, model: Model, name: Any) -> Model:
        """The same model with predictions of another class; see `GCM.response_model`."""
        if name not in range(self.classes):
            raise ValueError(f"name must be a class from 0 to {self.classes - 1}, got {name!r}")
        view, whole = copy.copy(model), cast(Any, model)
        view._modules = dict(whole._modules)
        own = copy.copy(self)
        own.event, own.directions, own.is_part = int(name), self._order(int(name)), True
        view.response = own
        return view


def order_of(column: Sequence[int], event: int) -> int:
    """Whether Pr(y = event) rises (1) or falls (-1) with a revenue, or may do either (0).

    :param column: the directions of the revenue for all classes.
    """
    # What speaks against the others speaks for this class.
    moves = {sign if k == event else -sign for k, sign in enumerate(column)} - {0}
    return moves.pop() if len(moves) == 1 else 0


class Nothing(nn.Module):
    """The map of a class that no revenue speaks for: zeros of a shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, r: Tensor) -> Tensor:
        """[..., 0] -> [..., *shape]."""
        return r.new_zeros(*r.shape[:-1], *self.shape)
