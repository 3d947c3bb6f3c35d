"""Nine known posteriors: how far off are the exact draws, NUTS, importance resampling, and guides?

Errors are those of means, in standard deviations of the posterior, and of standard deviations,
relative, each the largest over all rows and quantities of a problem. Where the costs are not part
of what a method draws they are added exactly, given all else.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.poutine as poutine
import torch
from pyro.infer import MCMC, NUTS
from pyro.ops.stats import effective_sample_size
from torch import Tensor

from pyro_gcm import fit, one_thread
from pyro_gcm.diagnostics import guide_draws
from pyro_gcm.inference import uncollapse
from reproduce.posteriors.models import model_of, rows_of
from reproduce.posteriors.quadrature import Moments
from reproduce.posteriors.references import PROBLEMS, stored
from reproduce.rendering.markdown import cross_table
from reproduce.runs import Fit, Scores
from reproduce.study import Study

#: Draws of each row, proposals of importance resampling, draws of NUTS after half as many to adapt.
DRAWS, PROPOSALS, CHAIN = 20_000, 32_768, 600
#: Each row stands this often among those that a guide is trained on, for so many epochs of four
#: steps, and where the posterior is far from the prior.
COPIES, EPOCHS, LONG = 64, 200, {"far_tails": 300}
#: Draws by site, [S, B, ...], and their effective sample size, [B].
Drawn = tuple[Mapping[str, Tensor], Tensor]


def sampled(name: str, guide: str | None, seed: int, size: float, method: str) -> Drawn:
    """Draws of `model.posterior`, with half of the proposals from the guide if one is named."""
    model = model_of(name) if guide is None else trained(name, guide, seed, size)
    options: Any = {"method": method, "seed": seed, "progress": False}
    options |= {"num_samples": int(DRAWS * size), "num_proposals": int(PROPOSALS * size)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a small ess, which the table shows
        draws = model.posterior(*rows_of(name), **options)
    return draws, draws.ess


def trained(name: str, guide: str, seed: int, size: float) -> Any:
    """The model with a guide that was trained on the rows of the problem; the rest is as it was."""
    model = model_of(name, guide, seed)
    if guide == "prior":
        return model
    x, r, y = rows_of(name)
    if name == "times":  # a guide is not trained on late entries, which leave a posterior as it is
        y[:, 2] = 0.0
    rows = [part.repeat(COPIES, *[1] * (part.dim() - 1)) for part in (x, r, y)]
    options: Any = {"elbo": "mean_field", "objective": model.objective, "num_particles": 16}
    options |= {"batch_size": len(rows[0]) // 4, "learning_rate": 0.03, "schedule": "cosine"}
    epochs = max(2, int(LONG.get(name, EPOCHS) * size))
    fit(model, *rows, epochs=epochs, seed=seed, standardize=False, progress=False, **options)
    return model


def of_guide(name: str, guide: str | None, seed: int, size: float) -> Drawn:
    """Draws of a trained guide itself."""
    model, count, rows = trained(name, str(guide), seed, size), int(DRAWS * size), rows_of(name)
    worth = torch.full((len(rows[0]),), count)
    return guide_draws(model, *rows, num_samples=count, seed=seed), worth


def nuts(name: str, guide: str | None, seed: int, size: float) -> Drawn:
    """A chain of NUTS on the program with the costs integrated out, which are then drawn."""
    model, count, rows = model_of(name), max(20, int(CHAIN * size)), rows_of(name)
    pyro.set_rng_seed(seed)
    kernel = NUTS(model.training_pair(model.objective).program, max_tree_depth=6)
    chain = MCMC(kernel, num_samples=count, warmup_steps=count // 2, disable_progbar=True)
    with one_thread():
        chain.run(*rows)
    sites, worth = chain.get_samples(), torch.full((len(rows[0]),), float(count))
    for values in sites.values():
        own = effective_sample_size(values[None], chain_dim=0, sample_dim=1)  # [B, D]
        worth = torch.minimum(worth, own.flatten(1).amin(1))
    repeated = [part.repeat(count, *[1] * (part.dim() - 1)) for part in rows]
    flat = {site: values.flatten(0, 1) for site, values in sites.items()}
    with torch.no_grad(), one_thread():
        program = poutine.condition(uncollapse(model.model), flat)
        nodes: Any = poutine.trace(program).get_trace(*repeated).nodes
    return {**sites, "c": nodes["c"]["value"].unflatten(0, (count, -1))}, worth


def errors(drawn: Mapping[str, Tensor], worth: Tensor, known: list[Moments]) -> Scores:
    """How far draws are off, the largest over rows and quantities.

    :param drawn: [S, B, ...] by site; `worth`: the effective sample size of a row.
    """
    found = {"mean error": 0.0, "sd error": 0.0, "in Monte Carlo errors": 0.0}
    for row, reference in enumerate(known):
        for name, mean in reference.mean.items():
            values, share = _quantity(drawn, name, row)
            off = abs(values.mean() - mean) / reference.sd[name]
            wide = abs(values.std() / reference.sd[name] - 1.0)
            sampled = off * math.sqrt(share * float(worth[row]))
            for key, value in zip(found, (off, wide, sampled), strict=True):
                found[key] = max(found[key], float(value))
    return {**found, "Monte Carlo error": float(worth.amin()) ** -0.5}


def _quantity(drawn: Mapping[str, Tensor], name: str, row: int) -> tuple[Any, float]:
    """The draws of a quantity of the index, and the share of all draws that they are."""
    site, _, rest = name.partition("[")
    place, _, kind = rest.partition("]")
    index: Any = (slice(None), row, *map(int, place.split(",")))
    values = drawn[site][index].double().cpu().numpy()
    finite = np.isfinite(values)
    return (~finite, 1.0) if kind else (values[finite], float(finite.mean()))


METHODS: dict[str, tuple[Callable[..., Drawn], str | None]] = {
    "exact draws": (partial(sampled, method="auto"), None),
    "NUTS": (nuts, None),
    "importance": (partial(sampled, method="importance"), None),
    "importance, guided": (partial(sampled, method="importance"), "posterior_full"),
    **{
        f"guide {name}": (of_guide, name)
        for kind in ("posterior", "amortised")
        for name in (kind, f"{kind}_full", f"{kind}_flow")
    },
    "guide prior": (of_guide, "prior"),
}
#: z of members is summed out, without a guide.
LEFT_OUT = [("members", method) for method in METHODS if method[:5] not in ("exact", "impor")]
LEFT_OUT += [("members", "importance, guided")]


def run(fit: Fit, device: str = "cpu") -> Scores:
    """The errors of one method on one problem."""
    draw, guide = METHODS[fit.method]
    drawn, worth = draw(fit.dataset, guide, fit.seed, fit.options.get("size", 1.0))
    known = stored()[fit.dataset]
    scores = errors(drawn, worth.double(), known)
    if (log_evidence := getattr(drawn, "log_evidence", None)) is not None:
        wanted = torch.tensor([row.log_evidence for row in known])
        scores["log evidence error"] = float((log_evidence - wanted).abs().max())
    return scores


def report(table: pd.DataFrame) -> str:
    """For each method and problem the largest error of a mean, of a sd, and that of Monte Carlo."""
    means = table.groupby(["method", "dataset", "metric"])["value"].mean().unstack()
    shown = means[["mean error", "sd error", "Monte Carlo error"]].itertuples()
    cells = {key: "{:.3f}, {:.3f} ({:.3f})".format(*errors) for key, *errors in shown}
    problems = {name: name for name in PROBLEMS if name in set(table["dataset"])}
    return cross_table(cells, METHODS, problems, corner="")


STUDY = Study(
    *("reference_posteriors", str(__doc__), PROBLEMS, METHODS, run, "16"),
    count=1,
    counted="seeds",
    protocol="known",
    quick={"size": 0.05},
    cells=lambda fit: [] if (fit.dataset, fit.method) in LEFT_OUT else [fit],
)
