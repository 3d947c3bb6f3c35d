"""Extended models: groups, costs that go together, modes of costs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyro.distributions as dist
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from pyro_gcm import GCM, fit
from pyro_gcm.distributions import shifted
from pyro_gcm.models import HierarchicalGCM
from reproduce.methods.together import fit_together
from reproduce.rendering.markdown import known_first, markdown, number
from reproduce.runs import Fit, Scores
from reproduce.study import Study, but_the_seed
from reproduce.tasks import load

TEST, GROUPS = 2000, 30
Columns = tuple[Tensor, Tensor, Tensor]
#: Yields a model, what it is trained on and how, gets it trained, and yields its scores.
Part = Generator[Any, Any, None]


class Data(NamedTuple):
    """Rows with their true Pr(y = 1 | x, r); the last 2,000 are to test on."""

    x: Tensor
    r: Tensor
    y: Tensor
    truth: Tensor

    @property
    def learn(self) -> Columns:
        """x, r and y to train on."""
        return self.x[:-TEST], self.r[:-TEST], self.y[:-TEST]

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        """x and r to test on."""
        return self.x[-TEST:], self.r[-TEST:]

    def log_score(self, p: Tensor) -> float:
        """The expected log score of predictions of the test rows, in nats a row."""
        p, truth = p.double().clamp(1e-12, 1.0 - 1e-12), self.truth[-TEST:]
        return (truth * p.log() + (1.0 - truth) * (1.0 - p).log()).mean().item()

    def log_scores(self, p: Tensor) -> Scores:
        """Of predictions of the test rows, and of the truth."""
        truth = self.log_score(self.truth[-TEST:])
        return {"log score": self.log_score(p), "log score of the truth": truth}


def simulate(
    rows: int,
    seed: int,
    costs: Callable[[Tensor, torch.Generator], Tensor],
    truth: Callable[[Tensor, Tensor], Tensor],
    columns: int = 1,
    spread: float = 2.0,
) -> Data:
    """Rows and those to test on: r with this spread, and the outcome of costs drawn given x."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows + TEST, 2, generator=g)
    r = spread * torch.randn(rows + TEST, columns, generator=g)
    return Data(x, r, (costs(x, g) < r).all(1).float(), truth(x, r))


def _ndtr(u: Tensor) -> Tensor:
    return torch.special.ndtr(u.double())


def groups(method: str, seed: int) -> Part:
    """What is found of the effects of groups, and the score of predictions.

    1,000 rows of 30 groups of different sizes, effects with standard deviation 1.
    """
    g = torch.Generator().manual_seed(1000 + seed)
    effects = torch.randn(GROUPS, generator=g)
    sizes = torch.rand(GROUPS, generator=g).square() + 0.02
    group = torch.multinomial(sizes, 1000 + TEST, replacement=True, generator=g)

    def costs(x: Tensor, g: torch.Generator) -> Tensor:
        noise = 0.5 * torch.randn(len(x), 1, generator=g)
        return torch.tanh(x[:, :1]) + effects[group][:, None] + noise

    def truth(x: Tensor, r: Tensor) -> Tensor:
        return _ndtr((r[:, 0] - torch.tanh(x[:, 0]) - effects[group]) / 0.5)

    data = simulate(1000, seed, costs, truth)
    hierarchical = method == "HierarchicalGCM"
    known = {"HierarchicalGCM": group[:, None], "GCM, one-hot groups": one_hot(group, GROUPS)}
    data = data._replace(x=torch.cat([data.x, known.get(method, data.x[:, :0])], 1))
    kind: Any = partial(HierarchicalGCM, groups=GROUPS) if hierarchical else GCM
    options = {"epochs": 60, "learning_rate": 0.02}
    model = yield kind(data.x.shape[1], 1, seed=seed), data.learn, options
    x, r = data.test
    found = data.log_scores(model.predict(x, r))
    if not hierarchical:
        yield found
        return
    one = data.x[:1], data.r[:1]
    draws = model.posterior(*one, num_samples=1000, seed=seed, progress=False)
    unit = model.r_standardizer.scale.item()
    effect, spread = unit * draws["effect"][:, 0, :-1], unit * draws["spread"][:, 0]
    low, high = (effect.quantile(p, 0) for p in (0.05, 0.95))
    both, inside = torch.stack([effect.mean(0), effects]), (low <= effects) & (effects <= high)
    unseen = torch.cat([x[:, :-1], torch.full_like(x[:, -1:], -1.0)], 1)
    yield found | {
        "correlation of the effects with the truth": torch.corrcoef(both)[0, 1].item(),
        "coverage of 90 % intervals of effects": inside.double().mean().item(),
        "spread of effects (truth 1)": spread.mean().item(),
        "spread of an unseen effect": (unit * draws["effect"][:, 0, -1]).std().item(),
        "log score, groups unseen": data.log_score(model.predict(unseen, r)),
    }


class Factor(GCM):
    """A GCM whose costs of a row share a factor u, and so are correlated given z."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.loading = nn.Parameter(torch.tensor(0.5))

    def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
        """The factor is a site of the row, which moves its costs."""
        z = sample("z", lambda: self.z_dist(x))
        u = sample("u", dist.Normal(torch.zeros(len(x)), 1.0))
        c = sample("c", lambda: shifted(self.c_dist(z, x), self.loading * u))
        return sample("y", lambda: self.y_dist(c, x, r), obs=y)


class Modes(GCM):
    """A GCM whose rows have one of two modes u, which moves their costs."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logits = nn.Parameter(torch.zeros(2))
        self.modes = nn.Parameter(torch.tensor([-1.0, 1.0]))

    def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
        """The site of the mode is summed out."""
        z = sample("z", lambda: self.z_dist(x))
        u = sample("u", lambda: dist.Categorical(logits=self.logits.expand(len(x), 2)))
        c = sample("c", lambda: shifted(self.c_dist(z, x), self.modes[u.long()]))
        return sample("y", lambda: self.y_dist(c, x, r), obs=y)


def _small(method: str, columns: Columns, seed: int, epochs: int) -> tuple[GCM, Columns, Any]:
    """A small GCM, whose story the method says, what it is trained on and how."""
    kind = Factor if "factor" in method else Modes if "modes" in method else GCM
    model = kind(columns[0].shape[1], columns[1].shape[1], hidden=8, z_dim=2, seed=seed)
    return model, columns, {"epochs": epochs}


def factor(method: str, seed: int) -> Part:
    """The correlation of two costs given x, which is .81, and the score."""

    def costs(x: Tensor, g: torch.Generator) -> Tensor:
        common, own = (torch.randn(len(x), k, generator=g) for k in (1, 2))
        return torch.tanh(x[:, :1]) + 0.9 * common + 0.19**0.5 * own

    def truth(x: Tensor, r: Tensor) -> Tensor:
        nodes, weights = map(torch.tensor, np.polynomial.hermite_e.hermegauss(40))
        given = (r.double() - torch.tanh(x[:, :1]).double())[..., None] - 0.9 * nodes
        return (_ndtr(given / 0.19**0.5).prod(1) * (weights / weights.sum())).sum(1)

    data = simulate(10_000, seed, costs, truth, columns=2, spread=1.0)
    model = yield _small(method, data.learn, seed, epochs=20)
    one = torch.zeros(1, 2)
    drawn = model.posterior(one, one, num_samples=8000, seed=seed, progress=False)["c"][:, 0]
    correlation = torch.corrcoef(drawn.T)[0, 1].item()
    scores = data.log_scores(model.predict(*data.test))
    yield {"correlation of the costs (truth .81)": correlation, **scores}


def compas(method: str, seed: int) -> Part:
    """The score of a fifth of COMPAS, whose four revenues may have costs that go together."""
    rows = load("compas", "default")
    g = torch.Generator().manual_seed(seed)
    train, test = torch.randperm(len(rows), generator=g).tensor_split([len(rows) * 4 // 5])
    columns = rows.x[train], rows.r[train], rows.y[train]
    model = yield _small(method, columns, seed, epochs=20)
    p, y = model.predict(rows.x[test], rows.r[test]).double(), rows.y[test].double()
    yield {"log score": (y * p.log() + (1.0 - y) * (1.0 - p).log()).mean().item()}


def modes(method: str, seed: int) -> Part:
    """The distribution of a cost that is cheap with probability .35, and dear otherwise."""

    def costs(x: Tensor, g: torch.Generator) -> Tensor:
        dear = torch.rand(len(x), 1, generator=g) > 0.35
        return torch.where(dear, 1.5, -1.5) + 0.4 * torch.randn(len(x), 1, generator=g)

    def below(value: Tensor) -> Tensor:
        return 0.35 * _ndtr((value + 1.5) / 0.4) + 0.65 * _ndtr((value - 1.5) / 0.4)

    data = simulate(3000, seed, costs, lambda x, r: below(r[:, 0]))
    model = yield _small(method, data.learn, seed, epochs=40)
    grid = torch.linspace(-3.0, 3.0, 61)[:, None]
    at = model.surface(torch.zeros(1, 2), grid)[0].double()
    yield {
        "Pr(cost below 0) (truth .35)": at[30].item(),
        "error of the distribution function": (at - below(grid[:, 0])).abs().mean().item(),
        **data.log_scores(model.predict(*data.test)),
    }


#: Part -> its function (method, seed), and its methods.
PARTS: dict[str, tuple[Callable[..., Part], tuple[str, ...]]] = {
    "groups": (groups, ("HierarchicalGCM", "GCM, one-hot groups", "GCM, no groups")),
    "factor": (factor, ("GCM", "GCM, factor")),
    "compas": (compas, ("GCM", "GCM, factor")),
    "modes": (modes, ("GCM", "GCM, modes")),
}


def run(group: Sequence[Fit], device: str = "cpu") -> list[Any]:
    """Fits that differ in their seeds, side by side unless rows share sites."""
    parts = [PARTS[each.dataset][0](each.method, each.seed) for each in group]
    models, columns, (options, *_) = zip(*map(next, parts), strict=True)
    if isinstance(models[0], HierarchicalGCM):
        for model, own, each in zip(models, columns, group, strict=True):
            fit(model, *own, seed=each.seed, progress=False, **options)
    else:
        fit_together(models, columns, [each.seed for each in group], **options)
    return [part.send(model) for part, model in zip(parts, models, strict=True)]


def report(table: pd.DataFrame, part: str) -> str:
    """Mean and standard deviation over the seeds of every score; the gain on the same seeds."""
    own = table[table["dataset"] == part].astype({"value": float})
    first, names, lines = PARTS[part][1][0], known_first(own["metric"]), []
    wide = own.pivot(index="seed", columns=["method", "metric"], values="value")
    for method in own["method"].unique():
        scores = wide[method]
        gain = scores["log score"] - wide[first]["log score"]
        cells = (_cell(scores[n].mean(), scores[n].std()) if n in scores else "" for n in names)
        gained = "" if method == first else _cell(gain.mean(), gain.std() / len(gain) ** 0.5)
        lines.append([method, *cells, gained])
    gained = f"log score, gain over {first} (standard error)"
    return markdown(["Model", *names, gained], lines)


def _cell(mean: float, spread: float) -> str:
    return f"{number(mean)} ({number(spread)})"


STUDY = Study(
    *("stories", str(__doc__), PARTS),
    {method: None for _, methods in PARTS.values() for method in methods},
    *(run, "14"),
    count=50,
    counted="seeds",
    protocol="simulated",
    variant="",
    together=but_the_seed,
    cells=lambda fit: [fit] if fit.method in PARTS[fit.dataset][1] else [],
)
