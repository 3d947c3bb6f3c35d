"""What the posterior of a model is asked and answers: methods, quality, seeds, shapes, refusals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import pyro.distributions as dist
import pytest
import torch
import zoo
from scipy.stats import ks_2samp
from torch import Tensor

from pyro_gcm import GCM, IGCM
from pyro_gcm.prediction.draws import PosteriorDraws

QUIET: dict[str, Any] = {"num_samples": 50, "progress": False}


def model_of(kind: type = GCM, **options: Any) -> Any:
    """A model whose costs z moves more than at the start, with the units of its rows."""
    options = {"hidden": 8, "seed": 6, "num_samples": 128, **options}
    model = zoo.informative(zoo.make(kind, **options))
    model.learn_units(*zoo.rows("continuous", 500, 3)[:3])
    return model


def data(count: int) -> tuple[Tensor, Tensor, Tensor]:
    return *zoo.rows(count=count, seed=16)[:2], torch.arange(count) % 2.0


def with_a_rare_row(model: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Six rows, of which row 2 has an outcome that rejection hardly ever meets."""
    x, r, y = data(6)
    r[2] = torch.tensor([54.0, -0.65])
    y[2] = 1.0
    assert model.predict(x, r)[2] < 0.5 / 128.0
    return x, r, y


# Shapes, types and names


@pytest.mark.filterwarnings("ignore:.*effective sample size")
def test_draws_have_the_shapes_of_the_program_and_keep_their_quality() -> None:
    model = model_of()
    for count in (1, 63, 64, 65, 300):
        x, r, y = data(count)
        draws: PosteriorDraws = model.posterior(x, r, y, num_samples=20, progress=False)
        shapes = {name: tuple(value.shape) for name, value in draws.items()}
        assert shapes == {"z": (20, count, 2), "c": (20, count, 2), "y": (20, count)}
        assert draws.ess.shape == draws.pareto_k.shape == draws.log_evidence.shape == (count,)
    x, r, y = data(5)
    assert model.posterior(x, r, y, num_samples=1, progress=False)["z"].shape == (1, 5, 2)
    implicit = model_of(IGCM, k_dim=3, alternatives=2, costs=2).posterior(x, r, y, **QUIET)
    shapes = {name: tuple(value.shape[2:]) for name, value in implicit.items()}
    assert shapes == {"z": (2,), "k": (3,), "c": (2, 2), "y": ()}
    assert set(model.cost_posterior(x, r, y, **QUIET)) == {"z", "c"}
    model.train()
    draws = model.posterior(x.requires_grad_(), r, y, **QUIET)
    assert model.training
    assert not any(value.requires_grad for value in draws.values())
    part = draws.only("c", "k", "z")
    assert isinstance(part, Mapping)
    assert set(part) == {"c", "z"}
    assert len(part) == 2
    assert part["c"] is draws["c"]
    mine, theirs = part.quality(), draws.quality()
    assert mine.keys() == theirs.keys() >= {"ess", "pareto_k", "log_evidence"}
    assert all(mine[name] is theirs[name] for name in theirs)
    with pytest.raises(KeyError):
        part["y"]
    with pytest.raises(KeyError, match="'z'"):
        model.log_likelihood(x, r, y, sites={"c": draws["c"]})


# Methods and their quality


def test_exact_draws_say_that_they_are() -> None:
    model, (x, r, y) = model_of(), data(8)
    for asked in ({}, {"method": "rejection"}):
        draws = model.posterior(x, r, y, **asked, **QUIET)
        assert (draws.ess == 50.0).all()
        assert draws.pareto_k.isnan().all()
    resampled = model.posterior(x, r, y, method="importance", num_proposals=500, **QUIET)
    assert not resampled.pareto_k.isnan().any()
    assert ((resampled.ess > 33.0) & (resampled.ess < 50.0)).all()
    assert (resampled.log_evidence - draws.log_evidence).abs().max() < 0.4
    without = model.posterior(x, r, method="importance", **QUIET)  # there is nothing to weigh
    assert without.pareto_k.isnan().all()
    assert (without.log_evidence == 0.0).all()


def test_rare_outcomes_are_drawn_by_importance_and_the_others_stay_exact() -> None:
    model = model_of()
    x, r, y = with_a_rare_row(model)
    rare = torch.arange(6) == 2
    draws = model.posterior(x, r, y, num_samples=200, progress=False)
    assert torch.equal(~draws.pareto_k.isnan(), rare)
    assert (draws.ess[~rare] == 200.0).all()
    assert 66.0 < draws.ess[rare] < 200.0
    expected = model.log_prob(x, r, y, num_samples=4096)
    assert ((draws.log_evidence - expected).abs() < torch.where(rare, 0.3, 0.2)).all()
    happened = (draws["c"] < r).all(-1)
    assert (happened == (y == 1.0)).all()
    # The draws of the rare row are those that it has alone.
    alone = model.posterior(x[2:3], r[2:3], y[2:3], num_samples=2000, progress=False)
    many = model.posterior(x, r, y, num_samples=2000, progress=False, seed=4)
    assert ks_2samp(alone["z"][:, 0, 0], many["z"][:, 2, 0]).pvalue > 1e-4
    with pytest.raises(RuntimeError, match=r"more than 128 proposals a draw for 1 rows.*'auto'"):
        model.posterior(x, r, y, method="rejection", **QUIET)


def test_poor_draws_are_told_of_where_they_were_asked_for() -> None:
    model, (x, r, y) = model_of(), data(5)
    message = (
        r"5 of 5 rows have an effective sample size below 100 \(lowest \d+\.\d\)"
        r"( or a Pareto k above 0\.7 \(highest \d+\.\d+\))?: .* raise num_proposals"
    )
    options = {"method": "importance", "num_proposals": 40, "progress": False}
    with pytest.warns(UserWarning, match=message) as caught:
        draws = model.posterior(x, r, y, **options)
    assert caught[0].filename == __file__
    assert draws.ess.max() < 40.0
    with warnings.catch_warnings():  # not fewer than there are draws
        warnings.simplefilter("error")
        model.posterior(x, r, y, num_samples=2, **{**options, "num_proposals": 400})


def test_outcome_that_the_model_excludes_is_an_error() -> None:
    model, (x, r, _) = model_of(p0="constant"), data(4)
    model.infinite_net.logits.data.fill_(math.inf)
    state = torch.get_rng_state()
    for asked in ({}, {"method": "importance"}):
        for y in (torch.ones(4), torch.tensor([0.0, 1.0, 1.0, 0.0])):
            message = f"no proposal explains the observations of {int(y.sum())} rows"
            with pytest.raises(RuntimeError, match=message):
                model.posterior(x, r, y, **asked, **QUIET)
        assert torch.equal(torch.get_rng_state(), state)
    draws = model.posterior(x, r, torch.zeros(4), **QUIET)
    assert draws["c"].isposinf().all()
    assert (draws.log_evidence == 0.0).all()


# Randomness


@pytest.mark.parametrize("method", ["rejection", "importance"])
def test_the_seed_decides_and_nothing_else(method: str) -> None:
    model, (x, r, y) = model_of(), data(5)
    state = torch.get_rng_state()
    draws = [model.posterior(x, r, y, method=method, seed=seed, **QUIET) for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(5)
    draws.append(model.posterior(x, r, y, method=method, seed=0, **QUIET))
    for name in ("z", "c", "y"):
        assert torch.equal(draws[0][name], draws[1][name])
        assert torch.equal(draws[0][name], draws[3][name])
    for name in ("z", "c"):
        assert (draws[0][name] != draws[2][name]).any(-1).all()


def test_draws_of_a_row_are_independent() -> None:
    model, (x, r, y) = model_of(), data(3)
    for method in ("rejection", "importance"):
        draws = model.posterior(x, r, y, num_samples=4000, num_proposals=100_000, method=method)
        z = draws["z"] - draws["z"].mean(0)
        lagged = (z[1:] * z[:-1]).mean(0) / z.square().mean(0)
        assert lagged.abs().max() < 4.5 / 4000**0.5


# What is refused


def test_wrong_arguments_are_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (x, r, y) = model_of(), data(4)
    monkeypatch.setattr(model.z_prior, "forward", None)
    for change, message in (
        ({"num_samples": 0}, "num_samples must be an integer of at least 1, got 0"),
        ({"num_proposals": 29}, "num_proposals must be an integer of at least 30, got 29"),
        ({"method": "exact"}, "method must be one of .*'enumeration', 'rejection', 'importance'"),
    ):
        for method in (model.posterior, model.cost_posterior):
            with pytest.raises(ValueError, match=message):
                method(**{"x": x, "r": r, "y": y, **change})


def test_proposals_beside_an_observed_site_are_rejected_among_those_that_agree_with_it() -> None:
    class WithProxy(GCM):
        def story(self, sample: Any, x: Any, r: Any, y: Any = None, c: Any = None) -> Any:
            z = sample("z", lambda: self.z_dist(x))
            u = sample("u", dist.Normal(torch.zeros(len(x)), 1.0))
            sample("proxy", lambda: dist.Normal(u, 0.5), obs=x[:, 0])
            c = sample("c", lambda: self.c_dist(z, x))
            return sample("y", lambda: self.y_dist(c, x, r), obs=y)

    x, r, y = data(20)
    x[:, 0] = torch.linspace(-1.5, 1.5, 20)
    draws = (
        WithProxy(3, 2, seed=0)
        .posterior(x, r, y, method="rejection", num_samples=4000, progress=False)["u"]
        .double()
    )
    # Normal given its proxy, of 4,000 draws from pools of 8 times as many: errors below .01.
    torch.testing.assert_close(draws.mean(0), 0.8 * x[:, 0].double(), rtol=0.0, atol=0.06)
    torch.testing.assert_close(draws.var(0), torch.full((20,), 0.2).double(), rtol=0.0, atol=0.04)


def test_rejection_is_refused_where_proposals_have_weights_or_densities() -> None:
    x, r, y = data(4)
    joint = GCM(3, 2, prior="standard")
    joint.objective = "joint"
    for model in (GCM(3, 2, response="continuous"), joint):
        with pytest.raises(ValueError, match="method='rejection' needs a response with a bounded"):
            model.posterior(x, r, y, method="rejection", **QUIET)
