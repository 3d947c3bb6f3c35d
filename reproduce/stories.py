"""Changed stories: groups, costs that go together, modes of costs, weights with priors."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_gcm import GCM, FitSettings, fit, fit_members
from pyro_gcm.inference import WeightPosterior, bayesian
from pyro_gcm.models import HierarchicalGCM
from pyro_gcm.nets import FactorCosts, MixedCosts
from reproduce.arguments import positive_count
from reproduce.rendering.markdown import known_first, markdown, number
from reproduce.runs import Fit, Scores, add_run_arguments, as_json, run_fits
from reproduce.tasks import load

TEST, GROUPS = 2000, 30
#: Settings of the tables of `bands`: rows, and whether x has an interaction.
BANDS = {
    "500 rows, additive": (500, False),
    "500 rows, interaction": (500, True),
    "5,000 rows, additive": (5000, False),
    "5,000 rows, interaction": (5000, True),
}
BOOTSTRAP = 16


class Data(NamedTuple):
    """Rows to train on and rows to test on, with the truth of the latter."""

    x: Tensor
    r: Tensor
    y: Tensor
    test_x: Tensor
    test_r: Tensor
    truth: Tensor
    effects: Tensor

    def log_score(self, p: Tensor) -> float:
        """The expected log score of predictions of the test rows, in nats a row."""
        p = p.double().clamp(1e-12, 1.0 - 1e-12)
        return (self.truth * p.log() + (1.0 - self.truth) * (1.0 - p).log()).mean().item()


def _data(
    rows: int,
    seed: int,
    columns: int,
    costs: Callable[[Tensor, torch.Generator], Tensor],
    spread: float = 2.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """x, r with this standard deviation, and the outcome of costs [n, m] that are drawn given x."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 2, generator=g)
    r = spread * torch.randn(rows, columns, generator=g)
    return x, r, (costs(x, g) < r).all(1).float()


def _ndtr(u: Tensor) -> Tensor:
    return torch.special.ndtr(u.double())


def grouped(seed: int) -> Data:
    """1,000 rows of 30 groups of different sizes, effects with standard deviation 1."""
    g = torch.Generator().manual_seed(1000 + seed)
    effects = torch.randn(GROUPS, generator=g)
    sizes = torch.rand(GROUPS, generator=g).square() + 0.02
    group = torch.multinomial(sizes, 1000 + TEST, replacement=True, generator=g)

    def costs(x: Tensor, g: torch.Generator) -> Tensor:
        noise = 0.5 * torch.randn(len(x), 1, generator=g)
        return torch.tanh(x[:, :1]) + effects[group][:, None] + noise

    x, r, y = _data(1000 + TEST, seed, 1, costs)
    truth = _ndtr((r[:, 0] - torch.tanh(x[:, 0]) - effects[group]) / 0.5)
    x = torch.cat([x, group[:, None].float()], 1)
    return Data(x[:1000], r[:1000], y[:1000], x[1000:], r[1000:], truth[1000:], effects)


def _one_hot(x: Tensor) -> Tensor:
    return torch.cat([x[:, :-1], torch.nn.functional.one_hot(x[:, -1].long(), GROUPS)], 1)


def groups(method: str, seed: int) -> Scores:
    """What is found of the effects, and the score of predictions."""
    data = grouped(seed)
    training: Any = {"epochs": 60, "learning_rate": 0.02, "seed": seed, "progress": False}
    if method == "HierarchicalGCM":
        model: Any = HierarchicalGCM(3, 1, groups=GROUPS, seed=seed)
        x, test_x = data.x, data.test_x
    elif method == "GCM, one-hot groups":
        x, test_x = _one_hot(data.x), _one_hot(data.test_x)
        model = GCM(2 + GROUPS, 1, seed=seed)
    else:
        x, test_x = data.x[:, :-1], data.test_x[:, :-1]
        model = GCM(2, 1, seed=seed)
    fit(model, x, data.r, data.y, **training)
    found = {"log score": data.log_score(model.predict(test_x, data.test_r))}
    found["log score of the truth"] = data.log_score(data.truth)
    if method != "HierarchicalGCM":
        return found
    draws = model.posterior(x[:1], data.r[:1], num_samples=1000, seed=seed, progress=False)
    unit = model.r_standardizer.scale.item()
    effect, spread = unit * draws["effect"][:, 0, :-1], unit * draws["spread"][:, 0]
    low, high = (effect.quantile(p, 0) for p in (0.05, 0.95))
    both = torch.stack([effect.mean(0), data.effects])
    unseen = torch.cat([test_x[:, :-1], torch.full_like(test_x[:, -1:], -1.0)], 1)
    return found | {
        "correlation of the effects with the truth": torch.corrcoef(both)[0, 1].item(),
        "coverage of 90 % intervals of effects": _inside(data.effects, low, high),
        "spread of effects (truth 1)": spread.mean().item(),
        "spread of an unseen effect": (unit * draws["effect"][:, 0, -1]).std().item(),
        "log score, groups unseen": data.log_score(model.predict(unseen, data.test_r)),
    }


def _inside(truth: Tensor, low: Tensor, high: Tensor) -> float:
    return ((low <= truth) & (truth <= high)).double().mean().item()


def _costs_of_two(x: Tensor, g: torch.Generator) -> Tensor:
    """Normal costs with a correlation of .81 given x."""
    common, own = (torch.randn(len(x), k, generator=g) for k in (1, 2))
    return torch.tanh(x[:, :1]) + 0.9 * common + 0.19**0.5 * own


def factor(method: str, seed: int) -> Scores:
    """The correlation of two costs given x, and the score."""
    rows = 10_000
    x, r, y = _data(rows + TEST, seed, 2, _costs_of_two, spread=1.0)
    nodes, weights = (torch.tensor(v) for v in _hermite(40))
    given = (r.double() - torch.tanh(x[:, :1]).double())[..., None] - 0.9 * nodes
    truth = (_ndtr(given / 0.19**0.5).prod(1) * weights).sum(1)[rows:]
    data = Data(x[:rows], r[:rows], y[:rows], x[rows:], r[rows:], truth, truth)
    model = _with_factor(method, *data[:3], seed)
    one = torch.zeros(1, 2)
    drawn = model.posterior(one, one, num_samples=8000, seed=seed, progress=False)["c"][:, 0]
    return {
        "correlation of the costs (truth .81)": torch.corrcoef(drawn.T)[0, 1].item(),
        "log score": data.log_score(model.predict(data.test_x, data.test_r)),
        "log score of the truth": data.log_score(data.truth),
    }


def _with_factor(method: str, x: Tensor, r: Tensor, y: Tensor, seed: int) -> GCM:
    torch.manual_seed(seed)
    columns = r.shape[1]
    costs: Any = FactorCosts(2, (columns,), hidden=8) if "factor" in method else "normal"
    model = GCM(x.shape[1], columns, hidden=8, z_dim=2, cost_family=costs, seed=seed)
    draws = FitSettings(particles="qmc" if "Sobol" in method else "random")
    fit(model, x, r, y, epochs=20, seed=seed, settings=draws, progress=False)
    return model


def compas(method: str, seed: int) -> Scores:
    """The score of a fifth of COMPAS, whose four revenues may have costs that go together."""
    rows = load("compas", "default")
    g = torch.Generator().manual_seed(seed)
    train, test = torch.randperm(len(rows), generator=g).tensor_split([len(rows) * 4 // 5])
    model = _with_factor(method, rows.x[train], rows.r[train], rows.y[train], seed)
    p, y = model.predict(rows.x[test], rows.r[test]).double(), rows.y[test].double()
    return {"log score": (y * p.log() + (1.0 - y) * (1.0 - p).log()).mean().item()}


def _hermite(count: int) -> Any:
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


def modes(method: str, seed: int) -> Scores:
    """The distribution of a cost that is cheap with probability .35, and dear otherwise."""

    def costs(x: Tensor, g: torch.Generator) -> Tensor:
        dear = torch.rand(len(x), 1, generator=g) > 0.35
        return torch.where(dear, 1.5, -1.5) + 0.4 * torch.randn(len(x), 1, generator=g)

    x, r, y = _data(3000 + TEST, seed, 1, costs)

    def below(value: Tensor) -> Tensor:
        return 0.35 * _ndtr((value + 1.5) / 0.4) + 0.65 * _ndtr((value - 1.5) / 0.4)

    data = Data(x[:3000], r[:3000], y[:3000], x[3000:], r[3000:], below(r[3000:, 0]), r)
    torch.manual_seed(seed)
    family: Any = MixedCosts(2, (1,), modes=2, hidden=8) if "modes" in method else "normal"
    model = GCM(2, 1, hidden=8, z_dim=2, cost_family=family, seed=seed)
    draws = FitSettings(particles="qmc")
    fit(model, *data[:3], epochs=40, seed=seed, settings=draws, progress=False)
    grid = torch.linspace(-3.0, 3.0, 61)[:, None]
    at = model.surface(torch.zeros(1, 2), grid)[0].double()
    return {
        "Pr(cost below 0) (truth .35)": at[30].item(),
        "error of the distribution function": (at - below(grid[:, 0])).abs().mean().item(),
        "log score": data.log_score(model.predict(data.test_x, data.test_r)),
        "log score of the truth": data.log_score(data.truth),
    }


def bands(method: str, seed: int, rows: int, interaction: bool) -> Scores:
    """Coverage and width of 90 % bands of Pr(y = 1), mean over the test rows."""

    def cost(x: Tensor) -> Tensor:
        return 1.2 * torch.tanh(x[:, 0]) - 0.5 * x[:, 1] + interaction * x[:, 0] * x[:, 1]

    def costs(x: Tensor, g: torch.Generator) -> Tensor:
        return (cost(x) + 0.7 * torch.randn(len(x), generator=g))[:, None]

    x, r, y = _data(rows + TEST, seed, 1, costs)
    truth = _ndtr((r[:, 0] - cost(x)) / 0.7)[rows:]
    data = Data(x[:rows], r[:rows], y[:rows], x[rows:], r[rows:], truth, truth)
    given = data.x, data.r, data.y
    training: Any = {"epochs": 60 if rows < 1000 else 20, "seed": seed, "progress": False}
    torch.manual_seed(seed)
    if method == "members":
        own = fit_members(*given, seed=seed, progress=False).model
        draws = own.predict_draws(data.test_x, data.test_r)
    elif method == "bootstrap":
        g = torch.Generator().manual_seed(seed)
        models = []
        for _ in range(BOOTSTRAP):
            chosen = torch.randint(rows, (rows,), generator=g)
            models.append(GCM(2, 1, hidden=8, z_dim=2, seed=seed))
            fit(models[-1], *(column[chosen] for column in given), **training)
        draws = WeightPosterior(models).predict_draws(data.test_x, data.test_r)
    else:
        model = GCM(2, 1, hidden=8, z_dim=2, seed=seed)
        fit(model, *given, **training)
        options: Any = {"guide": method.partition(", ")[2], "seed": seed, "progress": False}
        found = bayesian(model, num_samples=16).fit(*given, steps=1500, **options)
        draws = found.predict_draws(data.test_x, data.test_r)
    low, high = (draws.double().quantile(p, 0) for p in (0.05, 0.95))
    mean = draws.double().mean(0)
    return {
        "coverage": _inside(truth, low, high),
        "width": (high - low).mean().item(),
        "root mean squared error": (mean - truth).square().mean().sqrt().item(),
        "log score": data.log_score(mean),
        "log score of the truth": data.log_score(truth),
    }


#: Part -> its methods.
PARTS: dict[str, tuple[str, ...]] = {
    "groups": ("HierarchicalGCM", "GCM, one-hot groups", "GCM, no groups"),
    "factor": ("GCM", "GCM, factor", "GCM, Sobol draws", "GCM, factor, Sobol draws"),
    "compas": ("GCM, Sobol draws", "GCM, factor, Sobol draws"),
    "modes": ("GCM, Sobol draws", "GCM, modes, Sobol draws"),
    "bands": (
        "members", "bootstrap", "bayesian, normal", "bayesian, low_rank", "bayesian, sgld"
    ),
}  # fmt: skip
_RUN: dict[str, Callable[..., Scores]] = {
    "groups": groups, "factor": factor, "compas": compas, "modes": modes
}  # fmt: skip


def run(fit: Fit, device: str = "cpu") -> Scores:
    """One method on one simulated data set."""
    start = time.perf_counter()
    if fit.dataset == "bands":
        scores = bands(fit.method, fit.seed, *BANDS[fit.variant])
    else:
        scores = _RUN[fit.dataset](fit.method, fit.seed)
    return {**scores, "seconds": time.perf_counter() - start, "epochs": 0}


def fits(parts: list[str], seeds: int, band_seeds: int) -> list[Fit]:
    """All of them, those of one seed together."""
    return [
        Fit("stories", part, variant, "simulated", str(seed), seed, method, as_json({}))
        for part in parts
        for seed in range(band_seeds if part == "bands" else seeds)
        for variant in (BANDS if part == "bands" else ("",))
        for method in PARTS[part]
    ]


def report(table: pd.DataFrame, part: str) -> str:
    """Mean and standard deviation over the seeds of every score; the gain on the same seeds."""
    own = table[table["dataset"] == part].astype({"value": float})
    several = own["variant"].nunique() > 1
    names = known_first(own["metric"])
    first = PARTS[part][0]
    lines = []
    for (variant, method), rows in own.groupby(["variant", "method"], sort=False):
        cells = []
        for name in names:
            values = rows.loc[rows["metric"] == name, "value"]
            cells.append(f"{number(values.mean())} ({number(values.std())})" if len(values) else "")
        scores = own[(own["variant"] == variant) & (own["metric"] == "log score")]
        scores = scores.pivot(index="seed", columns="method", values="value")
        gain = scores[method] - scores[first]
        cells.append(
            ""
            if method == first
            else f"{number(gain.mean())} ({number(gain.std() / len(gain) ** 0.5)})"
        )
        lines.append([*([str(variant)] if several else []), str(method), *cells])
    gained = f"log score, gain over {first} (standard error)"
    return markdown([*(["Data"] if several else []), "Model", *names, gained], lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce stories`."""
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seeds", type=positive_count, default=50)
    parser.add_argument("--band-seeds", type=positive_count, default=10)
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the seeds that the table lacks, and print it."""
    quick = arguments.quick
    seeds, band_seeds = (1, 1) if quick else (arguments.seeds, arguments.band_seeds)
    wanted = fits(arguments.parts, seeds, band_seeds)
    if quick:
        wanted = [
            one for one in wanted if one.dataset != "bands" or one.variant == next(iter(BANDS))
        ]
    path = arguments.output / "stories.csv"
    table = run_fits(path, wanted, run, arguments)
    for part in arguments.parts:
        print(f"\n{part}\n\n{report(table, part)}")
    print(f"\nwritten: {path}")
