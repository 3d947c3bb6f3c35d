"""Rows and their latent variables: proposed before the outcome is known, completed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm._validation import ArrayLike, same_rows, vector
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.models.partly_observed import event_given_observed

if TYPE_CHECKING:
    from pyro_gcm.models.inspection import Inspection
    from pyro_gcm.models.predictions import Predictions


class Rows(NamedTuple):
    """Checked rows; y and c are None where they were not given."""

    x: Tensor
    r: Tensor
    y: Tensor | None
    c: Tensor | None

    def take(self, index: Tensor) -> Rows:
        """The rows `index`."""
        x, r, y, c = (None if part is None else part[index] for part in self)
        return Rows(x, r, y, c)  # type: ignore[arg-type]


class Latents(NamedTuple):
    """N draws for each of b rows: [N, b, ...], or [b, ...] of what is the same in every draw.

    `revenue` is what the costs are compared with, [(N,) b, (G,) K], or the Gaussian k of `IGCM`
    where it is integrated out; `rank` is the event dimension of the costs.
    """

    z: Tensor
    covariates: Tensor
    revenue: Any
    sites: dict[str, Tensor]
    rank: int

    @staticmethod
    def pick(values: Tensor, index: Tensor) -> Tensor:
        """Draws `index` [S, b] of values [N, b, ...]."""
        at = index.reshape(*index.shape, *(1,) * (values.dim() - 2))
        return values.gather(0, at.expand(*index.shape, *values.shape[2:]))

    def _varying(self) -> dict[str, Tensor]:
        """What differs between draws, by name."""
        varying = {"z": self.z, **{f"site {name}": v for name, v in self.sites.items()}}
        if self.covariates.dim() == 3:
            varying["covariates"] = self.covariates
        if isinstance(self.revenue, Tensor) and self.revenue.dim() == 2 + self.rank:
            varying["revenue"] = self.revenue
        return varying

    def _with(self, varying: dict[str, Tensor]) -> Latents:
        sites = {name: varying[f"site {name}"] for name in self.sites}
        others: Any = {k: v for k, v in varying.items() if not k.startswith("site ")}
        return self._replace(**others, sites=sites)

    def select(self, index: Tensor) -> Latents:
        """The draws `index` [S, b] of every row."""
        return self._with({k: self.pick(v, index) for k, v in self._varying().items()})

    def zeros(self, count: int) -> Latents:
        """Room for `count` draws of every row."""
        return self._with({k: v.new_zeros(count, *v.shape[1:]) for k, v in self._varying().items()})

    def put(self, place: Tensor, rows: Tensor, other: Latents, draw: Tensor, row: Tensor) -> None:
        """Write draw `draw` of row `row` of another object to `place` of row `rows`, in place."""
        theirs = other._varying()
        for name, values in self._varying().items():
            values[place, rows] = theirs[name][draw, row]


class Proposals(NamedTuple):
    """Draws [N, b] before y is known, their event, and their log-weights (None: equal ones).

    `others` are sites that y says nothing of, with log-weights of their own.
    """

    latents: Latents
    event: OrderEvent
    log_weights: Tensor | None
    others: dict[str, tuple[Tensor, Tensor]]


def checked_rows(
    model: Predictions, x: ArrayLike, r: ArrayLike, y: ArrayLike | None, c: ArrayLike | None
) -> Rows:
    """Rows as a prediction takes them, with outcomes and costs where they are given."""
    x, r = model._covariates(x), model._revenues("r", r)
    outcome = None
    if y is not None:
        outcome = vector("y", y, model.device, missing=c is not None)
        model.response.check_outcome(outcome)
    same_rows(x=x, r=r, **({} if outcome is None else {"y": outcome}))
    costs = None if c is None else model.check_costs(c, r, outcome).to(model.device)
    return Rows(x, r, outcome, costs)


def propose(model: Inspection, rows: Rows, count: int, *, guided: bool = False) -> Proposals:
    """Draws from p(z | x), and of k, without what y says.

    With `guided`, half of the draws of z are from the model's own guide q(z | x, r, y), if it has
    one; as the other half is not, no weight is large however poor the guide (a defensive mixture:
    Hesterberg 1995, Owen & Zhou 2000).
    """
    shape = count, len(rows.x), model.noise.dim
    noise = torch.randn(shape, device=model.device, dtype=model.noise.noise.dtype)
    encoded = model._encode(rows.x, noise, independent=True)
    if guided:
        encoded = model._half_guided(encoded, rows.r, rows.y)
    others = model._other_sites(encoded, rows.r)
    event, encoded = model._event(encoded, rows.r)
    sites, rank = dict(encoded.sites), event.cost_event_dim
    latents = Latents(encoded.z, encoded.covariates, event.revenue, sites, rank)
    return Proposals(latents, event, encoded.log_weights, others)


def log_likelihood(model: Predictions, event: OrderEvent, covariates: Tensor, rows: Rows) -> Tensor:
    """Log-probability of what was seen of y and c, given the draws behind an event, [N, b]."""
    _, p_y, log_p = _given_costs(model, event, covariates, rows)
    if rows.y is None:
        return log_p.expand(event.batch_shape)
    log_y: Tensor = p_y.log_prob(rows.y.nan_to_num()).double()
    return log_p + torch.where(rows.y.isnan(), 0.0, log_y)


def _given_costs(
    model: Predictions, event: OrderEvent, covariates: Tensor, rows: Rows
) -> tuple[OrderEvent, Any, Tensor]:
    """The event and p(y) once the costs that were seen are known, and the density of those."""
    log_c = torch.zeros((), dtype=torch.float64, device=covariates.device)
    if rows.c is not None:
        event, log_density = event_given_observed(event, rows.c, rows.r, model.r_standardizer)
        log_c = log_density.double()
    return event, model.response.distribution(event, covariates, rows.r), log_c


def complete_sites(model: Predictions, latents: Latents, rows: Rows) -> dict[str, Tensor]:
    """The sites of draws that agree with y: c (and k) exactly, and y once more, a new outcome."""
    z, covariates = latents.z, latents.covariates
    event = OrderEvent(model._cost(z, covariates), latents.revenue)
    new_outcome = model.response.distribution(event, covariates, rows.r)
    event, p_y, _ = _given_costs(model, event, covariates, rows)
    shape, sites = z.shape[:2], {"z": z, **latents.sites}
    if not isinstance(event.revenue, Tensor):  # k was integrated out; then y is the event
        p_k: Any = event.revenue.expand(shape)
        if rows.y is not None:
            p_k = event.revenue_posterior(rows.y)
        sites["k"] = p_k.sample()
        event = p_y = new_outcome = event.given_revenue(sites["k"])
    if rows.y is None:
        cost: Any = event.cost
        sites["c"] = cost.expand(shape).sample()
        sites["y"] = p_y.given_cost(sites["c"]).sample()
        return sites
    # An outcome that was not seen says nothing of c.
    outcome = torch.where(rows.y.isnan(), p_y.mean, rows.y) if rows.c is not None else rows.y
    sites["c"] = p_y.cost_posterior(outcome).sample()
    sites["y"] = new_outcome.sample()  # the row's costs are drawn anew for it
    return sites
