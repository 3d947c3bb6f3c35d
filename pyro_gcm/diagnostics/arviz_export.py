"""A model, seen through the posterior draws of some rows, as ArviZ's data structure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import ArrayLike, as_tensor, positive_int, seed_of
from pyro_gcm.diagnostics.columns import names_of
from pyro_gcm.inference.program_arviz import container, dataset
from pyro_gcm.models.posteriors import Posteriors
from pyro_gcm.prediction import PosteriorDraws

#: Dimensions of a site after those of chain, draw and datum; the costs have one or two.
_DIMENSIONS = {
    "z": ("latent",),
    "k": ("kernel",),
    "w": ("hidden",),
    "x": ("covariate",),
    "r": ("revenue",),
    "y": (),
}


@one_thread()
def to_arviz(
    model: Posteriors,
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    *,
    num_samples: int = 1000,
    x_names: Sequence[str] | None = None,
    r_names: Sequence[str] | None = None,
    method: str = "auto",
    num_proposals: int = 4096,
    seed: int = 0,
    progress: bool = True,
) -> Any:
    """Draws for rows (x, r, y) as `arviz.InferenceData` (0.x) or `xarray.DataTree` (1.x).

    The weights of the model are fixed, so that every datum has a posterior of its own. Groups:

    - prior, prior_predictive: z, c (k, w) and y given x and r alone, without the outcome.
    - posterior: z, c (k, w) given the outcome.
    - posterior_predictive: y, a new outcome of the row with the same z (and k).
    - log_likelihood: of y, for `arviz.loo` and `arviz.compare` of held-out rows; not for
      members. Without its outcome a datum's z is drawn from p(z | x), so that leaving it out gives
      log p(y | x, r), and that is what is here, z integrated out: log p(y | z, r) alone would need
      harmonic means, with Pareto k above 0.7 for many rows. It hardly differs between draws, so
      that p_loo is almost 0, as fixed weights have it; its error is log_evidence_error, of which k
      says nothing.
    - member_log_likelihood (members alone): log p(y | z, x, r) of each. The members are networks
      that were fitted, not draws from a posterior of parameters, so that PSIS-LOO over them would
      estimate nothing; there is no group log_likelihood, and `arviz.loo` refuses the result.
    - observed_data: y (of survival lower, upper and entry); constant_data: x, r.
      With response "survival" the posterior has t, the time of the event of the row itself.
    - sample_stats: ess, pareto_k, log_evidence and log_evidence_error of every datum
      (`PosteriorDraws`). The draws are independent, so that R-hat has nothing to say.

    Costs are in the units of the revenues where there is one for each, else as `posterior` has
    them; the attribute `units` of c, x and r says so. Saved by its own `to_netcdf` and read by
    `arviz.from_netcdf`.

    :param x: [B, x_dim]; the columns and the index of a DataFrame become coordinates.
    :param r: [B, r_dim], likewise.
    :param y: [B].
    :param num_samples: draws of every datum, one chain.
    :param x_names: names of the covariates, in place of the columns' own.
    :param r_names: names of the revenues.
    :param method, num_proposals, progress: as of `GCM.posterior`.
    :raises ValueError: for wrong shapes, values or numbers of names.
    """
    num_samples = positive_int("num_samples", num_samples)
    seed = seed_of(seed)
    coords: dict[str, Any] = {
        "covariate": names_of("x_names", x_names, x, model.x_dim, "x"),
        "revenue": names_of("r_names", r_names, r, model.r_dim, "r"),
        "datum": _labels(x.index) if isinstance(x, pd.DataFrame) else None,
    }
    for site, labels in getattr(model, "coordinates", {}).items():
        coords[f"{site}_dim_0"] = labels
    options: Any = {
        "num_samples": num_samples,
        "method": method,
        "num_proposals": num_proposals,
        "progress": progress,
    }
    observed = model.response.columns_of(model.response.outcome(y))
    draws = model.posterior(x, r, y, seed=seed + 1, **options)  # which checks the rows
    prior = model.posterior(x, r, seed=seed, **options)
    if model.costs_have_units:
        coords["cost"] = coords["revenue"]

    def arranged(values: Mapping[str, Tensor], leading: tuple[str, ...]) -> Any:
        found = _dataset(values, leading, coords)
        for name in found.data_vars.keys() & {"c", "x", "r"}:
            found[name].attrs["units"] = model.units_of_costs if name == "c" else "data"
        return found

    def sites(values: Mapping[str, Tensor]) -> Any:
        return arranged({k: v.unsqueeze(0) for k, v in values.items()}, ("chain", "draw"))

    def rows(values: Mapping[str, Tensor]) -> Any:
        return arranged(values, ())

    quality = {name: values for name, values in draws.quality().items() if name != "proposals"}
    groups = {
        "posterior": sites({k: v for k, v in draws.items() if k != "y"}),
        "posterior_predictive": sites(model.response.drawn_columns(draws["y"])),
        "prior": sites({k: v for k, v in prior.items() if k != "y"}),
        "prior_predictive": sites(model.response.drawn_columns(prior["y"])),
        "sample_stats": rows(quality),
        "observed_data": rows(observed),
        "constant_data": rows({"x": as_tensor("x", x), "r": as_tensor("r", r)}),
    }
    if model.members and set(model.latent_shapes()) == {"z"}:
        every = torch.eye(model.members)[:, None].expand(-1, len(x), -1)
        of_members = model.log_likelihood(x, r, y, sites={"z": every})  # [K, B]
        groups["member_log_likelihood"] = _dataset({"y": of_members}, ("member",), coords)
    else:
        log_p = _among_proposals(model.log_likelihood(x, r, y, sites=draws), draws, seed)
        groups["log_likelihood"] = sites({"y": log_p})
    return container(groups)


def _among_proposals(given_z: Tensor, draws: PosteriorDraws, seed: int) -> Tensor:
    """log of the evidence, estimated from N proposals and the z of each draw, [S, B].

    ArviZ fits a Pareto tail to the reciprocals, so that they have to differ. A draw counts for a
    Gamma(2) number of proposals, as in a Bayesian bootstrap: that moves the estimate by a part in
    N, less than its error, and makes the tail a bounded one, with a k around -1/2.
    """
    generator = torch.Generator().manual_seed(seed)
    gamma = -torch.rand(2, len(given_z), 1, generator=generator, dtype=torch.float64).log().sum(0)
    proposals = draws.proposals.double().clamp(max=2.0**40)  # infinite where z was summed out
    own = given_z.double() + gamma.log().to(given_z.device)
    all_others = draws.log_evidence.double() + proposals.log()
    return torch.logaddexp(own, all_others) - (2.0 + proposals).log()


def _labels(index: pd.Index[Any]) -> Any:
    """Return an index as a file can hold it: numbers, dates in nanoseconds, or else text."""
    if index.nlevels > 1:
        return None
    values = np.asarray(index)
    with suppress(pd.errors.OutOfBoundsDatetime):
        if values.dtype.kind in "biuf":
            return values
        if values.dtype.kind == "M":
            return pd.DatetimeIndex(values).as_unit("ns").to_numpy()
    return [str(value) for value in index]


def _dataset(values: Mapping[str, Tensor], leading: tuple[str, ...], coords: dict[str, Any]) -> Any:
    """An xarray.Dataset of values [*leading, datum, ...]."""
    variables = {}
    for name, value in values.items():
        last = value.dim() - len(leading) - 1
        own = _DIMENSIONS.get(name, tuple(f"{name}_dim_{i}" for i in range(last)))
        own = ("alternative", "cost")[2 - last :] if name == "c" else own
        variables[name] = value, (*leading, "datum", *own)
    return dataset(variables, coords)
