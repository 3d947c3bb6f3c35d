"""Are guides calibrated on average over rows? VSBC and joint coverage of GCM, IGCM and levels.

The weights of a model are fixed, and a guide is trained on rows that were simulated from it. Latent
variables of other simulated rows are then ranked among draws of the guide. A p-value says whether
the ranks are symmetric (VSBC: is the guide biased?) and even (is it too narrow or too wide?),
whether all latent variables and costs together are covered (TARP), and whether log p(y | z, r) is
ranked evenly, which tells a guide that has not looked at y. Each is the smallest over quantities
and seeds times their number.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.diagnostics import (
    SBCResult,
    guide_draws,
    joint_coverage,
    simulation_based_calibration,
)
from pyro_gcm.responses import Ordinal
from pyro_gcm.training import FitSettings
from reproduce.posteriors.models import kernel_guide, let_y_tell
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores
from reproduce.study import Study

MODELS = {"GCM": "GCM, binary y", "IGCM": "IGCM, binary y", "levels": "GCM, four levels"}
#: Rows that a guide is trained on, rows whose latent variables are ranked, and draws of each.
TRAINING, ROWS, DRAWS = 4_000, 600, 99
EPOCHS = 20
EXACT = "exact draws"
TESTS = ("symmetric", "even", "joint", "likelihood")
GUIDES = {
    f"guide {name}": name
    for name in (
        *("prior", "amortised", "amortised_full", "amortised_flow"),
        *("posterior", "posterior_full", "posterior_flow"),
    )
}


def model_of(name: str, guide: str = "prior") -> Any:
    """A model in which z decides much of the costs, and x little of z; all but its guide fixed."""
    options: dict[str, Any] = {"z_dim": 2, "hidden": 8, "seed": 6, "guide": guide}
    if name == "levels":
        options["response"] = Ordinal(levels=4)
    if name == "IGCM":
        options |= kernel_guide(guide, (3, 2, 2), hidden=8)
    model: Any = (IGCM if name == "IGCM" else GCM)(3, 2, **options).double()
    # Parts that are made after a guide have other random numbers: all take those without one.
    plain = model if guide == "prior" else model_of(name)
    own = {k: v for k, v in plain.state_dict().items() if k in model.state_dict()}
    if guide == "prior":
        let_y_tell(model)
    else:
        model.load_state_dict({**model.state_dict(), **own})
    for key, parameter in model.named_parameters():
        parameter.requires_grad_(key.startswith(("z_guide", "k_guide")))
    return model


def inputs(name: str, count: int, seed: int) -> tuple[Tensor, Tensor | None]:
    """x and, where the model does not draw it, r."""
    g = torch.Generator().manual_seed(seed)
    x, r = (torch.randn(count, n, generator=g, dtype=torch.float64) for n in (3, 2))
    return x, None if name == "IGCM" else r


def trained(name: str, guide: str, seed: int, size: float) -> Any:
    """The model with a guide trained on simulated rows."""
    model = model_of(name, guide)
    if guide == "prior":
        return model
    x, r = inputs(name, max(256, int(TRAINING * size)), 1_000 + seed)
    rows = model.simulate(x=x, r=r, seed=2_000 + seed)
    fit(
        *(model, rows["x"], rows["r"], rows["y"]),
        elbo="mean_field",
        standardize=False,
        epochs=max(1, int(EPOCHS * size)),
        learning_rate=0.02,
        num_particles=8,
        seed=seed,
        progress=False,
        settings=FitSettings(schedule="cosine"),
    )
    return model


def ranked(model: Any, name: str, sampler: Any, seed: int, size: float) -> SBCResult:
    """Ranks of the latent variables of simulated rows among draws."""
    x, r = inputs(name, max(100, int(ROWS * size)), 3_000 + seed)
    return simulation_based_calibration(
        model, x, r, sampler=sampler, num_draws=DRAWS, seed=4_000 + seed, progress=False
    )


def covered(model: Any, name: str, sampler: Any, seed: int, size: float) -> float:
    """The p-value of joint coverage of all latent variables and costs."""
    x, r = inputs(name, max(100, int(ROWS * size)), 5_000 + seed)
    true = model.simulate(x=x, r=r, seed=6_000 + seed)
    draws = sampler(true["x"], true["r"], true["y"], num_samples=DRAWS, seed=7_000 + seed)
    sites = [site for site in ("z", "k", "c") if site in draws and site in true]
    together = [torch.cat([of[s].flatten(-1) for s in sites], -1) for of in (true, draws)]
    return joint_coverage(*together, seed=8_000 + seed).p_value


def run(fit: Fit, device: str = "cpu") -> Scores:
    """The p-values of one method on one model."""
    started, size = time.perf_counter(), fit.options.get("size", 1.0)
    model = trained(fit.dataset, GUIDES.get(fit.method, "prior"), fit.seed, size)
    sampler: Any = partial(guide_draws, model)
    if fit.method == EXACT:
        sampler = partial(model.cost_posterior, units="standard", progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a Pareto k above 0.7, by chance
        result = ranked(model, fit.dataset, sampler, fit.seed, size)
        coverage = covered(model, fit.dataset, sampler, fit.seed, size)
    names = list(map(str, result.ranks))
    own = [name for name in names if name[0] in "zk"]
    of_y = next(name for name in names if name.startswith("log p(y|z, "))
    place = (result.ranks[own] + 0.5).mean() / (DRAWS + 1) - 0.5
    return {
        "symmetric": min(1.0, result.symmetry_p_values()[own].min() * len(own)),
        "even": min(1.0, result.p_values()[own].min() * len(own)),
        "joint": coverage,
        "likelihood": result.p_values()[of_y],
        "shift": float(place.abs().max()),
        "seconds": time.perf_counter() - started,
        "epochs": 0 if fit.method in (EXACT, "guide prior") else max(1, int(EPOCHS * size)),
    }


def report(table: pd.DataFrame) -> str:
    """The smallest p-values over the seeds, times their number, and the largest shift."""
    models = [name for name in MODELS if name in set(table["dataset"])]
    by = table.groupby(["method", "dataset", "metric"])["value"]
    low, most, count = by.min(), by.max(), by.count()
    rows = []
    for method in (name for name in METHODS if name in set(table["method"])):
        cells = [method]
        for model in models:
            at = [(method, model, test) for test in TESTS]
            if at[0] not in low:
                cells.append("")
                continue
            tests = ", ".join(_shown(min(1.0, low[key] * count[key])) for key in at)
            cells.append(f"{tests} ({most[method, model, 'shift']:.3f})")
        rows.append(cells)
    return markdown([f"p: {', '.join(TESTS)} (shift)", *(MODELS[name] for name in models)], rows)


def _shown(p_value: float) -> str:
    return f"{p_value:.2f}" if p_value >= 0.01 else "< .01" if p_value >= 1e-4 else "< 1e-4"


METHODS = {name: name for name in (EXACT, *GUIDES)}
STUDY = Study(
    *("guide_calibration", str(__doc__), MODELS, METHODS, run, report),
    count=1,
    counted="seeds",
    protocol="simulated",
    quick={"size": 0.05},
)
