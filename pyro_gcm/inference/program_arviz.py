"""A Pyro program and the draws of its latent sites as ArviZ's data structure.

Nothing here knows of order events: any program, guide and MCMC run of Pyro will do.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyro.poutine as poutine
import torch
from pyro.infer import MCMC
from pyro.poutine.util import prune_subsample_sites
from torch import Tensor

from pyro_gcm._utils.torch_state import Randomness, exclusively, one_thread
from pyro_gcm._utils.validation import positive_int, seed_of
from pyro_gcm.inference.reading import Program

#: Names of dimensions and their labels.
Coordinates = Mapping[str, Sequence[Any]]


@one_thread()
def program_to_arviz(
    program: Program,
    posterior: MCMC | Program | Mapping[str, Tensor],
    *args: Any,
    num_samples: int = 1000,
    coords: Coordinates | None = None,
    seed: int = 0,
    **kwargs: Any,
) -> Any:
    """Posterior draws of a Pyro program as `arviz.InferenceData` (0.x) or `xarray.DataTree` (1.x).

    Groups: posterior; observed_data, of the observed sites; and of an MCMC run sample_stats, with
    its divergences. The dimensions of a site are named after the plates that it is in, those of its
    event `<site>_dim_0` and so on.

    :param program: with its observed sites conditioned on, as it was given to SVI or MCMC.
    :param posterior: an `MCMC` that has run, of which every chain is kept; a guide, from which
        `num_samples` draws are made; or draws by site, [S, ...], such as of `Predictive`.
    :param args, kwargs: arguments of program and guide.
    :param coords: labels by dimension: names of rows for the plate "data", say.
    :param seed: of the draws of a guide.
    :raises KeyError: for draws of a site that the program does not have.

    >>> import pyro, pyro.distributions as dist, torch
    >>> from pyro.infer import MCMC, NUTS
    >>> def program(y):
    ...     mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
    ...     with pyro.plate("data", len(y)):
    ...         pyro.sample("y", dist.Normal(mean, 1.0), obs=y)
    >>> y = torch.tensor([0.3, 0.5])
    >>> mcmc = MCMC(NUTS(program), num_samples=20, warmup_steps=20, disable_progbar=True)
    >>> mcmc.run(y)
    >>> program_to_arviz(program, mcmc, y)["observed_data"]["y"].dims
    ('data',)
    """
    count, labels, lead = positive_int("num_samples", num_samples), coords or {}, ("chain", "draw")
    with Randomness(seed_of(seed)).in_use(), torch.no_grad():
        sites = _sites(program, args, kwargs)
        dims = {name: _dims(site) for name, site in sites.items()}
        draws = _draws(posterior, count, args, kwargs)
        groups: dict[str, Any] = {
            "posterior": {n: (v, (*lead, *dims[n])) for n, v in draws.items()}
        }
        groups["observed_data"] = {
            name: (site["value"], dims[name])
            for name, site in sites.items()
            if site["is_observed"]
            and not site["infer"].get("_deterministic")
            and site["value"].numel()
        }
    if isinstance(posterior, MCMC):
        diverging = torch.zeros(next(iter(draws.values())).shape[:2], dtype=torch.bool)
        for chain, places in enumerate(posterior.diagnostics().get("divergences", {}).values()):
            diverging[chain, list(places)] = True
        groups["sample_stats"] = {"diverging": (diverging, lead)}
    return container({name: dataset(values, labels) for name, values in groups.items() if values})


def _draws(posterior: Any, count: int, args: Any, kwargs: Any) -> dict[str, Tensor]:
    """[chain, draw, ...] by site."""
    if isinstance(posterior, MCMC):
        return dict(posterior.get_samples(group_by_chain=True))
    if isinstance(posterior, Mapping):
        return {name: values[None] for name, values in posterior.items()}
    parts: dict[str, list[Tensor]] = {}
    for _ in range(count):
        for name, site in _sites(posterior, args, kwargs).items():
            if not site["infer"].get("is_auxiliary"):
                parts.setdefault(name, []).append(site["value"])
    return {name: torch.stack(values)[None] for name, values in parts.items()}


def _sites(program: Program, args: Any, kwargs: Any) -> dict[str, Any]:
    """The sites of a run that have a distribution, without its plates."""
    trace = prune_subsample_sites(poutine.trace(program).get_trace(*args, **kwargs))
    return {name: site for name, site in trace.nodes.items() if site["type"] == "sample"}


def _dims(site: Any) -> tuple[str, ...]:
    """Names of the dimensions of the value of a site."""
    value, events = site["value"], site["fn"].event_dim
    plates = {frame.dim: frame.name for frame in site["cond_indep_stack"] if frame.vectorized}
    batch = value.dim() - events
    own = [plates.get(d - batch, f"{site['name']}_batch_{d}") for d in range(batch)]
    return (*own, *(f"{site['name']}_dim_{i}" for i in range(events)))


def dataset(values: Mapping[str, tuple[Tensor, tuple[str, ...]]], coords: Coordinates) -> Any:
    """An xarray.Dataset of values with the names of their dimensions."""
    import xarray

    variables = {
        name: (dims, value.detach().cpu().numpy()) for name, (value, dims) in values.items()
    }
    made = xarray.Dataset(variables)
    index = {
        name: np.arange(size) if coords.get(str(name)) is None else np.asarray(coords[str(name)])
        for name, size in made.sizes.items()
    }
    return made.assign_coords(index).assign_attrs(inference_library="pyro_gcm")


def container(groups: dict[str, Any]) -> Any:
    """The structure of the ArviZ that is installed."""
    import xarray

    arviz = imported_arviz()
    if arviz.__version__.startswith("0."):
        return arviz.InferenceData(**groups)
    return xarray.DataTree.from_dict(groups)


def imported_arviz() -> Any:
    """ArviZ, wherever it is imported for the first time.

    ArviZ 0.23 notes in the user's cache that it has announced 1.x today. Its import fails where
    another process writes that note at the same moment (ArviZ issue 2583), and where nothing can
    be written there, as in many containers. Then it gets another folder for its note.
    """
    with exclusively, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return import_module("arviz")
        except OSError:
            before = os.environ.copy()
            with tempfile.TemporaryDirectory() as folder:
                os.environ["XDG_CACHE_HOME"] = folder
                try:
                    return import_module("arviz")
                finally:
                    os.environ.pop("XDG_CACHE_HOME")
                    os.environ.update(before)
