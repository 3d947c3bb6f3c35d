"""Training by the reader of a story and through Pyro's handlers: the same losses and weights."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pyro.distributions as dist
import pytest
import torch
import zoo
from pyro.infer import RenyiELBO, Trace_ELBO, TraceMeanField_ELBO
from torch import Tensor, nn
from training_cases import CASES, Rows, case_of, loss_and_gradient

from pyro_gcm import GCM, fit
from pyro_gcm.inference import ImportanceWeightedELBO, of_rows
from pyro_gcm.inference.bounds import weighted_loss
from pyro_gcm.inference.program_trainer import DrivenSites
from pyro_gcm.inference.scored import Noise, QuasiRandomNoise, Scored
from pyro_gcm.nets import Conditional
from pyro_gcm.training import FitSettings, gathered

STEPS = {"epochs": 2, "batch_size": 16, "num_particles": 4, "progress": False, "seed": 2}
QMC = FitSettings(particles="qmc")


@pytest.fixture(scope="module")
def few(toy: Rows) -> Rows:
    """Two batches."""
    return Rows(*(column[:32] for column in toy))


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


#: Near relatives of others, which run with `--long all`.
SELDOM = {"one draw", "laplace", "members, evidence", "implicit, one kernel"}
#: With weights of the rows and quasi-random draws.
OFTEN = ("renyi", "alternatives, p0", "dreg", "members, pooled", "mean field", "implicit, paper")
RUNS = [(case, particles) for case in CASES for particles in ("random", "qmc")]


@pytest.mark.long(
    keep=[f"{name}-random" for name in CASES if name not in SELDOM]
    + [f"{name}-qmc" for name in OFTEN]
)
@pytest.mark.usefixtures("seeded_steps", "float64")
@pytest.mark.filterwarnings("ignore:prior='standard':UserWarning")
@pytest.mark.parametrize(("case", "particles"), RUNS)
def test_the_reader_trains_as_pyro_does(case: str, particles: str) -> None:
    found = []
    for engine in ("auto", "pyro"):
        model, rows, training = case_of(case)
        is_weighted = particles == "qmc"
        weight = torch.linspace(0.0, 3.0, len(rows.y)) if is_weighted else None
        options = {**STEPS, "validation": 0.25, "particles": particles, "engine": engine}
        result = fit(model, *rows, sample_weight=weight, **gathered({**options, **training}))
        found.append((model, result))
    (plain, result), (through_pyro, reference) = found
    assert (result.engine, reference.engine) == ("plain", "pyro")
    assert reference.engine_reason == "engine='pyro' was asked for"
    torch.testing.assert_close(weights(plain), weights(through_pyro), rtol=1e-8, atol=1e-9)
    for column in ("loss", "validation_loss"):
        losses, wanted = (torch.tensor(h.history[column]) for h in (result, reference))
        torch.testing.assert_close(losses, wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["joint", "joint, continuous"])
def test_missing_values_are_scored_as_pyro_does(kind: str, weighted: bool) -> None:
    model, data = zoo.with_units(kind), zoo.rows_of(kind)
    columns = [*data]
    pair = model.training_pair(model.objective)
    bound = pair.bound(None, 4)
    weight = torch.linspace(0.1, 2.0, 64).double() if weighted else torch.ones(64).double()
    noise, found = OfSites(), []
    for engine in ("plain", "pyro"):
        noise.drawn.clear()
        if engine == "plain":
            losses = Scored(model, pair.plan, bound, noise).read(*columns).row_losses(1)
            loss = (weight * losses).sum()
        else:
            guide = DrivenSites(noise, bound)(pair.guide)
            loss = weighted_loss(bound, pair.program, guide, columns, weight)
        found.append(loss_and_gradient(model, loss))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


class OfSites(Noise):
    """The same draws in both engines, whatever else they draw: of a seed for each site in turn."""

    def __init__(self) -> None:
        self.drawn: list[Any] = []

    def draw(self, q: Any, shape: tuple[int, ...]) -> Tensor:
        self.drawn.append(q)
        with torch.random.fork_rng():
            torch.manual_seed(len(self.drawn))
            return super().draw(q, shape)


def test_an_elbo_of_pyro_runs_as_svi_runs_it(few: Rows) -> None:
    class Mine(TraceMeanField_ELBO):
        pass

    for bound in (Trace_ELBO(1, max_plate_nesting=1), Mine(4, max_plate_nesting=1)):
        result = fit(GCM(3, 2), *few, **STEPS, elbo=bound)
        assert result.engine == "pyro"
        assert f"elbo is an object, {type(bound).__name__}" in result.engine_reason


class Counting(nn.Module):
    """A prior with batch norm, whose statistics a step changes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.net = nn.BatchNorm1d(3), Conditional(dist.Normal, 3, (2,), 4)

    def forward(self, x: Tensor) -> Any:
        return self.net(self.norm(x))


def test_the_first_step_updates_the_statistics_of_batch_norm_once(few: Rows) -> None:
    model = GCM(3, 2, prior=Counting(), z_dim=2)
    result = fit(model, *few, **STEPS)
    assert result.engine == "plain"
    steps = int(result.history["step"].iloc[-1])
    assert int(model.z_prior.norm.num_batches_tracked) == steps


def test_unknown_engines_and_particles_are_refused(few: Rows) -> None:
    with pytest.raises(ValueError, match=r"engine must be one of .*got 'fast'"):
        fit(GCM(3, 2), *few, settings=FitSettings(engine="fast"))
    with pytest.raises(ValueError, match=r"particles must be one of .*got 'sobol'"):
        fit(GCM(3, 2), *few, settings=FitSettings(particles="sobol"))


def test_quasi_random_draws_are_standard_normal_and_fill_the_space() -> None:
    torch.manual_seed(0)
    noise = QuasiRandomNoise(16, 3, seed=0, like=torch.zeros((), dtype=torch.float64))
    noise.new_batch(20_000)
    q = dist.Normal(torch.zeros(20_000, 3, dtype=torch.float64), 1.0).to_event(1)
    draws = noise.draw(q, (16, 20_000))
    assert draws.shape == (16, 20_000, 3)
    torch.testing.assert_close(draws.mean((0, 1)), torch.zeros(3).double(), rtol=0.0, atol=0.02)
    torch.testing.assert_close(draws.std((0, 1)), torch.ones(3).double(), rtol=0.01, atol=0.0)
    # The mean over a row's draws has a fraction of the variance 1/16 of independent ones.
    assert (draws.mean(0).var(0) < 0.3 / 16).all()
    # Nearly one point in every sixteenth of each coordinate; of random ones 10.3 are hit.
    cells = (torch.special.ndtr(draws) * 16).floor()
    counts = [len(set(column.tolist())) for row in cells[:, :200].unbind(1) for column in row.T]
    assert sum(counts) / len(counts) > 12.0


class Heavy(nn.Module):
    """A prior without quantile functions."""

    def __init__(self) -> None:
        super().__init__()
        self.loc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Any:
        return dist.StudentT(5.0, self.loc(x), 1.0).to_event(1)


def test_what_nothing_can_drive_is_drawn_at_random_and_says_so(few: Rows) -> None:
    model = GCM(3, 2, prior=Heavy(), z_dim=2)
    with pytest.warns(UserWarning, match="nothing drives draws of Independent, which are random"):
        fit(model, *few, **STEPS, settings=QMC)
    noise = QuasiRandomNoise(4, 2, seed=0, like=torch.zeros(()))
    q = model.z_dist(few.x[:5])
    noise.new_batch(5)
    noise.at_random.add("Independent")  # told already
    first, second = noise.draw(q, (4, 5)), noise.draw(q, (4, 5))
    assert first.requires_grad
    assert not torch.equal(first, second)


def test_float32_draws_by_quantiles_are_finite_in_the_tails() -> None:
    noise = QuasiRandomNoise(2, 1, seed=0, like=torch.zeros(()))
    noise.new_batch(3)
    noise.base = torch.tensor([-8.1, 8.1]).reshape(2, 1, 1).expand(2, 3, 1)
    q = dist.Laplace(torch.zeros(3, 1), torch.ones(3, 1)).to_event(1)
    assert noise.draw(q, (2, 3)).isfinite().all()


@pytest.mark.parametrize(
    "bound", [ImportanceWeightedELBO(4), Trace_ELBO(4, max_plate_nesting=1), Trace_ELBO(4)]
)
def test_one_set_of_points_needs_a_bound_that_draws_all_particles_at_once(
    bound: Any, few: Rows
) -> None:
    with pytest.raises(ValueError, match="elbo must have max_plate_nesting=1"):
        fit(GCM(3, 2), *few, **STEPS, elbo=bound, settings=QMC)


class Fixed(nn.Module):
    """A guide that has nothing to learn."""

    def forward(self, x: Tensor, r: Tensor, y: Tensor) -> Any:
        return dist.Normal(torch.zeros(len(x), 2), 1.5).to_event(1)


def test_dreg_of_a_guide_without_parameters(few: Rows) -> None:
    result = fit(GCM(3, 2, guide=Fixed(), z_dim=2), *few, **STEPS, elbo="dreg")
    assert result.engine == "plain", result.engine_reason


@pytest.mark.parametrize("engine", ["auto", "pyro"])
@pytest.mark.parametrize(
    "make", [ImportanceWeightedELBO, functools.partial(RenyiELBO, 0.5), Trace_ELBO]
)
def test_points_and_weights_give_the_same_loss_whatever_nesting_a_bound_allows(
    make: Any, engine: str, few: Rows
) -> None:
    losses = []
    for nesting in (1, 2, 4):
        bound = make(num_particles=4, max_plate_nesting=nesting, vectorize_particles=True)
        for weight in (None, torch.ones(32), torch.linspace(0.5, 2.0, 32)):
            options: Any = {
                **STEPS,
                "epochs": 1,
                "settings": replace(QMC, engine=engine),
                "elbo": bound,
            }
            result = fit(GCM(3, 2), *few, sample_weight=weight, **options)
            losses.append(result.history["loss"].to_numpy())
    for plain, equal, weighted in zip(*[iter(losses)] * 3, strict=True):
        np.testing.assert_allclose(plain, losses[0], rtol=1e-5)
        np.testing.assert_allclose(equal, losses[0], rtol=1e-5)
        np.testing.assert_allclose(weighted, losses[2], rtol=1e-5)


def test_rows_get_the_values_of_their_groups_in_every_reading() -> None:
    group = torch.tensor([2, 0, 2, 1])
    values = torch.arange(3 * 4 * 3).reshape(3, 4, 3)  # [draws, rows, groups]
    each = [[int(v[row, group[row]]) for row in range(4)] for v in values]
    assert of_rows(values, group).tolist() == each
    assert of_rows(values[0], group).tolist() == each[0]
    assert of_rows(values[:, :1], group).tolist() == values[:, 0, group].tolist()
    assert of_rows(values[0, 0], group.double()).tolist() == [2, 0, 2, 1]
