"""Costs: left open in a story, possibly infinite, shifted, averaged over draws of z."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_gcm._utils.validation import broadcast_shapes
from pyro_gcm.distributions.base import Expandable
from pyro_gcm.distributions.families import (
    base_distribution,
    of_same_family,
    parameters_of,
)


class Left:
    """A site whose value may be left open: its distribution, and its value where there is one.

    An `OrderEvent` takes it for its cost, and integrates it out or compares the value. Any other
    use of it is an error, because the same line has to serve where there is no value.

    :param name: of the site.
    :param fn: its distribution.
    :param value: a draw, or None where the site is integrated out.
    """

    __slots__ = ("fn", "is_used", "name", "value")

    def __init__(self, name: str, fn: Any, value: Tensor | None = None) -> None:
        self.name, self.fn, self.value, self.is_used = name, fn, value, False

    @property
    def side(self) -> Any:
        """The operand of an order event: the value, or the distribution."""
        self.is_used = True
        return self.fn if self.value is None else self.value

    @property
    def shape(self) -> Any:
        """The shape that a value has."""
        return self.fn.shape()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(
            f"site '{self.name}' is integrated out, so that it has no value to compute with: it "
            "may go to y_dist or OrderEvent alone. Shift or scale its distribution instead, for "
            "costs in c_dist"
        )

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        self._refuse()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [*args, *(kwargs or {}).values()]
        flat = [v for part in given for v in (part if isinstance(part, list | tuple) else [part])]
        next(v for v in flat if isinstance(v, Left))._refuse()


_OPERATORS = "add sub mul truediv floordiv mod pow matmul lt le gt ge eq ne neg pos abs getitem"
for _name in _OPERATORS.split():
    for _operator in (f"__{_name}__", f"__r{_name}__"):
        setattr(Left, _operator, Left._refuse)
Left.__hash__ = object.__hash__  # type: ignore[method-assign]


def sides(cost: Any) -> tuple[Any, Any]:
    """The distribution of a cost, and its value or None: of a `Left`, or a distribution."""
    if not isinstance(cost, Left):
        return cost, None
    cost.is_used = True
    return cost.fn, cost.value


def univariate(name: str, value: Any) -> Any:
    """The univariate distribution of the coordinates of a cost or a revenue, [K] or [G, K].

    :param name: of the argument, for an error.
    :raises TypeError: unless it is a distribution.
    :raises ValueError: for another event shape, and for dependent coordinates.
    """
    if not isinstance(value, torch.distributions.Distribution):
        raise TypeError(f"{name} must be a tensor or a distribution, got {type(value).__name__}")
    if len(value.event_shape) not in (1, 2):
        raise ValueError(
            f"{name} has event_dim {len(value.event_shape)}, expected 1 for [K] or 2 for [G, K]; "
            "use .to_event(1) or .to_event(2)"
        )
    return base_distribution(value)


class InfiniteCost(Expandable):
    """A cost that is +inf with probability p0 = sigmoid(logits) and otherwise a draw of `cost`.

    It bounds the probability of an order event: Pr(c < r) < 1 - p0 for every revenue, so that a
    model trained on small revenues is not certain of y = 1 at large ones. An alternative is
    infinite as a whole, in all its K coordinates, and independently of the other alternatives;
    with several of them the bound is 1 - prod_g p0_g.

    `log_prob` is the density with respect to Lebesgue measure plus an atom at the row of infinite
    costs: log(1 - p0) + log p(c) of a finite row and log(p0) of an infinite one. A row with both
    finite and infinite costs has density 0.

    Source: paper, appendix C.

    :param cost: distribution with independent coordinates, of event shape [K] or [G, K].
    :param logits: log-odds of an infinite cost, of a shape that broadcasts against `batch_shape`
        for [K] and `batch_shape + (G,)` for [G, K]; -inf gives `cost` itself.
    :raises ValueError: for a cost whose coordinates are not independent.

    >>> import pyro.distributions as dist, torch
    >>> from pyro_gcm.distributions import InfiniteCost, OrderEvent
    >>> cost = InfiniteCost(dist.Normal(torch.zeros(2), 1.0).to_event(1), torch.tensor(0.0))
    >>> OrderEvent(cost, torch.full((2,), 100.0)).mean
    tensor(0.5000)
    """

    arg_constraints: dict[str, Any] = {"logits": constraints.real}

    def __init__(
        self, cost: TorchDistribution, logits: Tensor, *, validate_args: bool | None = None
    ) -> None:
        univariate("cost", cost)
        alternatives = cost.event_shape[:-1]  # (G,), or nothing
        rows = broadcast_shapes(cost.batch_shape + alternatives, logits.shape)
        batch_shape = rows[: len(rows) - len(alternatives)]
        self.cost = cost if cost.batch_shape == batch_shape else cost.expand(batch_shape)
        self.logits = logits.expand(rows)  # [..., (G)]
        super().__init__(batch_shape, cost.event_shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> constraints.Constraint | None:
        """The support of `cost`, which includes its infinite boundary."""
        return self.cost.support

    def expand(self, batch_shape: Any, _instance: Any = None) -> InfiniteCost:
        """The same distribution with a larger batch shape."""
        cost, alternatives = self.cost.expand(torch.Size(batch_shape)), self.event_shape[:-1]
        logits = self.logits.expand(cost.batch_shape + alternatives)
        return InfiniteCost(cost, logits, validate_args=self._validate_args)

    @property
    def p0(self) -> Tensor:
        """Probability that an alternative is infinite, `batch_shape` or `batch_shape + (G,)`."""
        return torch.sigmoid(self.logits)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density, of shape `sample_shape + batch_shape`."""
        self._check(value)
        finite = value.isfinite()
        # Any finite value will do instead: the density at infinity would have NaN gradients.
        density: Tensor = base_distribution(self.cost).log_prob(torch.where(finite, value, 0.5))
        log_atom = torch.where((value == math.inf).all(-1), logsigmoid(self.logits), -math.inf)
        log_p = torch.where(finite.all(-1), logsigmoid(-self.logits) + density.sum(-1), log_atom)
        return log_p.sum(-1) if len(self.event_shape) == 2 else log_p

    @property
    def mean(self) -> Tensor:
        """Infinite where p0 > 0."""
        return torch.where((self.logits > -math.inf)[..., None], math.inf, self.cost.mean)

    @property
    def variance(self) -> Tensor:
        """Infinite where p0 > 0."""
        return torch.where((self.logits > -math.inf)[..., None], math.inf, self.cost.variance)

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`."""
        draw: Tensor = self.cost.sample(sample_shape)
        return draw.masked_fill(self.sample_infinite(draw.shape[:-1])[..., None], math.inf)

    @torch.no_grad()
    def sample_infinite(self, shape: torch.Size) -> Tensor:
        """Draws of whether each alternative is infinite, of shape `shape`, `[..., (G)]`."""
        uniform = torch.rand(shape, dtype=torch.float64, device=self.logits.device)
        return uniform < torch.sigmoid(self.logits.double())


def prepend_atom(
    logits: Tensor, hit: Tensor, miss: Tensor, function: Callable[[Tensor], Tensor] = logsigmoid
) -> tuple[Tensor, Tensor]:
    """The log-probabilities that coordinates hit and miss, with the atom as the first one.

    An infinite cost misses every revenue, so the atom is one more coordinate, which hits with
    probability 1 - p0.

    :param logits: log-odds of an infinite cost, [..., (G)].
    :param hit: log-probabilities of finite costs, float64, [..., (G,) K].
    :param miss: those of the complement.
    :param function: of log-odds: `torch.sigmoid` for probabilities in place of their logarithms.
    :returns: both, [..., (G,) 1 + K].
    """
    rows = broadcast_shapes(logits.shape, hit.shape[:-1])

    def with_atom(odds: Tensor, costs: Tensor) -> Tensor:
        return torch.cat([function(odds).expand(rows)[..., None], costs.expand(*rows, -1)], -1)

    return with_atom(-logits.double(), hit), with_atom(logits.double(), miss)


def finite_part(cost: Any) -> Any:
    """The distribution of a cost given that it is finite."""
    return cost.cost if isinstance(cost, InfiniteCost) else cost


def shifted(cost: Any, by: Tensor) -> Any:
    """Costs [..., (G,) K] of a location-scale family, moved by one number for each row.

    :param by: [...]; infinite costs stay infinite.
    :raises ValueError: for a family without a parameter `loc`.
    """
    if isinstance(cost, InfiniteCost):
        return InfiniteCost(shifted(cost.cost, by), cost.logits, validate_args=False)
    base = base_distribution(cost)
    parameters = parameters_of(base)
    if "loc" not in parameters:
        raise ValueError(f"cost must have a parameter 'loc' to shift, got {type(base).__name__}")
    events = len(cost.event_shape)
    parameters["loc"] = parameters["loc"] + by.reshape(*by.shape, *(1,) * events)
    return of_same_family(base, **parameters).to_event(events)
