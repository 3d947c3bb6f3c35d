"""Several responses that share z, each with costs, an event and directions of its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import ArrayLike, one_of, same_rows, shown
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.distributions.joint import SeveralOutcomes, costs_between
from pyro_gcm.nets.parts import check_input
from pyro_gcm.responses.response import MakeMap, Model, Response
from pyro_gcm.responses.survival import Survival

__all__ = ["Several"]


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

    :param parts: responses by the names that they have here, two or more.
    :param directions: for every name +1 for a revenue in which the event of that response gets more
        likely, -1 for one in which it gets less likely and 0 for one that it does not read,
        [r_dim]; by default +1 for all.
    :raises ValueError: for fewer than two responses, or wrong directions.
    """

    predicts = "prediction of several responses"

    def __init__(
        self, parts: Mapping[str, Response], directions: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        super().__init__()
        good = isinstance(parts, Mapping) and len(parts) > 1
        if not good or not all(isinstance(part, Response) for part in parts.values()):
            raise ValueError(
                f"parts must have two or more responses (objects) by name, got {shown(parts)}"
            )
        directions = {} if directions is None else directions
        if not isinstance(directions, Mapping):
            raise TypeError(f"directions must be a mapping from names, got {shown(directions)}")
        for name, own in directions.items():
            if not isinstance(own, list | tuple) or any(sign not in (-1, 0, 1) for sign in own):
                raise ValueError(
                    f"directions[{name!r}] must be a list of +1, -1 and 0, got {shown(own)}"
                )
        if unknown := set(directions) - set(parts):
            raise ValueError(f"directions has {sorted(unknown)}, which are none of the parts")
        if any(p.r_dist() is not None or isinstance(p, Several) for p in parts.values()):
            raise ValueError("parts must be responses whose revenues are data, and not nested")
        self.names = list(parts)
        self.parts: Any = nn.ModuleList(parts.values())
        self.directions_of = {name: directions.get(name) for name in self.names}
        self.outcome_width = sum(part.outcome_width for part in parts.values())

    def check_generated(self) -> None:
        """Refuse revenues without directions."""
        self.needs_gcm("its responses have directions of their own")

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
        for name, given in self.directions_of.items():
            own = [1] * r_dim if given is None else list(given)
            if len(own) != r_dim or not any(own):
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
        self.attach()
        self.costs = cost_shape[-1] // len(self.names)
        for part in self.parts:
            if isinstance(getattr(part, "net", None), nn.Module):
                check_input("parts", part.net, model.out_dim)
        for part in self.parts:
            part.prepare(model, (*cost_shape[:-1], self.costs))

    def outcome(self, y: ArrayLike, device: torch.device | None = None) -> Tensor:
        """Outcomes by name as columns side by side, [n, D] in float64.

        :raises TypeError: for anything but a mapping of all names or such columns.
        """
        if isinstance(y, Tensor) and y.dim() == 2 and y.shape[1] == self.outcome_width:
            y = {name: own for name, (_, own) in zip(self.names, self._pairs(y), strict=True)}
        if not isinstance(y, Mapping) or set(y) != set(self.names):
            raise TypeError(
                f"y must be a mapping with the outcomes {self.names}, got "
                f"{sorted(y) if isinstance(y, Mapping) else shown(y)}"
            )
        pairs = zip(self.names, self.parts, strict=True)
        columns = {name: _columns(part.outcome(y[name])) for name, part in pairs}
        same_rows(**columns)
        return torch.cat(list(columns.values()), -1).to(device)

    def _pairs(self, y: Tensor) -> list[tuple[Any, Tensor]]:
        """Every response with its columns of y [..., D]."""
        columns = y.split([part.outcome_width for part in self.parts], -1)
        own = [some[..., 0] if some.shape[-1] == 1 else some for some in columns]
        return list(zip(self.parts, own, strict=True))

    def check_revenue(self, r: Tensor) -> None:
        """Let each response check the revenues."""
        for part in self.parts:
            part.check_revenue(r)

    def check_outcome(self, y: Tensor) -> None:
        """Let each response check its own; late entry would select z for all of them."""
        for part, own in self._pairs(y):
            part.check_outcome(own)
            if isinstance(part, Survival) and (own[..., 2] > 0.0).any():
                raise ValueError("y must have no entries above 0 with several responses")

    def check_latent(self, model: Any, y: Tensor) -> None:
        """Let each response check the model's z."""
        for part, own in self._pairs(y):
            part.check_latent(model, own)

    def learn_unit(self, y: Tensor) -> None:
        """Let each response learn its unit."""
        for part, own in self._pairs(y):
            part.learn_unit(own)

    def standardized(self, y: Tensor) -> Tensor:
        """The mean of what a guide would read of each: one number a row."""
        read = [part.standardized(own).double() for part, own in self._pairs(y)]
        return torch.stack(read).mean(0)

    def columns_of(self, y: Tensor) -> dict[str, Tensor]:
        """The columns of each, by its name and theirs."""
        return {
            f"{name}.{column}": values
            for name, (part, own) in zip(self.names, self._pairs(y), strict=True)
            for column, values in part.columns_of(own).items()
        }

    def drawn_columns(self, y: Tensor) -> dict[str, Tensor]:
        """Draws of each, by its name."""
        pairs = zip(self.names, self._pairs(y), strict=True)
        return {name: part.drawn(own) for name, (part, own) in pairs}

    def derived(self, p_y: Any, cost: Tensor) -> dict[str, Tensor]:
        """Return the values that costs determine, by the names of response and site."""
        found = {}
        for name, part, p_own, own in zip(
            self.names, self.parts, p_y.parts, cost.split(self.costs, -1), strict=True
        ):
            found.update({f"{name}.{k}": v for k, v in part.derived(p_own, own).items()})
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

    def model_of(self, model: Model, name: str) -> Model:
        """The same model with one of its responses alone, for predictions; see `GCM`."""
        one_of("name", name, self.names)
        place, view, whole = self.names.index(name), copy.copy(model), cast(Any, model)
        view._modules = dict(model._modules)
        view.response = own = copy.copy(self.parts[place])
        # Its costs and its map alone.
        start, directions = place * self.costs, self.rows[place]
        view.cost_net = _Between(whole.cost_net, start, start + self.costs)
        vars(view)["cost_shape"] = (*whole.cost_shape[:-1], self.costs)
        view.revenue_map = DirectedMaps([whole.revenue_map.maps[place]], [directions])

        def check_rises_in(revenue: int) -> None:
            if directions[revenue] != 1:
                raise ValueError(
                    f"revenue {revenue} must be one in which the prediction rises, got a direction "
                    f"of {directions[revenue]}"
                )

        def check_whole() -> None:
            raise ValueError(
                "model must be that of all responses: `response_model` is for predictions"
            )

        vars(own).update(check_rises_in=check_rises_in, check_whole=check_whole)
        return view


class _Between(nn.Module):
    """Some of the costs of a network of the costs of all responses."""

    def __init__(self, costs: nn.Module, start: int, stop: int) -> None:
        super().__init__()
        self.costs, self.start, self.stop = costs, start, stop

    def forward(self, context: Tensor) -> Any:
        """p(c|z) of these costs."""
        return costs_between(self.costs(context), self.start, self.stop)


def _columns(y: Tensor) -> Tensor:
    return (y if y.dim() == 2 else y.unsqueeze(-1)).double()


class DirectedMaps(nn.Module):
    """The maps of several responses, one after the other in the last dimension.

    :param maps: modules from the revenues that a response reads to [..., K_j].
    :param directions: +1, -1 or 0 (not read) for every revenue, for every map.
    """

    def __init__(self, maps: Sequence[nn.Module], directions: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(maps)
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
            learn = getattr(part, "learn", None)
            if callable(learn):
                learn(own)

    def forward(self, r: Tensor) -> Tensor:
        """[..., m] -> [..., (members,) (G,) K_1 + K_2 + ..]."""
        pairs = zip(self.maps, self._read(r), strict=True)
        return torch.cat([part(own) for part, own in pairs], -1)
