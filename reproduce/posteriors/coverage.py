"""Posteriors after training: how often do their 90 % intervals hold what was simulated?

Five stories, 1,000 rows each, and 500 new ones with known costs and probabilities. z is what a row
has beside its costs: the effect of its group, its mode, its kernel k.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import torch
from pyro.distributions import Normal
from scipy.stats import chisquare
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.inference import bayesian, search_epochs
from pyro_gcm.models import HierarchicalGCM
from pyro_gcm.nets import Conditional
from reproduce.ablations.stories import Modes
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores
from reproduce.study import Study

ROWS, NEW, GROUPS, DRAWS = 1000, 500, 30, 200
#: The search, and then a training of the guide of effects alone.
GUIDE = "then the guide of effects"
#: Method -> how many of the sets it has.
METHODS = {"epochs by default": 10, "epochs searched for": 50, GUIDE: 50, "weights uncertain": 5}
STORIES = ("one cost", "two costs", "group", "mixture", "kernel")


class OfZ(nn.Module):
    """p(x | z, k) that does not depend on k, without which k has no meaning of its own."""

    def __init__(self, z_dim: int, x_dim: int) -> None:
        super().__init__()
        self.z_dim, self.net = z_dim, Conditional(Normal, z_dim, (x_dim,), 16)

    def forward(self, latents: Tensor) -> Any:
        """The distribution of x given z and k, [..., z_dim + k_dim]."""
        return self.net(latents[..., : self.z_dim])


def simulated(story: str, seed: int) -> tuple[Any, ...]:
    """x, r, y, the costs [n, K], Pr(y = 1 | x, r), and z: [n, 1], or the effects of groups."""
    g, n = torch.Generator().manual_seed(seed), ROWS + NEW
    x, noise, e = (torch.randn(n, k, generator=g) for k in (2, 2, 3))
    mean, phi, z = torch.tanh(x), torch.special.ndtr, None
    if story == "two costs":
        r, c = 1.5 * e[:, :2] + 0.7, mean + 0.7 * noise
        return x, r, (c < r).all(1).float(), c, phi((r - mean) / 0.7).prod(1), z
    mean, c, r = mean[:, :1], mean[:, :1] + 0.5 * noise[:, :1], 2.0 * e[:, :1]
    p = phi((r - mean) / 0.5)
    if story == "group":
        z = torch.randn(GROUPS, generator=g)
        sizes = torch.rand(GROUPS, generator=g).square() + 0.02
        group = torch.multinomial(sizes, n, replacement=True, generator=g)[:, None]
        x, c, p = torch.cat([x, group], 1), c + z[group], phi((r - mean - z[group]) / 0.5)
    elif story == "mixture":
        z = (torch.rand(n, 1, generator=g) > 0.35).float()
        c = 3.0 * z - 1.5 + 0.4 * noise[:, :1]
        p = 0.35 * phi((r + 1.5) / 0.4) + 0.65 * phi((r - 1.5) / 0.4)
    elif story == "kernel":
        z, loading = torch.randn(n, 1, generator=g), torch.tensor([1.0, 0.7, 0.7])
        r = z * loading + 0.7 * e
        variance = 1.0 / (1.0 + loading.square().sum() / 0.49)
        k = (r * loading).sum(1, keepdim=True) / 0.49 * variance
        return x, r, (c < z)[:, 0].float(), c, phi((k - mean) / (0.25 + variance).sqrt())[:, 0], z
    return x, r, (c < r)[:, 0].float(), c, p[:, 0], z


def model_of(story: str, x_dim: int, r_dim: int, seed: int) -> Any:
    """A model with that story."""
    if story == "group":
        return HierarchicalGCM(x_dim, r_dim, groups=GROUPS, seed=seed)
    if story == "kernel":
        torch.manual_seed(seed)
        parts: Any = {"prior": "standard", "x_decoder": OfZ(4, x_dim)}
        return IGCM(x_dim, r_dim, k_dim=1, seed=seed, **parts)
    return (Modes if story == "mixture" else GCM)(x_dim, r_dim, seed=seed)


def run(fit_: Fit, device: str = "cpu") -> Scores:
    """Shares inside of intervals, ranks of the first new row, and errors of probabilities."""
    story, seed = fit_.dataset, fit_.seed
    x, r, y, c, p, z = simulated(story, seed)
    learn, start = [part[:ROWS] for part in (x, r, y)], time.process_time()
    model = model_of(story, x.shape[1], r.shape[1], seed)
    options: Any = {"seed": seed, "progress": False, "device": device}
    if story == "kernel":
        options["objective"] = "joint"
    if "most" in fit_.options:
        options["epochs"] = fit_.options["most"]
    if fit_.method != "epochs by default":
        options |= {"epochs": search_epochs(model, *learn, **options), "schedule": "constant"}
    epochs, models = fit(model, *learn, **options).best_epoch, [model]
    if fit_.method == GUIDE:
        model.requires_grad_(False)
        model.shared_guide.requires_grad_(True)
        slow: Any = {
            "epochs": fit_.options.get("most", 60),
            "learning_rate": 0.03,
            "schedule": "cosine",
        }
        fit(model, *learn, standardize=False, **{**options, **slow})
    if fit_.method == "weights uncertain":
        few: Any = {
            "steps": 20 if "most" in fit_.options else 600,
            "learning_rate": 0.01,
            "num_draws": 20,
        }
        models = bayesian(model, num_samples=8).fit(*learn, seed=seed, progress=False, **few).models
    seconds = time.process_time() - start
    new, g = [part[-NEW:] for part in (x, r, y)], torch.Generator().manual_seed(seed)
    many: Any = {"num_samples": DRAWS // len(models), "progress": False}
    sites = [each.posterior(*new, seed=at, **many) for at, each in enumerate(models)]
    place = places(torch.cat([each["c"] for each in sites]), c[-NEW:], g)
    scores = {"c inside": inside(place), "c rank": float(place[0, 0])}
    if z is not None:
        name = {"group": "effect", "mixture": "u", "kernel": "k"}[story]
        drawn, true = torch.cat([each[name] for each in sites]), z[-NEW:]
        if story == "group":
            drawn, true = model.r_standardizer.scale * drawn[:, 0, :-1], z
        place = places(drawn.reshape(len(drawn), *true.shape), true, g)
        scores |= {"z inside": inside(place), "z rank": float(place.flatten()[0])}
    drawn = torch.stack([each.predict(*new[:2]) for each in models])
    scores["p error"] = float((drawn.mean(0) - p[-NEW:]).abs().mean())
    if len(models) > 1:
        scores["p inside"] = inside(places(drawn, p[-NEW:], g))
    return {**scores, "seconds": seconds, "epochs": epochs}


def places(draws: Tensor, true: Tensor, g: torch.Generator) -> Tensor:
    """The share of draws below the truth, uniform for right draws; ties are broken at random."""
    ties = 1.0 + (draws == true).sum(0)
    return ((draws < true).sum(0) + torch.rand(true.shape, generator=g) * ties) / (1 + len(draws))


def inside(place: Tensor) -> float:
    """The share of truths in central intervals of 90 %."""
    return float(((place > 0.05) & (place < 0.95)).double().mean())


def cells(fit_: Fit) -> Iterable[Fit]:
    """The first sets of each method that has the story.

    Uncertain weights know no objective but that of y, and groups alone have effects.
    """
    others = (fit_.dataset, fit_.method) == ("kernel", "weights uncertain")
    others |= fit_.method == GUIDE and fit_.dataset != "group"
    return [] if others or fit_.seed >= METHODS[fit_.method] else [fit_]


def report(table: pd.DataFrame) -> str:
    """Shares inside with half of their 95 % intervals, p-values of ranks, and seconds."""
    rows = table.astype({"value": float}).groupby(["dataset", "method"])
    names = ["c inside", "z inside", "p inside", "p error"]
    lines = []
    for story, method in ((s, m) for s in STORIES for m in METHODS):
        if (story, method) not in rows.groups:
            continue
        own = rows.get_group((story, method))
        found, line = own.pivot(index="seed", columns="metric", values="value"), [story, method]
        for name in names:
            at = found.get(name, pd.Series(dtype=float))
            half = 1.96 * at.std() / max(1, len(at)) ** 0.5
            line.append(f"{at.mean():.3f} ± {half:.3f}" if len(at) else "")
        tests = [found[n] for n in ("c rank", "z rank") if n in found and len(found) >= 50]
        counts = [np.histogram(at, bins=5, range=(0.0, 1.0))[0] for at in tests]
        line.append(", ".join(f"{chisquare(count).pvalue:.2f}" for count in counts))
        seconds = own.drop_duplicates("seed")["seconds"].mean()
        lines.append([*line, f"{len(found)}", f"{seconds:.1f}"])
    heads = ["Story", "Training", *names, "p-values of ranks", "sets", "seconds"]
    return markdown(heads, lines)


STUDY = Study(
    *("posterior_coverage", str(__doc__), STORIES, METHODS, run, "16"),
    count=50,
    counted="seeds",
    protocol="simulated",
    quick={"most": 3},
    cells=cells,
)
