"""Calibration of known posteriors, by closed form or rejection, and of stories of one's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyro.distributions as dist
import pytest
import torch
from known_posteriors import Draws, gaussian_posterior, linear, rejection, revenues, rows
from scipy import special, stats
from torch import Tensor

from pyro_gcm import GCM, IGCM
from pyro_gcm.diagnostics import SBCResult, simulation_based_calibration
from pyro_gcm.distributions import shifted
from pyro_gcm.inference import of_rows


def calibration(model: Any, count: int = 400, **options: Any) -> SBCResult:
    r = None if isinstance(model, IGCM) else revenues(count)
    return simulation_based_calibration(model, rows(count), r, progress=False, **options)


@pytest.mark.parametrize("kind", [GCM, IGCM])
def test_exact_posterior_passes(kind: type) -> None:
    model = linear(kind)
    sampler = partial(gaussian_posterior, model)
    results = [calibration(model, sampler=sampler, seed=seed) for seed in range(10)]
    given = "r" if kind is GCM else "k"
    names = ["z[0]", "z[1]", *(["k[0]"] if kind is IGCM else []), "c[0]"]
    names += [f"log p(y|z, {given})", f"log p(y|z, c, {given})", "log p(c|z)"]
    assert list(results[0].ranks.columns) == names
    p_values = pd.DataFrame([result.p_values() for result in results])
    assert p_values.to_numpy().min() > 1e-4
    for name in names:
        assert stats.kstest(p_values[name], "uniform").pvalue > 1e-3


@pytest.mark.parametrize("kind", [GCM, IGCM])
def test_wrong_spreads_and_draws_that_ignore_y_fail(kind: type) -> None:
    model = linear(kind)
    for spread in (1.3, 1.0 / 1.3):
        sampler = partial(gaussian_posterior, model, spread=spread)
        p_values = calibration(model, 1500, sampler=sampler).p_values()
        assert (p_values.filter(like="[").drop("c[0]") < 1e-5).all()
    sampler = partial(gaussian_posterior, model, sees_y=False)
    p_values = calibration(model, 1000, sampler=sampler).p_values()
    # The prior is a posterior for all that can be said of z alone: that is the blind spot.
    assert (p_values.filter(regex="^z") > 1e-3).all()
    assert (p_values.filter(like="log p(y") < 1e-12).all()


def permuted(draws: Tensor) -> Tensor:
    """The draws of every row in another order."""
    order = torch.rand(draws.shape[:2]).argsort(0)
    return draws[order, torch.arange(draws.shape[1])]


#: Wrong draws, in the shapes and types of the right ones: the sites that change, and how.
BROKEN: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "z permuted against c": ("z", permuted),
    "k permuted against c": ("k", permuted),
    "columns of z swapped": ("z", lambda draws: draws.flip(-1)),
    "draws of the next row": ("zkc", lambda draws: draws.roll(1, 1)),
    "shifted": ("z", lambda draws: draws + 0.25 * draws.std(0)),
    "one draw, repeated": ("zkc", lambda draws: draws[:1].expand_as(draws).clone()),
}


@pytest.mark.parametrize("kind", [GCM, IGCM])
def test_wrong_draws_are_found(kind: type) -> None:
    model = linear(kind)
    for name, (sites, change) in BROKEN.items():
        if sites == "k" and kind is GCM:
            continue

        def sampler(
            *data: Tensor, sites: str = sites, change: Any = change, **options: Any
        ) -> Draws:
            draws = gaussian_posterior(model, *data, **options)
            with torch.random.fork_rng():
                torch.manual_seed(options["seed"] + 1)
                return {site: change(v) if site in sites else v for site, v in draws.items()}

        result = calibration(model, 1500, sampler=sampler)
        assert result.p_value() < 1e-4, name
        if "permuted" in name:  # each coordinate is right by itself
            assert result.p_values().filter(regex=r"^[zkc]\[").min() > 1e-4, name


def binary(**options: Any) -> GCM:
    return GCM(2, 1, z_dim=2, hidden=4, seed=3, **options).double()


@pytest.mark.parametrize(
    ("options", "costs"),
    [({}, ["c[0]"]), ({"alternatives": 2, "costs": 1, "p0": "constant"}, ["c[0,0]", "c[1,0]"])],
    ids=["plain", "alternatives with infinite costs"],
)
def test_rejection_passes_with_ties_of_ranks(options: dict[str, Any], costs: list[str]) -> None:
    model = binary(**options)
    sampler = partial(rejection, model)
    result = calibration(model, 500, sampler=sampler, num_draws=19)
    likelihoods = ["log p(y|z, r)", "log p(y|z, c, r)", "log p(c|z)"]
    assert list(result.ranks.columns) == ["z[0]", "z[1]", *costs, *likelihoods]
    assert result.p_values().min() > 1e-3
    # log p(y|z, c, r) is 0 for all of them: the rank is drawn at random.
    assert set(result.ranks["log p(y|z, c, r)"]) == set(range(20))


def test_costs_that_contradict_y_are_found() -> None:
    model = binary()
    sampler = partial(rejection, model, cost_sees_y=False)
    p_values = calibration(model, 400, sampler=sampler, num_draws=19).p_values()
    assert p_values["log p(y|z, c, r)"] < 1e-12
    assert (p_values[["z[0]", "z[1]", "log p(y|z, r)"]] > 1e-3).all()


def test_default_sampler_is_the_cost_posterior_of_the_model() -> None:
    model = linear(GCM)
    asked = []

    def cost_posterior(x: Tensor, r: Tensor, y: Tensor, *, progress: bool, **options: Any) -> Draws:
        assert not progress  # the bar of the calibration is enough
        asked.append(len(x))
        return gaussian_posterior(model, x, r, y, **options)

    object.__setattr__(model, "cost_posterior", cost_posterior)
    result = calibration(model, 50, batch_size=20)
    assert asked == [20, 20, 10]
    assert len(result.ranks) == 50


def test_size_is_for_a_model_that_draws_its_covariates() -> None:
    model = GCM(2, 1, prior="standard", z_dim=2, hidden=4, seed=3)

    def sampler(x: Tensor, r: Tensor, y: Tensor, *, num_samples: int, seed: int) -> Draws:
        assert x.shape == (50, 2)
        assert r.shape == (50, 1)
        return {"z": torch.zeros(num_samples, 50, 2), "c": torch.zeros(num_samples, 50, 1)}

    result = simulation_based_calibration(model, size=50, sampler=sampler)
    assert set(result.ranks["z[0]"]) == {0, 99}


def test_the_seed_decides_and_no_two_draws_share_one() -> None:
    """With the seed of the simulation the sampler would repeat the true values."""
    model, state, seeds = linear(GCM), torch.get_rng_state(), []

    def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
        def record(*args: Any, seed: int, **options: Any) -> Any:
            seeds.append(seed)
            return function(*args, seed=seed, **options)

        return record

    object.__setattr__(model, "simulate", recorded(model.simulate))
    options: Any = {"sampler": recorded(partial(gaussian_posterior, model)), "batch_size": 20}
    first = calibration(model, 60, **options)
    assert len(set(seeds)) == len(seeds) == 4
    again, other = (calibration(model, 60, seed=s, **options) for s in (0, 1))
    assert first.ranks.equals(again.ranks)
    assert not first.ranks.equals(other.ranks)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training


def test_p_values_are_those_of_the_chi_square_test() -> None:
    generator = np.random.default_rng(0)
    ranks = pd.DataFrame(
        {"even": generator.integers(0, 100, 300), "middle": generator.binomial(99, 0.5, 300)}
    )
    p_values = SBCResult(ranks, 99).p_values()
    assert p_values["middle"] < 1e-12 < p_values["even"]
    assert SBCResult(ranks, 99).p_value() == 2.0 * p_values["middle"]  # Bonferroni
    assert SBCResult(ranks, 99, frozenset(["middle"])).p_value() == p_values["even"]
    assert SBCResult(ranks[["even"]].assign(again=ranks["even"]), 99).p_value() <= 1.0
    for count, num_draws, bins in ((300, 99, 20), (60, 99, 10), (1000, 63, 16)):
        even = pd.DataFrame({"z": generator.integers(0, num_draws + 1, count)})
        counts, _ = np.histogram(even["z"], bins=bins, range=(-0.5, num_draws + 0.5))
        assert counts.sum() / bins >= 5.0  # simulations in each
        # 1 - CDF of a chi-square distribution, as the regularised gamma function.
        statistic = float(((counts - count / bins) ** 2 / (count / bins)).sum())
        reference = special.gammaincc(0.5 * (bins - 1), 0.5 * statistic)
        assert SBCResult(even, num_draws).p_values()["z"] == pytest.approx(reference, rel=1e-6)
    text = "300 simulations, 99 posterior draws each: smallest p-value of 2 quantities "
    assert str(SBCResult(ranks, 99)).startswith(text)


def test_wrong_draws_are_refused() -> None:
    for wrong, message in (
        (lambda d: {"z": d["z"]}, r"must give draws of site 'c', got \['z'\]"),
        (lambda d: {**d, "z": d["z"][1:]}, r"'z' in shape \(99, 50, 2\) .* shape \(98, 50, 2\)"),
        (lambda d: {**d, "c": d["c"][..., 0]}, r"'c' in shape \(99, 50, 1\) .* shape \(99, 50\)"),
        (lambda d: {**d, "z": math.nan * d["z"]}, "'z' in shape .* and without NaN"),
    ):

        def sampler(*data: Tensor, wrong: Any = wrong, **options: Any) -> Draws:
            return wrong(gaussian_posterior(linear(GCM), *data, **options))

        with pytest.raises(ValueError, match=message):
            calibration(linear(GCM), 50, sampler=sampler)


def test_wrong_inputs_are_refused_before_anything_is_drawn() -> None:
    for kind, options, message in (
        (GCM, {"num_draws": 100}, r"divides num_draws \+ 1 = 101"),
        (GCM, {"x": rows(9), "r": revenues(9)}, "5 of 9 simulations for each"),
        (GCM, {"size": 50}, "simulate needs x in place of size"),
        (IGCM, {"r": revenues(50)}, "r must be left out"),
    ):
        usual = {"x": rows(50), "r": revenues(50) if kind is GCM else None}
        with pytest.raises(ValueError, match=message):
            simulation_based_calibration(linear(kind), sampler=pytest.fail, **{**usual, **options})


# Stories of one's own


def observed(sample: Any, x: Any) -> Any:
    u = sample("u", dist.Normal(0.0, 1.0))
    sample("proxy", lambda: dist.Normal(u, 0.5), obs=x[..., 1])
    return u


def shared(sample: Any, x: Any) -> Any:
    return of_rows(sample.shared, x[..., 2])


def discrete(sample: Any, x: Any) -> Any:
    return sample("m", dist.Categorical(torch.tensor([0.2, 0.3, 0.5])))


def exponential(sample: Any, x: Any) -> Any:
    return sample("u", dist.Exponential(torch.ones(len(x))))


class Story(GCM):
    """A GCM whose costs are shifted by what `lines` gives."""

    lines: Any

    def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
        z = sample("z", lambda: self.z_dist(x))
        by = self.lines(sample, x)
        c = sample("c", lambda: shifted(self.c_dist(z, x), by))
        return sample("y", lambda: self.y_dist(c, x, r), obs=y)


@pytest.mark.filterwarnings("ignore:.*effective sample size below 100")
@pytest.mark.parametrize("lines", [observed, shared, discrete, exponential])
def test_posteriors_of_stories_are_calibrated(lines: Any) -> None:
    def effects(self: Any, sample: Any) -> Any:
        return sample("effect", dist.Normal(torch.zeros(4), 1.0).to_event(1))

    own = {"lines": staticmethod(lines), **({"shared": effects} if lines is shared else {})}
    response = "continuous" if lines is exponential else "binary"
    model: Any = type("Own", (Story,), own)(3, 2, seed=0, response=response)
    g, size = torch.Generator().manual_seed(0), 100 if lines is shared else 200
    x, r = torch.randn(size, 3, generator=g), torch.rand(size, 2, generator=g)
    x[:, 2] = (torch.arange(size) % 4).float()
    found = simulation_based_calibration(model, x, r, seed=1, progress=False)
    # A right posterior fails one time in 10,000.
    assert found.p_value() > 1e-4, str(found)
