"""What the outcome and the observed costs say of the latent variables of a row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._validation import as_tensor, one_of, shown
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.models.missing import costs_in_units, event_given_observed
from pyro_gcm.models.objectives import Objective
from pyro_gcm.sampling.draws import Draws, Rows
from pyro_gcm.sampling.posterior import PosteriorDraws, Target, posterior_draws

#: Draws of all rows together whose likelihood is computed at once.
_DRAWS_AT_ONCE = 1 << 16


def posterior_of(
    objective: Objective, rows: Rows, units: str | None, **options: Any
) -> PosteriorDraws:
    """Posterior draws of the sites of a model that was trained for this objective.

    :param units: of the costs; see `GCM.posterior`.
    :param options: of `posterior_draws`.
    """
    model = objective.model
    if units is None:
        units = "data" if model.costs_have_units else "standard"
    one_of("units", units, ("standard", "data"))
    if units == "data" and not model.costs_have_units:
        raise ValueError(
            "units='data' needs a cost in the units of each revenue, as GCM with "
            "revenue_map='identity' has"
        )
    every = None
    if objective.is_finite:
        every = partial(_every_draw, objective)
    target = Target(
        lambda rows, count, guided: _proposals(objective, rows, count, guided),
        lambda draws, rows: log_likelihood(model, draws.event, draws.covariates, rows),
        lambda draws, rows: _likelihood(model, draws, rows),
        lambda draws, rows: _complete_sites(model, draws, rows, units),
        objective.weighted,
        model.response.log_likelihood_bound,
        model.dtype,
        every,
    )
    return posterior_draws(target, rows, **options)


def responsibilities(objective: Objective, rows: Rows) -> Tensor:
    """p(z | x, r, y) of every value of z by Bayes' rule, [B, D], float64.

    :raises ValueError: for a z with infinitely many values.
    """
    if not objective.is_finite:
        raise ValueError(
            "responsibilities need a z with finitely many values and no other latent variable "
            "before y, as a GCM with prior='members' or 'categorical' has"
        )
    model, parts = objective.model, []
    size = max(1, _DRAWS_AT_ONCE // model.z_dim)
    for index in torch.arange(len(rows.x), device=rows.x.device).split(size):
        part = rows.take(index)
        draws = _every_draw(objective, part)
        log_p = log_likelihood(model, draws.event, draws.covariates, part)
        assert draws.log_weights is not None
        parts.append((log_p + draws.log_weights).softmax(0).T)
    return torch.cat(parts)


def _every_draw(objective: Objective, rows: Rows) -> Draws:
    """All values of z with their probabilities."""
    base = objective.model.base_samples(1)
    draws = objective.given_revenue(objective.draw(rows.x, base, seed=0), rows.r)
    return given_selection(objective.model, draws, rows)


def _proposals(objective: Objective, rows: Rows, count: int, guided: bool) -> Draws:
    """Independent draws before y is known; with `guided`, half of z comes from the guide."""
    model = objective.model
    shape = count, len(rows.x), model.base_samples.dim
    like: dict[str, Any] = {"device": model.device, "dtype": model.dtype}
    if model.base_samples.dim > model.z_dim:
        base = torch.randn(shape, **like)
    else:  # independent draws of z need their number alone
        base = torch.empty(1, **like).expand(shape)
    draws = objective.draw(rows.x, base, seed=None)
    if guided and model.reads_x and model.z_guide is not None and rows.y is not None:
        draws = _half_guided(model, draws, rows, rows.y)
    draws = objective.given_revenue(objective.with_separate(draws, rows.r), rows.r)
    return given_selection(model, draws, rows)


def given_selection(model: Any, draws: Draws, rows: Rows) -> Draws:
    """The draws as likely as they are among rows that are in the data (`Response.log_selected`)."""
    if rows.y is None:
        return draws
    p_y = model.response.distribution(draws.event, draws.covariates, rows.r)
    log_selected = model.response.log_selected(p_y, rows.y)
    return draws if log_selected is None else draws.reweighted(log_selected)


def _half_guided(model: Any, draws: Draws, rows: Rows, y: Tensor) -> Draws:
    """Half of the draws of z from the guide q(z|x, r, y), with the weights of the mixture.

    As the other half is not, no weight is large however poor the guide: a defensive mixture
    (Hesterberg 1995, Owen & Zhou 2000).
    """
    half = len(draws.z) // 2
    p = model.z_prior(draws.covariates)
    # It does not read a y that may be NaN.
    q = model.z_guide_dist(rows.x, rows.r, torch.where(y.isnan(), 0.0, y))
    z = torch.cat([draws.z[half:], q.sample((half,))])
    share = half / len(z)
    log_p, log_q = p.log_prob(z).double(), q.log_prob(z).double()
    log_mixture = torch.logaddexp(log_p + math.log1p(-share), log_q + math.log(share))
    return draws._replace(z=z, log_weights=torch.log_softmax(log_p - log_mixture, 0))


def log_likelihood_of_sites(model: Any, rows: Rows, sites: Mapping[str, Tensor]) -> Tensor:
    """Log-probability of the observed y and c given draws [S, B, ...] of the sites, [S, B].

    :raises ValueError: for sites that are not there, or have another shape.
    """
    if not isinstance(sites, Mapping):
        raise TypeError(f"sites must be a mapping of names to draws, got {shown(sites)}")
    dims = {"z": model.z_dim, "x": model.x_dim, "r": model.r_dim, **model.kernel_dims}
    needed = {"z", *model.kernel_dims} | {k for k in ("x", "r") if getattr(rows, k).isnan().any()}
    checked: dict[str, Tensor] = {}
    for name, dim in dims.items():
        if name not in sites:
            if name in needed:
                raise ValueError(f"sites must have draws of {name}, got {sorted(sites)}")
            continue
        values = as_tensor(f"sites[{name!r}]", sites[name], model.device)
        values = values if name in ("x", "r") else values.to(model.dtype)
        count = checked["z"].shape[0] if checked else values.shape[0]
        if values.shape != (count, len(rows.x), dim):
            raise ValueError(
                f"sites[{name!r}] must have shape [draws, {len(rows.x)}, {dim}], the same number "
                f"of draws for each site, got {tuple(values.shape)}"
            )
        checked[name] = values
    size = max(1, _DRAWS_AT_ONCE // len(checked["z"]))
    parts = torch.arange(len(rows.x), device=model.device).split(size)
    return torch.cat([_of_sites(model, rows, checked, part) for part in parts], 1)


def _of_sites(model: Any, rows: Rows, sites: Mapping[str, Tensor], index: Tensor) -> Tensor:
    """The same for the rows `index`."""
    rows = rows.take(index)
    sites = {name: values.index_select(1, index) for name, values in sites.items()}
    covariates = model.covariates(sites["z"], sites.get("x", rows.x))
    revenue = model.revenue_given(sites.get("r", rows.r), sites, covariates)
    event = OrderEvent(model.c_dist(sites["z"], covariates), revenue)
    return log_likelihood(model, event, covariates, rows)


def log_likelihood(model: Any, event: OrderEvent, covariates: Tensor, rows: Rows) -> Tensor:
    """Log-probability of the observed y and c, given the draws behind an event, [N, b], float64."""
    event, log_c = _given_costs(model, event, rows)
    if rows.y is None:
        return log_c.expand(event.batch_shape)
    p_y = model.response.distribution(event, covariates, rows.r)
    if rows.c is None:
        log_p: Tensor = p_y.log_prob(rows.y).double()
        return log_p
    log_y: Tensor = p_y.log_prob(rows.y.nan_to_num()).double()
    return log_c + torch.where(rows.y.isnan(), 0.0, log_y)


def _likelihood(model: Any, draws: Draws, rows: Rows) -> Tensor:
    """Likelihood of y as a share of the bound of the response, [N, b], float64."""
    if model.response.is_event:
        assert rows.y is not None
        # p of y = 1, 1 - p of y = 0.
        return (draws.event.probability64() - (rows.y < 0.5).double()).abs()
    log_p = log_likelihood(model, draws.event, draws.covariates, rows)
    return (log_p - model.response.log_likelihood_bound).exp()


def _given_costs(model: Any, event: OrderEvent, rows: Rows) -> tuple[OrderEvent, Tensor]:
    """The event once the observed costs are known, and their log-density, float64."""
    if rows.c is None:
        return event, torch.zeros((), dtype=torch.float64, device=rows.x.device)
    event, log_c = event_given_observed(event, rows.c, rows.r, model.r_standardizer)
    return event, log_c.double()


def _complete_sites(model: Any, draws: Draws, rows: Rows, units: str) -> dict[str, Tensor]:
    """All sites of draws that agree with y, the costs in these units."""
    sites = _standard_sites(model, draws, rows)
    if units == "data":
        r, c = sites.get("r", rows.r), sites["c"]
        below = c < draws.revenue
        sites["c"] = costs_in_units(c, below, r, rows.c, model.r_standardizer)
    return sites


def _standard_sites(model: Any, draws: Draws, rows: Rows) -> dict[str, Tensor]:
    """The sites of draws that agree with y: c (and k) exactly, and y once more, a new outcome."""
    z, covariates = draws.z, draws.covariates
    cost = model.c_dist(z, covariates) if draws.cost is None else draws.cost
    event = OrderEvent(cost, draws.revenue)
    new_outcome = model.response.distribution(event, covariates, rows.r)
    event, _ = _given_costs(model, event, rows)
    p_y = new_outcome
    if rows.c is not None:
        p_y = model.response.distribution(event, covariates, rows.r)
    shape, sites = z.shape[:2], {"z": z, **draws.sites}
    if not isinstance(event.revenue, Tensor):  # k was integrated out; then y is the event
        p_k: Any = event.revenue.expand(shape)
        if rows.y is not None:
            p_k = event.revenue_posterior(rows.y)
        sites["k"] = p_k.sample()
        event = p_y = new_outcome = event.given_revenue(sites["k"])
    if rows.y is None:
        costs: Any = event.cost
        sites["c"] = costs.expand(shape).sample()
        sites["y"] = p_y.given_cost(sites["c"]).sample()
        return sites | model.response.derived(p_y, sites["c"])
    # An outcome that was not observed says nothing of c.
    outcome = torch.where(rows.y.isnan(), p_y.mean, rows.y) if rows.c is not None else rows.y
    sites["c"] = p_y.cost_posterior(outcome).sample()
    sites["y"] = new_outcome.sample()  # the row's costs are drawn anew for it
    return sites | model.response.derived(p_y, sites["c"])
