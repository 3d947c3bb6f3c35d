"""Weights of the draws of a row's latent variables, given its outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.bisection import rounded_up
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.inference.reading import Plan, of
from pyro_gcm.nets import Standardizer
from pyro_gcm.prediction.draws import Draws, Rows
from pyro_gcm.prediction.predicted import FixedNoise, Noise, Predicted


class Target:
    """The latent sites of a story, given its outcome.

    :param units: of the costs, "standard" or "data".
    :param shared: values of the sites that all rows share, [1, 1, *event].
    """

    def __init__(
        self,
        model: Any,
        units: str = "standard",
        shared: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.model, self.units, self.shared = model, units, shared or {}
        self.plan, self.dtype = model.prediction_plan, model.dtype
        self.log_bound = model.response.log_likelihood_bound
        self.weighted = bool(self.plan.proposals.keys() - set(self.plan.unweighted))

    @property
    def allows_rejection(self) -> bool:
        """Whether proposals can be accepted in proportion to their likelihood."""
        return self.log_bound is not None and not self.weighted

    @cached_property
    def is_finite(self) -> bool:
        """Whether all that a prediction draws has finitely many values."""
        latents, informed = self.model.latents(self.plan), self.plan.informed
        values = [site.values for name, site in latents.items() if name not in informed]
        return 0 not in values and not self.weighted

    def propose(self, rows: Rows, count: int, *, guided: bool = False) -> Draws:
        """Independent draws before y is known; with `guided`, half of them come from the guide."""
        reader = Predicted(self.model, self.plan, Noise(count), separately=True)
        if guided and rows.y is not None and not self.plan.proposals:
            reader = _HalfGuided(self.model, self.plan, Noise(count), rows)
        return self._read(reader, rows)

    def every(self, rows: Rows) -> Draws:
        """All values of the latent sites with their probabilities."""
        noise = FixedNoise(self.model, self.model.latents(self.plan), 1)
        return self._read(Predicted(self.model, self.plan, noise), rows)

    def _read(self, reader: Predicted, rows: Rows) -> Draws:
        reader.known_shared = dict(self.shared)
        draws = reader.read(rows.x, rows.r)
        return draws.of_selected(self.model.response, rows)

    def likelihood(self, draws: Draws, rows: Rows) -> Tensor:
        """Likelihood of y as a share of the bound of the response, [N, b], float64."""
        p_y = draws.p_y
        if isinstance(p_y, OrderEvent) and rows.y is not None:  # p of y = 1, 1 - p of y = 0
            share = (p_y.probabilities64()[1] - (rows.y < 0.5).double()).abs()
        else:
            share = (draws.log_likelihood(rows) - (self.log_bound or 0.0)).exp()
        return share.expand(draws.num_draws, len(rows.x))

    def complete(self, draws: Draws, rows: Rows) -> dict[str, Tensor]:
        """All sites of draws that agree with y, the costs in these units."""
        sites, revenue = self._standard_sites(draws, rows)
        if self.units == "data" and "c" in sites:
            r, c = rows.r, sites["c"]
            units = self.model.r_standardizer
            sites["c"] = costs_in_units(c, c < revenue, r, units)
        return sites

    def _standard_sites(self, draws: Draws, rows: Rows) -> tuple[dict[str, Tensor], Any]:
        """The sites of draws: c (and k) exactly, and y once more, a new outcome; the revenue."""
        shape = draws.num_draws, len(rows.x)
        p_y = Predicted(self.model, self.plan, known=draws.values).read(rows.x, rows.r).p_y
        sites = {name: v for name, v in draws.values.items() if name != "e"}
        sites = {name: v.expand(*shape, *v.shape[2:]) for name, v in sites.items()}
        event = getattr(p_y, "event", p_y)
        event = event if isinstance(event, OrderEvent) else None
        if event is not None and not isinstance(event.revenue, Tensor):
            # k was integrated out; then y is the event
            p_k: Any = event.revenue.expand(shape)
            if rows.y is not None:
                p_k = event.expand(shape).revenue_posterior(rows.y)
            sites["k"] = p_k.sample()
            event = p_y = event.given_revenue(sites["k"])
        p_y = p_y.expand(shape)
        if event is None:
            sites["y"] = p_y.sample()
            return sites, None
        if rows.y is None:
            costs: Any = event.cost
            sites["c"] = costs.expand(shape).sample()
            sites["y"] = p_y.given_cost(sites["c"]).sample()
        else:
            sites["c"] = p_y.cost_posterior(rows.y).sample()
            sites["y"] = p_y.sample()  # the row's costs are drawn anew for it
        return sites | self.model.response.derived(p_y, sites["c"]), event.revenue


def costs_in_units(c: Tensor, below: Tensor, r: Tensor, units: Standardizer) -> Tensor:
    """Draws of standardised costs in the units of r.

    Rounding does not move a draw across r.

    :param c: draws [S, B, m].
    :param below: whether each of them is below its standardised revenue.
    """
    values = units.inverse(c)
    lowest = rounded_up(r, values.dtype)  # the first number of this type that is not below r
    highest = torch.nextafter(lowest, lowest.new_tensor(-math.inf))
    return torch.where(below, torch.minimum(values, highest), torch.maximum(values, lowest))


class _HalfGuided(Predicted):
    """Half of the draws from the guide q(z|x, r, y), with the weights of the mixture.

    As the other half is not, no weight is large however poor the guide: a defensive mixture
    (Hesterberg 1995, Owen & Zhou 2000).
    """

    def __init__(self, model: Any, plan: Plan, noise: Noise, rows: Rows) -> None:
        super().__init__(model, plan, noise, separately=True)
        self.from_guide: dict[str, Any] = {}
        self.half = self.noise.count // 2
        self.log_p: Any = 0.0
        self.log_q: Any = 0.0
        self.model.guide_story(self.guided, rows.x, rows.r, rows.y)

    def guide(self, name: str, q: Any, own: bool) -> Tensor | None:
        """Draws of a site that has a distribution of its own in the guide."""
        if own or name in self.plan.exact:
            return None
        q = of(q)
        self.from_guide[name] = q, (draw := q.sample((self.half,)))
        return draw

    def latent(self, name: str, p: Any) -> Any:
        """The draws of the story's distribution, half of them replaced by those of the guide."""
        if name not in self.from_guide:
            return super().latent(name, p)
        fn, (q, drawn) = self.distribution(name, p), self.from_guide[name]
        own = fn.sample((self.noise.count,))
        value = self.drawn[name] = torch.cat([own[self.half :], drawn])
        self.log_p = self.log_p + fn.log_prob(value).double()
        self.log_q = self.log_q + q.log_prob(value).double()
        return value

    def read(self, x: Tensor, r: Tensor | None) -> Draws:
        """Read the story as `Predicted.read` does, and add the weights of the mixture."""
        draws = super().read(x, r)
        if not self.from_guide:
            return draws
        share = self.half / self.noise.count
        parts = self.log_p + math.log1p(-share), self.log_q + math.log(share)
        return draws.reweighted(self.log_p - torch.logaddexp(*parts))
