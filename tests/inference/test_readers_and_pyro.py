"""The reader of training and Pyro's handlers: the same losses and gradients."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
import zoo
from pyro.infer import RenyiELBO, Trace_ELBO, TraceMeanField_ELBO
from torch import Tensor, nn
from training_runs import loss_and_gradient

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.inference.scored import Scored, normal_noise
from pyro_gcm.nets import Conditional

STEPS = {"epochs": 2, "batch_size": 16, "num_particles": 4, "progress": False, "seed": 2}


@pytest.fixture(scope="module")
def few(toy: zoo.Rows) -> zoo.Rows:
    """Two batches."""
    return zoo.Rows(*(column[:32] for column in toy))


@pytest.mark.usefixtures("float64")
def test_the_doubly_reparametrised_gradient_is_the_published_formula() -> None:
    """Tucker et al. (2019), equation (8), with draws of the guide by the same noise."""
    model, rows = zoo.build("posterior guide"), zoo.rows_of("posterior guide", 48)[:3]
    model.eval().learn_units(*rows)
    pair = model.training_pair()

    def read(elbo: str) -> Scored:
        torch.manual_seed(1)
        return Scored(model, pair.plan, pair.bound(elbo, 4)).read(*rows)

    mine, usual, again = map(read, ("dreg", "iwae", "iwae"))
    loss, unchanged = (each.row_losses(1).sum() for each in (mine, usual))
    torch.testing.assert_close(loss, unchanged)
    path = again.values["z"]  # a function of the guide's parameters
    z = path.detach().requires_grad_()

    def log_joint() -> Tensor:
        program = poutine.condition(pyro.plate("draws", 4, dim=-2)(pair.program), {"z": z})
        trace = poutine.trace(program).get_trace(*rows)
        trace.compute_log_prob()
        return trace.nodes["z"]["log_prob"] + trace.nodes["y"]["log_prob"]

    log_w = log_joint() - model.z_guide_dist(*rows).log_prob(z)
    w, (slope,) = log_w.detach().softmax(0), torch.autograd.grad(log_w.sum(), z)
    by_hand = -(w * log_joint()).sum() - (w[..., None] ** 2 * slope * path).sum()
    _, found = loss_and_gradient(model, loss)
    _, wanted = loss_and_gradient(model, by_hand)
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-9)
    assert (found - loss_and_gradient(model, unchanged)[1]).abs().max() > 1e-3


class Mine(TraceMeanField_ELBO):
    """A bound of the user's own."""


@pytest.mark.parametrize("bound", [Trace_ELBO(1, max_plate_nesting=1), RenyiELBO(0.5, 2), Mine(4)])
@pytest.mark.parametrize("kind", [GCM, IGCM])
def test_any_elbo_of_pyro_trains_by_its_own_loss(kind: Any, bound: Any, few: zoo.Rows) -> None:
    pyro.get_param_store()["mine"] = torch.ones(2)
    model = kind(3, 2, guide="amortised")
    result = fit(model, *few, **{**STEPS, "epochs": 10}, validation=0.2, elbo=bound)
    losses = result.history["loss"].tolist()
    assert losses[-1] < losses[0]
    assert list(pyro.get_param_store()) == ["mine"]
    pyro.clear_param_store()


class Counting(nn.Module):
    """A prior with batch norm, whose statistics a step changes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.net = nn.BatchNorm1d(3), Conditional(dist.Normal, 3, (2,), 4)

    def forward(self, x: Tensor) -> Any:
        return self.net(self.norm(x))


def test_the_first_step_updates_the_statistics_of_batch_norm_once(few: zoo.Rows) -> None:
    model = GCM(3, 2, prior=Counting(), z_dim=2)
    result = fit(model, *few, **STEPS)
    steps = int(result.history["step"].iloc[-1])
    assert int(model.z_prior.norm.num_batches_tracked) == steps


def test_draws_of_training_are_standard_normal_and_fill_the_space() -> None:
    torch.manual_seed(0)
    like = torch.zeros((), dtype=torch.float64)
    draws = torch.cat([normal_noise(16, 20_000, first, 1, like) for first in range(3)], -1)
    assert draws.shape == (16, 20_000, 3)
    torch.testing.assert_close(draws.mean((0, 1)), 0.0 * draws[0, 0], rtol=0.0, atol=0.01)
    torch.testing.assert_close(
        draws.flatten(0, 1).T.cov(), torch.eye(3).double(), rtol=0, atol=0.02
    )
    # The mean over a row's draws has a fraction of the variance 1/16 of independent ones.
    assert (draws.mean(0).var(0) < 0.3 / 16).all()


def test_draws_of_any_site_are_finite_and_have_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    for end in (0.0, 1.0 - 2.0**-24):
        monkeypatch.setattr(torch, "rand", lambda *shape, end=end, **_: torch.full(shape, end))
        loc = torch.zeros(3, 1, requires_grad=True)
        model: Any = GCM(3, 2)
        for q in (dist.Laplace(loc, 1.0), dist.Gumbel(loc, 1.0), dist.StudentT(5.0, loc, 1.0)):
            reader = Scored(model, model.prediction_plan, RenyiELBO(num_particles=2))
            reader.shape = (2, 3)
            draws = reader.draw("z", q.to_event(1))
            assert draws.shape == (2, 3, 1)
            assert draws.isfinite().all()
            assert draws.requires_grad
