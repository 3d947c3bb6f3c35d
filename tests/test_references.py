"""Likelihoods and predictions of other packages, and ours with parts fixed to the same form.

Each file of `references/` has rows, the parts, the numbers, and the package and script they are
from, which needs nothing of ours. The event is c - m < h(r), where m is linear in x, h in r and the
error of c is normal or logistic: probit, ordinal, accelerated failure time and count models are its
responses, and two events that share a z are a bivariate probit, or Heckman's two equations.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyro.distributions as dist
import pytest
import torch
import zoo
from torch import Tensor, nn

from pyro_gcm import GCM
from pyro_gcm.distributions import InfiniteCost, OrderEvent, families, register_cost_family
from pyro_gcm.distributions.numerics import log1mexp
from pyro_gcm.nets.networks import ConstantLogits
from pyro_gcm.nets.revenue_maps import Probit
from pyro_gcm.responses import (
    Binary,
    Continuous,
    Count,
    Guessed,
    Ordinal,
    Quantile,
    Response,
    Several,
    Survival,
)

FILES = sorted((Path(__file__).parent / "references").glob("*.json"))
PAGE = Path(__file__).parents[1] / "docs" / "paper" / "references.md"
#: Absolute, and relative above 1, in float64; predicted quantiles rise in steps.
TOLERANCE = {"normal_quantiles": 1e-8}
#: With these nodes as the values of z, and their weights as its probabilities, sums are integrals
#: over a N(0, 1).
NODES, WEIGHTS = (torch.tensor(part) for part in np.polynomial.hermite_e.hermegauss(60))


def double(values: Any) -> Tensor:
    """Numbers of a file; null is one that was not seen."""
    return torch.from_numpy(np.array(values, dtype=float))


def inverse_softplus(value: Tensor) -> Tensor:
    return value.expm1().log()


class Shared(nn.Module):
    """z is one of some values with these weights."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.logits = weights.log()

    def forward(self, x: Tensor) -> Any:
        return dist.OneHotCategorical(logits=self.logits.expand(len(x), -1))


class ForEach(nn.Module):
    """All revenues, for each alternative."""

    def __init__(self, alternatives: int) -> None:
        super().__init__()
        self.alternatives = alternatives

    def forward(self, r: Tensor) -> Tensor:
        return r.unsqueeze(-2).expand(*r.shape[:-1], self.alternatives, -1)


class Fixed(GCM):
    """A GCM with costs -(intercept + x b + loading * node) + error, or costs that are points."""

    form: dict[str, Tensor]

    def c_dist(self, z: Tensor, x: Tensor) -> Any:
        form = self.form
        if "points" in form:
            points = (z @ form["points"].flatten(1)).unflatten(-1, form["points"].shape[1:])
            return dist.Normal(points, 1e-9).to_event(2)
        mean = form["intercept"] + x @ form["x"]
        if "loadings" in form:
            mean = mean + (z @ NODES).unsqueeze(-1) * form["loadings"]
        cost = self.family(-form["unit"] * mean, form["unit"] * form["scale"]).to_event(1)
        return cost if self.infinite_net is None else InfiniteCost(cost, self.infinite_net(x))


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the cost families of the test."""
    monkeypatch.setattr(families, "_FAMILIES", dict(families._FAMILIES))


def log_gumbel(d: dist.Gumbel, value: Tensor) -> Tensor:
    """log Pr(c < value)."""
    return -((d.loc - value) / d.scale).exp()


def response_of(name: str, form: dict[str, Any]) -> Response:
    """The response of a file, before its parts are fixed."""
    made: dict[str, Callable[[], Response]] = {
        "ordinal_probit": lambda: Ordinal(levels=2 + len(form["gaps"])),
        "aft_log_normal": lambda: Survival(knots=0),
        "aft_log_logistic": lambda: Survival(knots=0),
        "poisson": lambda: Count(1, (), dispersion=None),
        "negative_binomial": lambda: Count(1, ()),
        "linear": lambda: Continuous(1, (), noise="constant"),
        "normal_quantiles": lambda: Quantile(1, ()),
        "guess_and_lapse": lambda: Guessed(rate=form["guess"]),
        "bivariate_probit": lambda: Several({"a": Binary(), "b": Binary()}, OWN),
        "heckman": lambda: Several({"a": Binary(), "b": Continuous(1, ())}, OWN),
    }
    return made.get(name, Binary)()


FAMILIES = {"normal": dist.Normal, "logistic": dist.Logistic, "gumbel": dist.Gumbel}
#: Each of two responses has a revenue of its own.
OWN = {"a": [1, 0], "b": [0, 1]}


@torch.no_grad()
def built(name: str, form: dict[str, Any], r_dim: int) -> Fixed:
    """The model whose parts are those of a file."""
    response = response_of(name, form)
    line = nn.Linear(max(1, r_dim), 1, bias=False)
    nn.init.ones_(line.weight)
    options: dict[str, Any] = {"z_dim": 1, "num_samples": 2}
    if "loadings" in form:
        options = {"z_dim": len(NODES), "prior": Shared(WEIGHTS)}
    elif "points" in form:
        levels, alternatives, _ = double(form["points"]).shape
        options = {"z_dim": levels, "prior": Shared(double(form["weights"]))}
        options |= {"alternatives": alternatives, "revenue_map": ForEach(alternatives)}
    elif r_dim:
        is_level = isinstance(response, Quantile)
        options["revenue_map"] = nn.Sequential(Probit(), line) if is_level else line
    if "p0" in form:
        options["p0"] = ConstantLogits()
    costs = 2 if "points" in form else 1
    model = Fixed(1, r_dim, response=response, costs=costs, **options)
    for part in (response, *getattr(response, "parts", ())):
        if isinstance(getattr(part, "net", None), nn.Module):
            for parameter in part.net.parameters():
                parameter.zero_()  # thresholds N(0, 1), in units of y
    numbers = {key: double(value) for key, value in form.items() if key != "family"}
    unit = torch.ones(1)
    if isinstance(response, Survival):
        unit = response.axis.weights()[:, 0]  # the slope of standardised log t
        response.standardizer.learn(torch.tensor([[-1.0], [4.0]]))
        numbers["intercept"] += response.standardizer.loc[0]
        numbers |= {key: numbers[key] / response.standardizer.scale for key in numbers}
    elif isinstance(response, Ordinal):
        response.gaps.raw_weight.copy_(inverse_softplus(10.0 * (numbers["gaps"] - 1e-3)) / 10.0)
    elif name == "negative_binomial":
        response.raw_dispersion.copy_(inverse_softplus(numbers["dispersion"] - 1e-4))
    elif name == "linear":
        raw = inverse_softplus(numbers["noise"] - 0.05) - math.log(math.expm1(0.95))
        response.raw_noise.copy_(raw)
        numbers["scale"] = numbers["noise"].hypot(unit)  # of noise and threshold together
    if "p0" in form:
        model.infinite_net.logits.copy_(numbers["p0"].logit())
    if "x" in form and "loadings" not in form:
        numbers["x"] = numbers["x"].unsqueeze(-1)
        if r_dim:
            line.weight.copy_(unit * numbers["r"])
    if form.get("family") == "gumbel":
        upper = lambda d, value: log1mexp(log_gumbel(d, value))  # noqa: E731
        register_cost_family(dist.Gumbel, log_gumbel, upper)
    model.family = FAMILIES[form.get("family", "normal")]
    model.form = {"scale": torch.ones(1), **numbers, "unit": unit}
    return model


def columns(case: dict[str, Any]) -> tuple[Tensor, Tensor, Any]:
    """x, r and y of a file."""
    x, r, y = (double(case[key]) for key in "xry")
    if "times" in case["wanted"]:
        y = y.nan_to_num(nan=math.inf)  # no event was seen
    return x, r, dict(zip(OWN, y.T, strict=True)) if "loadings" in case["form"] else y


def of_truncated(model: Any, x: Tensor, r: Tensor, y: Tensor, values: Any) -> dict[str, Tensor]:
    """The density of the cost given the event, and moments of its draws."""
    event = OrderEvent(model.c_dist(x, x), model.mapped(r))
    draws = model.cost_posterior(x, r, y, num_samples=4000, progress=False)["c"][..., 0]
    log_prob = event.cost_posterior(y).log_prob(values.unsqueeze(-1))
    return {"log_prob": log_prob, "mean": draws.mean(0), "std": draws.std(0)}


@torch.no_grad()
def both(file: Path) -> dict[str, tuple[Tensor, Tensor]]:
    """Our numbers and theirs, by what they are."""
    case = json.loads(file.read_text(encoding="utf-8"))
    wanted = {key: double(numbers) for key, numbers in case["wanted"].items()}
    x, r, y = columns(case)
    with zoo.default_dtype(torch.float64):
        model = built(file.stem, case["form"], r.shape[1])
    found: dict[str, Any] = {}
    if "values" in wanted:
        found = of_truncated(model, x, r, y, wanted.pop("values"))
    times = wanted.pop("times", None)
    for key in wanted.keys() - found.keys():
        if key == "predict":
            found[key] = model.predict(x, r)
        elif key == "probabilities":
            found[key] = model.predictive(x, r).probabilities()
        elif key == "mean":
            found[key] = model.predictive(x, r, exposure=y[:, 1]).mean
        elif key == "survival":
            found[key] = model.predictive(x, r).survival(times)
        elif key.endswith("log_prob"):
            log_prob = model.log_prob(x, r, y)
            found[key] = log_prob.sum() if key.startswith("sum") else log_prob
    return {key: (found[key].double(), numbers) for key, numbers in wanted.items()}


def table() -> str:
    """A line for each file, with a number of it, and the bound on the difference of all."""
    lines = [
        "| Reference | Numbers | One of them, ours | Theirs | Difference | Source |",
        "|---|---|---|---|---|---|",
    ]
    for file in FILES:
        case, numbers = json.loads(file.read_text(encoding="utf-8")), both(file)
        *_, package = sorted(case["versions"], key=lambda name: name not in ("numpy", "scipy"))
        told = f"{case['source']} ({package} {case['versions'][package]})"
        if "std" in numbers:  # moments of draws are not equal
            numbers = {"log_prob": numbers["log_prob"]}
        *_, (ours, theirs) = numbers.values()
        count = sum(their.numel() for _, their in numbers.values())
        first = " | ".join(f"{number.flatten()[0]:.6g}" for number in (ours, theirs))
        bound = f"< {TOLERANCE.get(file.stem, 1e-9):.0e}".replace("e-0", "e-")
        lines.append(f"| `{file.stem}` | {count} | {first} | {bound} | {told} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_numbers_are_those_of_other_packages(file: Path, registry: None) -> None:
    numbers, margin = both(file), TOLERANCE.get(file.stem, 1e-9)
    if "std" in numbers:  # of 4,000 draws
        (mean, _), (std, wanted) = numbers["mean"], numbers.pop("std")
        assert ((mean - numbers.pop("mean")[1]).abs() < 6.0 * wanted / 4000**0.5).all()
        torch.testing.assert_close(std, wanted, rtol=0.15, atol=0.0)
    for key, (ours, theirs) in numbers.items():
        assert ((ours - theirs).abs() < margin * theirs.abs().clamp(min=1.0)).all(), key


MODULES = {"scikit-learn": "sklearn", "scikit-survival": "sksurv"}


@pytest.mark.long(keep=0)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scripts_give_the_numbers(file: Path) -> None:
    case, made = json.loads(file.read_text(encoding="utf-8")), dict[str, Any]()
    for package in case["versions"]:
        pytest.importorskip(MODULES.get(package, package))
    exec("\n".join(case["script"]), made)
    for kept, numbers in ((case, made), (case["wanted"], made["wanted"])):
        for key in kept.keys() & {"x", "r", "y", *case["wanted"]}:
            found, wanted = (np.asarray(part[key], dtype=float) for part in (numbers, kept))
            found = np.where(np.isinf(found), np.nan, found)  # as JSON has it
            # Of another version the last digits of what it maximises may be others.
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6, err_msg=key)


def test_the_page_has_the_table_of_all_references(registry: None) -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


if __name__ == "__main__" and "--table" in sys.argv:
    warnings.simplefilter("ignore")  # of models that have not been fitted
    print(table(), end="")
