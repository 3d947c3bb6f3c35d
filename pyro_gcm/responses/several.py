"""Several responses that share z, each with costs, an event and directions of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import ArrayLike, as_tensor, one_of, same_rows, shown
from pyro_gcm.data.survival_times import SurvivalTimes
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.several_outcomes import (
    SeveralOutcomes,
    costs_between,
    seen_of,
    split_columns,
)
from pyro_gcm.responses.axis import AxisResponse, Survival
from pyro_gcm.responses.response import MakeMap, Model, Response


@recorded("models.Several")
class Several(Response):
    """Responses by name that share z: y has the columns of all of them, side by side.

    Given z they are independent, each with costs and an increasing map of its own, so that what is
    known of one informs the others through z. One program, one fit::

        several = Several(
            {"default": Binary(), "months": Survival()},
            {"default": [1, 1], "months": [1, 0]},
        )
        model = MemberGCM(x_dim, 2, response=several)
        fit(model, x, r, {"default": late, "months": SurvivalTimes(...)})
        model.response_model("months").predictive(x, r).survival(times)

    An outcome that was not seen is NaN, and summed out: its row says nothing of that response.
    Where another outcome decides which are seen, as a loan is repaid only if it was granted, that
    is one more of `parts`.

    :param parts: responses by the names that they have here.
    :param directions: for every name +1 for a revenue in which the event of that response gets more
        likely, -1 for one in which it gets less likely and 0 for one that it does not read,
        [r_dim]; by default +1 for all.
    :raises ValueError: for no responses, for what is none, or wrong directions.
    """

    predicts = "prediction of several responses"
    needs_gcm = "its responses have directions of their own"

    def __init__(
        self, parts: Mapping[str, Response], directions: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        super().__init__()
        if not parts:
            raise ValueError("parts must have a response by name, got none")
        for name, part in parts.items():
            wrong = not isinstance(part, Response) or isinstance(part, Several)
            if wrong or part.r_dist() or part.cost_family:
                raise ValueError(
                    f"parts[{name!r}] must be a response (an object) whose revenues are data and "
                    f"whose costs are those of the model, and not nested, got {shown(part)}"
                )
        directions = directions or {}
        for name, own in directions.items():
            if name not in parts or not {*own} <= {-1, 0, 1}:
                raise ValueError(
                    f"directions[{name!r}] must be a list of +1, -1 and 0 for one of "
                    f"{list(parts)}, got {shown(own)}"
                )
        self.names = list(parts)
        self.parts: Any = nn.ModuleList(parts.values())
        self.directions_of = {name: directions.get(name) for name in self.names}
        self.outcome_width = sum(part.outcome_width for part in parts.values())

    def costs_of(self, costs: int) -> int:
        """The number of costs of all responses together."""
        return costs * len(self.names)

    def check_parts(self, revenue_map: Any, p0: Any) -> None:
        """Let each response check its parts; costs are finite."""
        if isinstance(revenue_map, nn.Module):
            raise ValueError(
                "revenue_map must be a name with several responses, each of which has a map of its "
                f"own, got {type(revenue_map).__name__}"
            )
        if p0 is not None:
            raise ValueError("p0 must be left out with several responses, which would share it")
        for part in self.parts:
            part.check_parts(revenue_map, p0)

    def revenue_maps(self, make: MakeMap, r_dim: int, shape: tuple[int, ...]) -> nn.Module:
        """A map for every response, of the revenues that it reads.

        :raises ValueError: for directions of other revenues.
        """
        rows = []
        for (name, given), part in zip(self.directions_of.items(), self.parts, strict=True):
            own = [1] * r_dim if given is None else list(given)
            reads = any(own) or isinstance(part, AxisResponse)  # which has an axis of its own
            if len(own) != r_dim or not reads:
                raise ValueError(
                    f"directions[{name!r}] must have +1, -1 or 0 for each of the {r_dim} revenues, "
                    f"not only 0, got {given}"
                )
            rows.append(own)
        self.rows = rows
        costs = shape[-1] // len(rows)
        maps = [make(sum(map(abs, own)), (*shape[:-1], costs)) for own in rows]
        return DirectedMaps(maps, rows)

    def prepare(self, model: Any, cost_shape: tuple[int, ...]) -> None:
        """Prepare every response for its costs."""
        self.attach(model)
        self.costs = cost_shape[-1] // len(self.names)
        for part in self.parts:
            part.prepare(model, (*cost_shape[:-1], self.costs))

    def outcome(self, y: ArrayLike, device: torch.device | None = None) -> Tensor:
        """Outcomes by name as columns side by side, [n, D] in float64.

        :raises TypeError: for anything but a mapping of all names or such columns.
        """
        if isinstance(y, Tensor) and y.dim() == 2 and y.shape[1] == self.outcome_width:
            y = {name: own for name, _, own in self.each(y)}
        if not isinstance(y, Mapping) or set(y) != set(self.names):
            raise TypeError(
                f"y must be a mapping with the outcomes {self.names}, got "
                f"{sorted(y) if isinstance(y, Mapping) else shown(y)}"
            )
        columns = {}
        for name, part in zip(self.names, self.parts, strict=True):
            given: Any = y[name]
            if isinstance(given, SurvivalTimes):
                own = part.outcome(given).double()
            else:
                given = as_tensor(f"y[{name!r}]", given).double()
                seen, filled = seen_of(given.reshape(len(given), -1))
                own = given.new_full((len(given), part.outcome_width), torch.nan)
                if seen.any():
                    known = part.outcome(filled.reshape(given.shape)).double()
                    own[seen] = known.reshape(own.shape)[seen]
            columns[name] = own
        same_rows(**columns)
        return torch.cat(list(columns.values()), -1).to(device)

    def each(self, y: Tensor) -> Iterator[tuple[str, Any, Tensor]]:
        """Every response, by name, with its columns of y [..., D]."""
        columns = split_columns(y, [part.outcome_width for part in self.parts])
        return zip(self.names, self.parts, columns, strict=True)

    def _each_seen(self, y: Tensor) -> Iterator[tuple[Any, Tensor]]:
        """Every response with the rows of its columns of y [n, D] that were seen, if any were."""
        for _, part, own in self.each(y):
            rows = own[~own.reshape(len(own), -1).isnan().any(1)]
            if len(rows):
                yield part, rows

    def check_revenue(self, r: Tensor) -> None:
        """Let each response check the revenues."""
        for part in self.parts:
            part.check_revenue(r)

    def check_outcome(self, y: Tensor) -> None:
        """Let each response check its own; late entry would select z for all of them."""
        for part, own in self._each_seen(y):
            part.check_outcome(own)
            if isinstance(part, Survival) and (own[..., 2] > 0.0).any():
                raise ValueError("y must have no entries above 0 with several responses")

    def check_latent(self, model: Any, y: Tensor) -> None:
        """Let each response check the model's z."""
        for part, own in self._each_seen(y):
            part.check_latent(model, own)

    def learn_unit(self, y: Tensor) -> None:
        """Let each response learn its unit.

        :raises ValueError: for a response that no row has seen.
        """
        for name, _, own in self.each(y):
            if own.isnan().all():
                raise ValueError(f"y[{name!r}] must have a value that is not NaN in some row")
        for part, own in self._each_seen(y):
            part.learn_unit(own)

    def standardized(self, y: Tensor) -> Tensor:
        """The mean of what a guide would read of each that was seen: one number a row."""
        read = [part.standardized(own).double() for _, part, own in self.each(y)]
        return torch.stack(read).nanmean(0).nan_to_num()

    def columns_of(self, y: Tensor) -> dict[str, Tensor]:
        """The columns of each, by its name and theirs."""
        found = {}
        for name, part, own in self.each(y):
            found.update({f"{name}.{column}": v for column, v in part.columns_of(own).items()})
        return found

    def drawn_columns(self, y: Tensor) -> dict[str, Tensor]:
        """Draws of each, by its name."""
        return {name: part.drawn(own) for name, part, own in self.each(y)}

    def derived(self, p_y: Any, cost: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        """Return the values that costs determine, by the names of response and site."""
        found, costs = {}, cost.split(self.costs, -1)
        seen = [None] * len(costs) if y is None else [own for *_, own in self.each(y)]
        every = zip(self.names, self.parts, p_y.parts, costs, seen, strict=True)
        for name, part, *own in every:
            found.update({f"{name}.{k}": v for k, v in part.derived(*own).items()})
        return found

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> SeveralOutcomes:
        """p(y | z, x, r), the product over the responses."""
        made = [partial(part.distribution, x=x, r=r) for part in self.parts]
        widths = [part.outcome_width for part in self.parts]
        return SeveralOutcomes(event, made, [self.costs] * len(made), widths)

    def predict(self, p_y: Any) -> Tensor:
        """Refuse: predictions are of one response.

        :raises ValueError: always.
        """
        raise ValueError(
            f"predict needs one response: model.response_model(name) with one of {self.names}"
        )

    def model_of(self, model: Model, name: Any) -> Model:
        """The same model with one of its responses alone, for predictions; see `GCM`."""
        one_of("name", name, self.names)
        place, view, whole = self.names.index(name), copy.copy(model), cast(Any, model)
        view._modules = dict(model._modules)
        view.response = own = copy.copy(self.parts[place])
        own.directions, own.is_part = (directions := self.rows[place]), True
        # Its costs and its map alone.
        start = place * self.costs
        view.cost_net = _Between(whole.cost_net, start, start + self.costs)
        vars(view)["cost_shape"] = (*whole.cost_shape[:-1], self.costs)
        view.revenue_map = DirectedMaps([whole.revenue_map.maps[place]], [directions])
        return view


class _Between(nn.Module):
    """Some of the costs of a network of the costs of all responses."""

    def __init__(self, costs: nn.Module, start: int, stop: int) -> None:
        super().__init__()
        self.costs, self.start, self.stop = costs, start, stop

    def forward(self, context: Tensor) -> Any:
        """p(c|z) of these costs."""
        return costs_between(self.costs(context), self.start, self.stop)


class DirectedMaps(nn.Module):
    """The maps of several responses, one after the other in the last dimension.

    :param maps: modules from the revenues that a response reads to [..., K_j].
    :param directions: +1, -1 or 0 (not read) for every revenue, for every map.
    """

    def __init__(self, maps: Sequence[nn.Module], directions: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.maps: Any = nn.ModuleList(maps)
        self.directions = [list(own) for own in directions]

    def _read(self, r: Tensor) -> list[Tensor]:
        """The revenues [..., m_j] that each map reads, in its directions."""
        parts = []
        for own in self.directions:
            columns = [place for place, sign in enumerate(own) if sign]
            signs = r.new_tensor([own[place] for place in columns])
            parts.append(r[..., columns] * signs)
        return parts

    def learn(self, r: Tensor) -> None:
        """Show rows [n, m] to the maps that learn from them."""
        for part, own in zip(self.maps, self._read(r), strict=True):
            if hasattr(part, "learn"):
                part.learn(own)

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., (members,) (G,) K_1 + K_2 + ..]."""
        pairs = zip(self.maps, self._read(r), strict=True)
        return torch.cat([part(own) for part, own in pairs], -1)
